"""Runs of several retrievers on the same datasets: choice of the best one, and the outcome of all."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from evalspec.base.errors import ExitCode, InvalidInput, Problem, split_fix
from evalspec.base.registry import near_miss
from evalspec.model import TOTAL, DatasetResult, Direction, Run, Summary, VerdictStatus
from evalspec.model.base import Record
from evalspec.runs.planning.build import Plan
from evalspec.verdict.comparison.drops import find_metric

_SEVERITY = (ExitCode.OK, ExitCode.UNMEASURED, ExitCode.GATE_FAILED)


class BestBy(Struct, frozen=True):
    """Criterion for the best retriever: a metric, and optionally a maximum p95 latency in ms."""

    metric: str
    max_latency: float | None = None


class Incomplete(Record, frozen=True):
    """A retriever that was not scored on every sample. Its value is over easier samples perhaps."""

    retriever: str
    scored: int
    expected: int


class Best(Record, frozen=True):
    """The best retriever on one dataset. `retriever`: None if none is within the limit, or none has a value.

    `incomplete`: the retrievers that could not be chosen.
    """

    dataset: str
    metric: str
    retriever: str | None = None
    value: float | None = None
    p95_ms: float | None = None
    scored: int | None = None
    expected: int | None = None
    incomplete: tuple[Incomplete, ...] = ()


class Outcome(Struct, frozen=True):
    """The verdict and the exit code over all retrievers."""

    verdict: VerdictStatus
    exit_code: ExitCode
    partial: bool = False


def choose_best_by(plans: Iterable[Plan], metric: str | None, max_latency: float | None) -> BestBy | None:
    """Return the criterion for the best retriever, with the metric's name as in reports. None without a metric.

    Raises:
        InvalidInput: No dataset computes the metric, or there is a latency limit and no metric.
    """
    if metric is None:
        if max_latency is not None:
            raise InvalidInput(Problem("needs a metric to choose by", "add --best-by METRIC", field="--max-latency"))
        return None
    known = list(dict.fromkeys(name for plan in plans for dataset in plan.datasets for name in dataset.metrics))
    try:
        name = find_metric(metric, known)
    except ValueError as error:
        message, fix = split_fix(str(error))
        raise InvalidInput(Problem(message, fix, field="--best-by")) from error
    if name is None:
        raise InvalidInput(Problem(f"no dataset computes '{metric}'", near_miss(metric, known), field="--best-by"))
    return BestBy(name, max_latency)


def choose_best(dataset: str, best_by: BestBy, runs: Mapping[str, Run]) -> Best:
    """Return the retriever with the best value of the metric. Ties go to the lowest p95 latency, then to the first.

    Only retrievers that are scored on every sample can be chosen: values over different samples are not comparable.
    """
    results = {name: next(one for one in run.datasets if one.name == dataset) for name, run in runs.items()}
    summaries = {name: one.metrics[best_by.metric] for name, one in results.items() if best_by.metric in one.metrics}
    incomplete = tuple(
        Incomplete(name, summary.scored, summary.expected)
        for name, summary in summaries.items()
        if summary.scored < summary.expected
    )
    partial = {one.retriever for one in incomplete}
    found = []
    for name, summary in summaries.items():
        p95 = _find_p95(results[name])
        within = best_by.max_latency is None or (p95 is not None and p95 <= best_by.max_latency)
        if summary.value is not None and within and name not in partial:
            counts = summary.scored, summary.expected
            chosen = Best(dataset, best_by.metric, name, summary.value, p95, *counts, incomplete)
            found.append((_badness(summary, summary.value), p95 or 0.0, chosen))
    if not found:
        return Best(dataset, best_by.metric, incomplete=incomplete)
    return min(found, key=lambda one: one[:2])[2]


def _badness(summary: Summary, value: float) -> float:
    return -value if summary.direction is Direction.HIGHER else value


def _find_p95(result: DatasetResult) -> float | None:
    return next((stage.p95 for stage in result.stages if stage.stage == TOTAL), None)


def decide_outcome(runs: Mapping[str, Run], best: Sequence[Best]) -> Outcome:
    """Return the outcome of the best retrievers' runs, or without a choice the worst of all runs.

    A dataset without a best retriever fails if all of its retrievers were measured: none is within the latency limit.
    """
    counting = [runs[one.retriever] for one in best if one.retriever] if best else list(runs.values())
    outcomes = [Outcome(run.verdict, ExitCode(run.exit_code), run.partial) for run in counting]
    outcomes += [
        Outcome(VerdictStatus.INCOMPLETE, ExitCode.UNMEASURED)
        if one.incomplete
        else Outcome(VerdictStatus.FAIL, ExitCode.GATE_FAILED)
        for one in best
        if one.retriever is None
    ]
    return max(outcomes, key=lambda one: _SEVERITY.index(one.exit_code))
