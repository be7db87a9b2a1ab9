"""What pages show of labels: the verdicts on a sample, as far as the visitor may see them, and the forms for their own.

Nobody sees what others say about a reply or a score before they have labelled it themselves.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.curation.labels.binding import LabelMatch, compute_reply_digest
from evalspec.curation.labels.current import list_current, list_visible
from evalspec.curation.labels.session import VERDICT_KEYS
from evalspec.model import Score
from evalspec.model.labels import OF_REPLIES, OF_SCORES, Label, Target
from evalspec.reports.rows import AttemptRow
from evalspec.service.indexed_run import IndexedRun, find_label_files, open_indexed_run
from evalspec.service.pages.visits import Visit
from evalspec.service.sample_pages import SampleDetails

_METRICS_OFFERED = 100
_OTHERS_SHOWN = 5
_INLINE = 8
_LINKED = 60
"""So many forms are on the page of a sample, and so many further ones are links."""


class ShownLabel(Struct, frozen=True):
    """One label. `said`: the verdict, with the person's score. `doubt`: why it does not count for the run; or empty."""

    labeller: str
    said: str
    is_good: bool
    note: str | None
    at: str
    doubt: str = ""


class LabelForm(Struct, frozen=True):
    """The labels on one reply or score, and the form for the visitor's own.

    `action`: where the form is sent; None: the visitor may not label, or there is nothing to judge. `seen`: the digest
    of the reply. `verdicts`: key and name of each. `others`: labels of others that the visitor may see. `hidden`:
    number of those that the visitor sees after labelling. `is_inline`: whether the form is on the page of the sample.
    """

    metric: str | None
    action: str | None
    seen: str
    verdicts: tuple[tuple[str, str], ...]
    own: ShownLabel | None
    others: tuple[ShownLabel, ...]
    more_others: int
    hidden: int
    is_inline: bool = True

    @property
    def has_value(self) -> bool:
        """Whether a person may give a score of their own."""
        return self.metric is not None


class SampleLabelling(Struct, frozen=True):
    """The forms of a sample, by attempt and metric; None is the reply as a whole."""

    forms: Mapping[tuple[int, str | None], LabelForm]

    def find(self, attempt: int, metric: str | None = None) -> LabelForm | None:
        """Return the form of a reply, or of a score; None if there is nothing to judge."""
        return self.forms.get((attempt, metric))

    @property
    def is_open(self) -> bool:
        """Whether the visitor may label something."""
        return any(form.action is not None for form in self.forms.values())


def show_labelling(visit: Visit, run_id: str, found: SampleDetails) -> SampleLabelling:
    """Return the labels and forms of a sample. There are none if the run does not keep its texts."""
    dataset, sample = found.row.dataset, found.row.result.id
    labels = find_label_files(visit.project.root).read(run_id)
    own = [one for one in labels if one.sample == sample and one.dataset == dataset]
    run = open_indexed_run(visit.access, run_id) if own else None
    forms: dict[tuple[int, str | None], LabelForm] = {}
    for row in found.attempts:
        digest = None if row.exchange is None else compute_reply_digest(row.exchange)
        for metric in _list_judged(row):
            target = dataset, sample, row.number, metric
            on_it = [one for one in own if one.target == target]
            action = visit.link_run(run_id, "/label", at=found.row.position, attempt=row.number, about=metric, back=1)
            if len(forms) >= _INLINE + _LINKED:
                break
            shown = show_form(visit, run, target, digest, on_it, action)
            is_inline = len(forms) < _INLINE
            forms[row.number, metric] = shown if is_inline else replace(shown, others=(), is_inline=False)
    return SampleLabelling(forms)


def _list_judged(row: AttemptRow) -> Iterable[str | None]:
    """Yield what people label of an attempt: the reply, and each score that says why it is as it is."""
    if row.exchange is None or row.exchange.reply is None:
        return
    yield None
    yield from (metric for metric, score in row.scores.items() if _is_judged(score))


def _is_judged(score: Score) -> bool:
    return score.value is not None and (score.reason is not None or score.evidence_or_none is not None)


def show_form(
    visit: Visit,
    run: IndexedRun | None,
    target: Target,
    digest: str | None,
    labels: Sequence[Label],
    action: str,
) -> LabelForm:
    """Return the labels on a target and the form for the visitor's own.

    `run`: needed if there are labels. `digest`: of the reply, None if there is none. `labels`: all on the target.
    """
    viewer, metric = visit.access.caller.user, target[3]
    current, visible = list_current(labels), list_visible(labels, viewer)
    matches = list(run.list_matches(target, visible)) if run is not None and visible else []
    shown = [(one, _show_label(one, match)) for one, match in matches]
    others = [one for label, one in shown if label.labeller != viewer]
    own = next((one for label, one in shown if label.labeller == viewer), None)
    verdicts = OF_REPLIES if metric is None else OF_SCORES
    return LabelForm(
        metric,
        action if visit.may("review") and digest is not None else None,
        digest or "",
        tuple((VERDICT_KEYS[verdict], str(verdict)) for verdict in verdicts),
        own,
        tuple(others[:_OTHERS_SHOWN]),
        max(len(others) - _OTHERS_SHOWN, 0),
        len(current) - len(visible),
    )


def _show_label(label: Label, match: LabelMatch) -> ShownLabel:
    doubt = "" if match is LabelMatch.COUNTS else str(match)
    at = render_label_time(label.at)
    return ShownLabel(label.labeller, render_verdict(label), label.verdict.is_good, label.note, at, doubt)


def render_verdict(label: Label) -> str:
    """Return a verdict with the score that the person would have given."""
    return str(label.verdict) if label.value is None else f"{label.verdict} ({label.value:.4g})"


def render_label_time(at: str) -> str:
    """Return the time of a label to the minute."""
    return f"{at[:10]} {at[11:16]} UTC"


def list_metrics(run: IndexedRun) -> list[str]:
    """Return the metrics whose scores a person may choose to label."""
    names = (metric.name for dataset in run.outlines.values() for metric in dataset.metrics)
    return list(dict.fromkeys(names))[:_METRICS_OFFERED]
