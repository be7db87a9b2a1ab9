"""Record what a person says about a reply or a score of a run, and what the labels were used for."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import Case, LabelMatch, match_label
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import drop_withdrawn_scores, group_by_target, is_informed, list_current
from evalspec.curation.labels.files import find_time, hash_label, list_labelled_runs, replace_labels, write_labels
from evalspec.curation.labels.judged_run import JudgedRun, explain_unknown
from evalspec.curation.labels.rating import score_answers
from evalspec.curation.labels.records import make_label
from evalspec.model.corrections import Draw
from evalspec.model.labels import OF_REPLIES, OF_SCORES, Answer, Label, LabelUse, LabelVerdict, Target
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.outline import MetricOutline

CHOSEN = Draw()


def use_labels(run: str, metric: str, purpose: str, *, store: Path | str = STORE) -> list[Label]:
    """Record that people's blind scores have helped to choose a prompt or a threshold, and return them.

    They no longer correct or calibrate the metric: what was chosen by them looks better on them than it is.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`. Labels that carry over to it are included.
        metric: The metric that people scored.
        purpose: `prompt` or `threshold`.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run, metric or purpose, or no label is blind.
        StoreError: The run is damaged, or a label cannot be written.
    """
    opened, use = LabelledRun(RunStore(Path(store)), run), LabelUse(purpose)
    if not any(opened.has_metric(dataset, metric) for dataset in opened.outlines):
        names = list(dict.fromkeys(one.name for outline in opened.outlines.values() for one in outline.metrics))
        raise InvalidInput(explain_unknown("metric", metric, names, opened.id))
    given = [one for one in opened.files.read_all() if one.metric == metric and one.is_blind and one.used_for is None]
    matched = (pair for target, own in group_by_target(given).items() for pair in opened.list_matches(target, own))
    wanted = {hash_label(one): one for one, match in matched if match is LabelMatch.COUNTS}
    if not wanted:
        fix = f"label replies: evalspec label {opened.id} --metric {shlex.quote(metric)} --random 50"
        raise InvalidInput(f"run {opened.id} has no blind labels of {metric} that were used for nothing yet", fix)

    def mark(label: Label) -> Label:
        return replace(label, used_for=use) if hash_label(label) in wanted else label

    root = opened.files.root
    for name in list_labelled_runs(root):
        replace_labels(root, name, mark, dry_run=False)
    return [*wanted.values()]


def add_label(
    run: JudgedRun,
    case: Case,
    verdict: str,
    by: str,
    *,
    value: float | None = None,
    note: str | None = None,
    is_blind: bool = False,
    draw: Draw = CHOSEN,
    answers: Sequence[Answer] = (),
) -> Label:
    """Record a label on a case of a run that is open. See `drawn_session.label`.

    It is blind only if it is the person's first on a score of this reply, in any run, because the score is shown after
    a label. `draw`: how the reply came to be labelled.

    Raises:
        InvalidInput: A value is invalid, or there is nothing to withdraw.
        StoreError: The label cannot be written.
    """
    others = [one for one in run.read_labels() if one.target == case.target]
    if verdict not in tuple(LabelVerdict):
        possible = OF_REPLIES if case.metric is None else OF_SCORES
        raise InvalidInput(Problem(f"'{verdict}' is not a verdict", f"write {' or '.join(possible)}"))
    if verdict == LabelVerdict.WITHDRAWN and by not in {one.labeller for one in list_current(others)}:
        raise InvalidInput(Problem(f"{by} has no label on '{case.sample}' in run {run.id}", "nothing was recorded"))
    if verdict == LabelVerdict.RATED:
        value = score_answers(case, value, answers)
    if value is not None:
        _check_value(case, value, verdict)
    described = case.describe()
    made = make_label(
        {
            **described,
            "verdict": LabelVerdict(verdict),
            "value": None if value is None else float(value),
            "note": (note or "").strip() or None,
            "labeller": by,
            "at": find_time(others, by),
            "is_informed": is_informed(others, by),
            "is_blind": is_blind and not _has_seen_score(run, case, by),
            "draw": draw,
            "answers": tuple(answers),
            "shown_value": None if is_blind else described.get("shown_value"),
        }
    )
    write_labels(run.files.root, run.id, [made])
    return made


def _has_seen_score(run: JudgedRun, case: Case, by: str) -> bool:
    """Return whether a person has labelled a score of the same reply by the same metric, whoever judged."""
    own = [one for one in run.files.read_all() if one.labeller == by and one.target == case.target]
    same = (match_label(replace(one, verdict=LabelVerdict.RATED), case) for one in own)
    return any(match in (LabelMatch.COUNTS, LabelMatch.UNKNOWN) for match in same)


def list_own(run: JudgedRun, by: str) -> set[Target]:
    """Return what a person need not label any more: their labels count there, also if they were given in another run.

    Raises:
        InvalidInput: A file of labels is damaged.
    """
    own = [one for one in run.files.read_all() if one.labeller == by]
    return {one.target for one in list_current(match_labels(run, own).get(LabelMatch.COUNTS, ()))}


def match_labels(run: JudgedRun, labels: Iterable[Label]) -> dict[LabelMatch, list[Label]]:
    """Return labels by what they say about a run. Replaced and withdrawn ones are included.

    Only own scores that were withdrawn in the run that they were given on are not: they count in runs of another judge,
    where their withdrawal does not.
    """
    found: dict[LabelMatch, list[Label]] = {}
    for target, own in group_by_target(drop_withdrawn_scores(labels)).items():
        for one, match in run.list_matches(target, own):
            found.setdefault(match, []).append(one)
    return found


def _check_value(case: Case, value: float, verdict: str) -> None:
    """Check that a person's score is possible, and if they disagree, another one than the shown."""
    outside = explain_value(case.metric, value)
    if outside is not None:
        raise InvalidInput(Problem(*outside, field="--value"))
    if verdict == LabelVerdict.DISAGREE and case.score is not None and case.score.value == value:
        raise InvalidInput(Problem(f"{value:g} is the score already", "agree with it instead", field="--value"))


def explain_value(metric: MetricOutline | None, value: float) -> tuple[str, str] | None:
    """Return why a number cannot be a score of a metric, and a fix; None if it can."""
    low, high = metric.bounds if metric else (None, None)
    grades = metric.grades if metric else {}
    if (low is None or value >= low) and (high is None or value <= high):
        if not grades or value in grades.values():
            return None
        known = ", ".join(f"{score:g} ({name})" for name, score in grades.items())
        return f"{value:g} is the score of no grade", f"write one of {known}"
    ends = " to ".join("…" if end is None else f"{end:g}" for end in (low, high))
    return f"{value:g} is outside {ends}", "write a possible score"
