"""The data that the page shows immediately: the view of the run, charts of scores and latencies, and run metadata."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from msgspec import to_builtins

from evalspec.model import DatasetResult, Run, Summary, Threshold, VerdictStatus
from evalspec.reports.concerned import Concerned
from evalspec.reports.html_report.samples import metrics_of
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import View
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.summary import pool_scores
from evalspec.verdict.wording import is_latency, render_known, render_limit, render_usage

_LIMITS = Limits(items=20, without=frozenset({"worst"}))
"""Parts omitted from the view because the page has a table of all samples."""
_LINKED = 3
"""Maximum samples that are linked beside a reason. The page links the others as a table."""
_AGAINST = " against the baseline"
_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.PASS)
_BINS = 20
_PERCENTILES = ("p50", "p95", "p99")
_LATENCY = "latency_"


def describe_run(run: Run, view: View, concerned: Sequence[Concerned | None]) -> dict[str, Any]:
    """Return the overview as JSON data. Untrusted texts in it are not yet prepared for the page.

    `concerned`: the samples that each reason is about.
    """
    fitted: dict[str, Any] = to_builtins(fit_view(view, _LIMITS))
    return fitted | {
        "id": run.id,
        "agent": run.fingerprint.agent_name,
        "startedAt": run.fingerprint.started_at,
        "verdict": run.verdict,
        "partial": run.partial,
        "exitCode": int(run.exit_code),
        "hasTexts": run.has_texts,
        "datasets": [_dataset(dataset) | {"status": _find_status(run, dataset)} for dataset in run.datasets],
        "concerned": [
            _describe_concerned(run, reason, found) for reason, found in zip(run.reasons, concerned, strict=True)
        ],
        "usages": [[metric, render_usage(usage)] for metric, usage in run.judge_usage.items()],
        "fingerprint": to_builtins(run.fingerprint),
    }


def _find_status(run: Run, dataset: DatasetResult) -> VerdictStatus | None:
    """Return the worst outcome of the limits of a dataset; None: none was measured."""
    found = {limit.status for limit in dataset.thresholds}
    found |= {one.status for one in run.regressions if one.dataset == dataset.name}
    return next((status for status in _WORST_FIRST if status in found), None)


def _describe_concerned(run: Run, reason: str, found: Concerned | None) -> dict[str, Any] | None:
    """Return what the page links beside a reason: its samples, or the comparison with the baseline."""
    if found is None:
        return {"part": "baseline"} if run.regressions and _AGAINST in reason else None
    samples = run.datasets[found.dataset].samples
    return {
        "dataset": found.dataset,
        "count": len(found.places),
        "complete": found.complete,
        "first": [samples[place].id for place in found.places[:_LINKED]],
    }


def _dataset(dataset: DatasetResult) -> dict[str, Any]:
    metrics = metrics_of(dataset)
    return {
        "name": dataset.name,
        "file": dataset.file,
        "samples": len(dataset.samples),
        "isRepeated": dataset.repeats is not None,
        "metrics": metrics,
        "limits": [_limit(dataset, metric) for metric in metrics],
        **describe_charts(dataset),
    }


def _limit(dataset: DatasetResult, metric: str) -> dict[str, Any]:
    """Return the threshold to show beside the scores of samples. A threshold on the mean is shown only in words."""
    limit = dataset.own_threshold(metric)
    if limit is None:
        return {}
    on_mean = dataset.metrics[metric].statistic == "mean"
    return {"min": limit.min, "max": limit.max, "words": render_limit(limit) if on_mean else None}


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
