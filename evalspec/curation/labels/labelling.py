"""Label a reply or a score of a stored run."""

from collections.abc import Iterable
from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import Case, LabelMatch
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.current import group_by_target, is_informed, list_current
from evalspec.curation.labels.files import find_time, write_labels
from evalspec.curation.labels.judged_run import JudgedRun
from evalspec.curation.labels.records import make_label
from evalspec.model.labels import OF_REPLIES, OF_SCORES, Label, LabelVerdict, Target
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.outline import MetricOutline


def label(
    run: str,
    sample: str,
    verdict: str,
    *,
    by: str,
    dataset: str | None = None,
    attempt: int = 1,
    metric: str | None = None,
    value: float | None = None,
    note: str | None = None,
    store: Path | str = STORE,
) -> Label:
    """Record what a person says about a reply, or about the score of a metric for it, and return the label.

    It replaces the person's earlier label on the same thing.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        sample: Id of the sample.
        verdict: `good` or `bad` for a reply; `agree` or `disagree` for a score; `withdrawn` takes a label back.
        by: The person.
        dataset: The dataset of the sample; needed if several have one of this id.
        attempt: Number of the attempt, from 1.
        metric: The metric of the score. Default: the reply as a whole.
        value: The score that the person would have given. Only with `disagree`.
        note: Reason or comment.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such reply or score, it cannot be read any more, or a value is invalid.
        StoreError: The run is damaged, or the label cannot be written.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    return add_label(opened, opened.find_case(dataset, sample, attempt, metric), verdict, by, value=value, note=note)


def add_label(
    run: JudgedRun, case: Case, verdict: str, by: str, *, value: float | None = None, note: str | None = None
) -> Label:
    """Record a label on a case of a run that is open. See `label`.

    Raises:
        InvalidInput: A value is invalid, or there is nothing to withdraw.
        StoreError: The label cannot be written.
    """
    others = [one for one in run.read_labels() if one.target == case.target]
    if verdict not in tuple(LabelVerdict):
        possible = OF_REPLIES if case.metric is None else OF_SCORES
        raise InvalidInput(Problem(f"'{verdict}' is not a verdict", f"write {possible[0]} or {possible[1]}"))
    if verdict == LabelVerdict.WITHDRAWN and by not in {one.labeller for one in list_current(others)}:
        raise InvalidInput(Problem(f"{by} has no label on '{case.sample}' in run {run.id}", "nothing was recorded"))
    if value is not None:
        _check_value(case, value)
    made = make_label(
        {
            **case.describe(),
            "verdict": LabelVerdict(verdict),
            "value": None if value is None else float(value),
            "note": (note or "").strip() or None,
            "labeller": by,
            "at": find_time(others, by),
            "is_informed": is_informed(others, by),
        }
    )
    write_labels(run.files.root, run.id, [made])
    return made


def list_own(run: JudgedRun, by: str) -> set[Target]:
    """Return what a person need not label any more: their labels count there, also if they were given in another run.

    Raises:
        InvalidInput: A file of labels is damaged.
    """
    own = [one for one in run.files.read_all() if one.labeller == by]
    return {one.target for one in list_current(match_labels(run, own).get(LabelMatch.COUNTS, ()))}


def match_labels(run: JudgedRun, labels: Iterable[Label]) -> dict[LabelMatch, list[Label]]:
    """Return labels by what they say about a run. Replaced and withdrawn ones are included."""
    found: dict[LabelMatch, list[Label]] = {}
    for target, own in group_by_target(labels).items():
        for one, match in run.list_matches(target, own):
            found.setdefault(match, []).append(one)
    return found


def _check_value(case: Case, value: float) -> None:
    """Check that a person's score is possible, and another one than the shown."""
    outside = explain_value(case.metric, value)
    if outside is not None:
        raise InvalidInput(Problem(*outside, field="--value"))
    if case.score is not None and case.score.value == value:
        raise InvalidInput(Problem(f"{value:g} is the score already", "agree with it instead", field="--value"))


def explain_value(metric: MetricOutline | None, value: float) -> tuple[str, str] | None:
    """Return why a number cannot be a score of a metric, and a fix; None if it can."""
    low, high = metric.bounds if metric else (None, None)
    if (low is None or value >= low) and (high is None or value <= high):
        return None
    ends = " to ".join("…" if end is None else f"{end:g}" for end in (low, high))
    return f"{value:g} is outside {ends}", "write a possible score"
