"""The distributions of scores and latencies of a dataset, which charts draw."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from evalspec.model import DatasetResult, Summary, Threshold, VerdictStatus
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.summary import pool_scores
from evalspec.verdict.wording import is_latency, render_known, render_limit

_BINS = 20
_PERCENTILES = ("p50", "p95", "p99")
_LATENCY = "latency_"


def compute_histogram(values: Sequence[float], bounds: Iterable[float] = ()) -> dict[str, Any] | None:
    """Return the counts of the values in bins of equal width. The last bin is closed.

    The scale covers 0 to 1, all values and `bounds`. Return None without values, or if they are too far apart for a
    scale.
    """
    if not values:
        return None
    shown = [*values, *bounds]
    low, high = min(0.0, *shown), max(1.0, *shown)
    if not isfinite(high - low):
        return None
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / (high - low) * _BINS), _BINS - 1)] += 1
    return {"low": low, "high": high, "counts": counts, "n": len(values)}


def compute_latencies(values: Sequence[float], bounds: Iterable[float] = ()) -> dict[str, Any] | None:
    """Return the histogram of latencies with their percentiles; None without values."""
    histogram = compute_histogram(values, bounds)
    if histogram is None:
        return None
    return histogram | {"percentiles": [[name, compute_statistic(values, name)] for name in _PERCENTILES]}


def describe_charts(dataset: DatasetResult) -> dict[str, Any]:
    """Return a chart per metric, and one for all latency metrics."""
    charts = [_chart(dataset, metric, summary) for metric, summary in dataset.metrics.items() if not is_latency(metric)]
    return {"charts": charts, "latencies": _latencies(dataset)}


def _chart(dataset: DatasetResult, metric: str, summary: Summary) -> dict[str, Any]:
    limit = dataset.own_threshold(metric)
    scores, _ = pool_scores(dataset.samples, metric, summary.statistic)
    values = [score.value for score in scores if score.value is not None]
    return {
        "name": metric,
        "histogram": compute_histogram(values, _bounds(limit)),
        "median": None if summary.median is None else render_known(metric, summary.median),
        "bounds": _bounds(limit),
        "limit": render_limit(limit) if limit else None,
        "broken": bool(limit and limit.status is VerdictStatus.FAIL),
    }


def _latencies(dataset: DatasetResult) -> dict[str, Any] | None:
    """Return one chart for all latency metrics of replies, with their thresholds."""
    values = [
        attempt_row.latency_ms
        for sample in dataset.samples
        for attempt_row in sample.attempts or (sample,)
        if attempt_row.latency_ms is not None
    ]
    limits = [
        limit for metric in dataset.metrics if metric.startswith(_LATENCY) and (limit := dataset.own_threshold(metric))
    ]
    bounds = [(bound, limit.status is VerdictStatus.FAIL) for limit in limits for bound in _bounds(limit)]
    histogram = compute_latencies(values, [bound for bound, _ in bounds])
    return histogram and histogram | {"limits": bounds}


def _bounds(limit: Threshold | None) -> list[float]:
    return [bound for bound in (limit.min, limit.max) if bound is not None] if limit else []
