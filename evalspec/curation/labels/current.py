"""Which labels count: of each person the latest on each thing, and the first blind score. Which a person may see."""

from collections.abc import Iterable, Sequence

from evalspec.curation.labels.files import sort_labels
from evalspec.model.labels import Label, LabelVerdict, Target


def list_current(labels: Iterable[Label]) -> list[Label]:
    """Return the latest label of each person on each target, without withdrawn ones, oldest first."""
    latest = {(label.target, label.labeller): label for label in sort_labels(labels)}
    return sort_labels(label for label in latest.values() if label.verdict is not LabelVerdict.WITHDRAWN)


def list_blind(labels: Iterable[Label]) -> list[Label]:
    """Return the labels that agreement counts: as `list_current`, but of each person the latest blind one.

    Who has withdrawn a label has none. Who has changed it after they could see others' labels keeps the earlier one.
    Who has withdrawn it then and labelled again has none that is blind.
    """
    blind: dict[tuple[Target, str], Label] = {}
    for label in sort_labels(labels):
        if label.verdict is LabelVerdict.WITHDRAWN:
            blind.pop((label.target, label.labeller), None)
        elif not label.is_informed:
            blind[label.target, label.labeller] = label
    return sort_labels(blind.values())


def list_blind_scores(labels: Iterable[Label]) -> list[Label]:
    """Return the scores that people gave without sight of the judge's, of each person the first on each target.

    The judge's score is shown after a label. So whoever changes one keeps the earlier one, also where a file or another
    clone calls the later one blind. Whoever has withdrawn it has none but later ones.
    """
    first: dict[tuple[Target, str], Label] = {}
    for label in (one for one in drop_withdrawn_scores(labels) if one.is_blind):
        first.setdefault((label.target, label.labeller), label)
    return sort_labels(first.values())


def drop_withdrawn_scores(labels: Iterable[Label]) -> list[Label]:
    """Return labels, oldest first, without scores of people that they took back in the run of the label."""
    kept: dict[tuple[str, Target, str], list[Label]] = {}
    for label in sort_labels(labels):
        own = kept.setdefault((label.run, label.target, label.labeller), [])
        if label.verdict is LabelVerdict.WITHDRAWN:
            own[:] = [one for one in own if one.verdict is not LabelVerdict.RATED]
        own.append(label)
    return sort_labels(one for own in kept.values() for one in own)


def list_visible(labels: Iterable[Label], viewer: str | None) -> list[Label]:
    """Return the current labels that a person may see: their own, and all on targets that they have labelled.

    `viewer`: None for somebody unknown, who sees none of the labels.
    """
    current = list_current(labels)
    own = {label.target for label in current if label.labeller == viewer}
    return [label for label in current if label.target in own]


def list_shown(labels: Sequence[Label], viewer: str | None, *, history: bool) -> Sequence[Label]:
    """Return the labels that a person may see. `history`: also those that were replaced or withdrawn."""
    visible = list_visible(labels, viewer)
    if not history:
        return visible
    targets = {one.target for one in visible}
    return [one for one in labels if one.target in targets or one.labeller == viewer]


def is_informed(others: Iterable[Label], labeller: str) -> bool:
    """Return whether a person could ever see what others say: they had a label on a target while others had one too.

    `others`: all labels on the target, withdrawn ones included.
    """
    active = set[str]()
    for label in sort_labels(others):
        if label.verdict is LabelVerdict.WITHDRAWN:
            active.discard(label.labeller)
        else:
            active.add(label.labeller)
        if labeller in active and len(active) > 1:
            return True
    return False


def group_by_target(labels: Iterable[Label]) -> dict[Target, list[Label]]:
    """Return labels by what they are about."""
    found: dict[Target, list[Label]] = {}
    for label in labels:
        found.setdefault(label.target, []).append(label)
    return found
