"""Say what a forecast amounts to."""

from collections.abc import Sequence

from evalspec.base.plural import counted
from evalspec.model import Direction
from evalspec.model.forecasts import DatasetForecast, MetricForecast
from evalspec.verdict.wording import render_delta


def summarise_forecasts(datasets: Sequence[DatasetForecast]) -> str:
    """Return a sentence with the first decidable metric of the manifest and the range of the others."""
    metrics = [(dataset, metric) for dataset in datasets for metric in dataset.metrics]
    if not metrics:
        return "No metric is compared with a baseline: maxDrop applies to none of these datasets"
    known = [(one.detectable[1], dataset, one) for dataset, one in metrics if one.detectable is not None]
    if not known:
        _, metric = metrics[0]
        return f"The detectable change is unknown: {metric.metric}: {metric.reason}"
    (size, dataset, metric), *others = known
    change = "drop" if metric.direction is Direction.HIGHER else "rise"
    where = metric.metric if len(datasets) == 1 else f"{metric.metric} of {dataset.name}"
    said = f"{_count_pairs(dataset, metric)} detect a {change} of {_size(metric, size)} in {where} in four of five runs"
    if metric.samples_needed:
        said += f"; {_say_needed(metric)}"
    if others:
        sizes = [f"{_size(one, size)} in {one.metric}" for size, _, one in sorted(others, key=lambda other: other[0])]
        said += f"; {counted(len(others), 'other metric')}: {' to '.join(dict.fromkeys((sizes[0], sizes[-1])))}"
    return said


def _count_pairs(dataset: DatasetForecast, metric: MetricForecast) -> str:
    pairs = counted(metric.pairs, "sample")
    return pairs if dataset.cluster is None else f"{pairs} in {counted(metric.units, 'cluster')}"


def _say_needed(metric: MetricForecast) -> str:
    needed = metric.samples_needed or 0
    only = "only " if needed <= metric.pairs else ""
    return f"excluding {metric.max_drop:g} (maxDrop) needs {only}about {round_estimate(needed):,} samples"


def round_estimate(count: int) -> int:
    """Round an estimate to two significant digits."""
    return round(count, min(0, 2 - len(str(count))))


def _size(metric: MetricForecast, size: float) -> str:
    return render_delta(metric.metric, size).lstrip("+±")
