"""What the page shows at once: the view of the run, charts, and what the run was made of."""

from typing import Any

from msgspec import to_builtins

from evalspec.records import DatasetResult, Run, Summary, Threshold, VerdictStatus
from evalspec.reporters.html_report.histogram import compute_histogram, compute_latencies
from evalspec.reporters.html_report.samples import metrics_of
from evalspec.reporters.view.fit import Limits, fit_view
from evalspec.reporters.view.parts import View
from evalspec.reporters.wording import is_latency, render_limit, render_usage, render_value
from evalspec.summary import pool_scores

_LIMITS = Limits(items=20, without=frozenset({"worst"}))
"""The page has a table of all samples."""
_LATENCY = "latency_"


def describe_run(run: Run, view: View) -> dict[str, Any]:
    """The overview as data of JSON's types; texts of others are not made ready for a page yet."""
    fitted: dict[str, Any] = to_builtins(fit_view(view, _LIMITS))
    return fitted | {
        "id": run.id,
        "agent": run.fingerprint.get("agent", {}).get("name"),
        "startedAt": run.fingerprint.get("startedAt"),
        "verdict": run.verdict,
        "partial": run.partial,
        "exitCode": int(run.exit_code),
        "hasTexts": run.has_texts,
        "datasets": [_dataset(dataset) for dataset in run.datasets],
        "usages": [[metric, render_usage(usage)] for metric, usage in run.judge_usage.items()],
        "fingerprint": run.fingerprint,
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
        "charts": [
            _chart(dataset, metric, summary) for metric, summary in dataset.metrics.items() if not is_latency(metric)
        ],
        "latencies": _latencies(dataset),
    }


def _limit(dataset: DatasetResult, metric: str) -> dict[str, Any]:
    """What the scores of single samples are shown beside; in words only where the limit is on their mean."""
    limit = dataset.own_threshold(metric)
    if limit is None:
        return {}
    on_mean = dataset.metrics[metric].statistic == "mean"
    return {"min": limit.min, "max": limit.max, "words": render_limit(limit) if on_mean else None}


def _chart(dataset: DatasetResult, metric: str, summary: Summary) -> dict[str, Any]:
    limit = dataset.own_threshold(metric)
    scores, _ = pool_scores(dataset.samples, metric, summary.statistic)
    values = [score.value for score in scores if score.value is not None]
    return {
        "name": metric,
        "histogram": compute_histogram(values, _bounds(limit)),
        "median": None if summary.median is None else render_value(metric, summary.median),
        "bounds": _bounds(limit),
        "limit": render_limit(limit) if limit else None,
        "broken": bool(limit and limit.status is VerdictStatus.FAIL),
    }


def _latencies(dataset: DatasetResult) -> dict[str, Any] | None:
    """One chart for all metrics of the latency of replies, with the limits of each."""
    values = [
        asking.latency_ms
        for sample in dataset.samples
        for asking in sample.attempts or (sample,)
        if asking.latency_ms is not None
    ]
    limits = [
        limit for metric in dataset.metrics if metric.startswith(_LATENCY) and (limit := dataset.own_threshold(metric))
    ]
    bounds = [(bound, limit.status is VerdictStatus.FAIL) for limit in limits for bound in _bounds(limit)]
    histogram = compute_latencies(values, [bound for bound, _ in bounds])
    return histogram and histogram | {"limits": bounds}


def _bounds(limit: Threshold | None) -> list[float]:
    return [bound for bound in (limit.min, limit.max) if bound is not None] if limit else []
