"""Runs of several retrievers on the same datasets: choice of the best one, and the exit code."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from evalspec.comparison.drops import find_metric
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.model import TOTAL, DatasetResult, Direction, Run
from evalspec.planning.build import Plan
from evalspec.registry import near_miss

_SEVERITY = (ExitCode.OK, ExitCode.UNMEASURED, ExitCode.GATE_FAILED)


class BestBy(Struct, frozen=True):
    """Criterion for the best retriever: a metric, and optionally a maximum p95 latency in ms."""

    metric: str
    max_latency: float | None = None


class Best(Struct, frozen=True):
    """The best retriever on one dataset. `retriever`: None if none is within the limit, or none has a value."""

    dataset: str
    metric: str
    retriever: str | None
    value: float | None
    p95_ms: float | None


def choose_best_by(plans: Iterable[Plan], metric: str | None, max_latency: float | None) -> BestBy | None:
    """Return the criterion for the best retriever, with the metric's name as in reports. None without a metric.

    Raises:
        InvalidInput: No dataset computes the metric, or there is a latency limit and no metric.
    """
    if metric is None:
        if max_latency is not None:
            raise InvalidInput(Problem("needs a metric to choose by", "add --best-by METRIC", field="--max-latency"))
        return None
    known = [m.name for plan in plans for dataset in plan.datasets for m in dataset.metrics]
    name = find_metric(metric, known)
    if name is None:
        raise InvalidInput(Problem(f"no dataset computes '{metric}'", near_miss(metric, known), field="--best-by"))
    return BestBy(name, max_latency)


def choose_best(dataset: str, best_by: BestBy, runs: Mapping[str, Run]) -> Best:
    """Return the retriever with the best value of the metric. Ties go to the lowest p95 latency, then to the first."""
    found = []
    for name, run in runs.items():
        result = next(one for one in run.datasets if one.name == dataset)
        value, p95 = _measured(result, best_by.metric)
        within = best_by.max_latency is None or (p95 is not None and p95 <= best_by.max_latency)
        if value is not None and within:
            sign = -1 if result.metrics[best_by.metric].direction is Direction.HIGHER else 1
            found.append((sign * value, p95 or 0.0, Best(dataset, best_by.metric, name, value, p95)))
    if not found:
        return Best(dataset, best_by.metric, None, None, None)
    return min(found, key=lambda one: one[:2])[2]


def _measured(result: DatasetResult, metric: str) -> tuple[float | None, float | None]:
    summary = result.metrics.get(metric)
    total = next((stage for stage in result.stages if stage.stage == TOTAL), None)
    return summary.value if summary else None, total.p95 if total else None


def decide_exit_code(runs: Mapping[str, Run], best: Sequence[Best]) -> ExitCode:
    """Return the exit code of the best retriever's run, or without a choice the worst exit code of all runs.

    1 if no retriever is within the latency limit.
    """
    if any(one.retriever is None for one in best):
        return ExitCode.GATE_FAILED
    counting = [runs[one.retriever] for one in best if one.retriever] or list(runs.values())
    return max((ExitCode(run.exit_code) for run in counting), key=_SEVERITY.index)
