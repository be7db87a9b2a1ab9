"""What the page shows at once: verdict, limits, charts, slices, repeats, and what the run was made of."""

from collections.abc import Iterator
from typing import Any

from evalspec.records import (
    DatasetResult,
    Direction,
    JudgeUsage,
    RegressionOutcome,
    RepeatSummary,
    Run,
    SliceResult,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reporters.html_report.histogram import compute_histogram, compute_latencies
from evalspec.reporters.html_report.retrieval import describe_retrieval
from evalspec.reporters.html_report.samples import metrics_of
from evalspec.reporters.retrieval import find_plain
from evalspec.reporters.wording import (
    UNKNOWN,
    is_latency,
    mark_regression,
    render_gaps,
    render_interval,
    render_limit,
    render_not_applicable,
    render_usage,
    render_value,
    split_notes,
)
from evalspec.summary import pool_scores

_LATENCY = "latency_"


def describe_run(run: Run) -> dict[str, Any]:
    """The overview as data of JSON's types; texts of others are not made ready for a page yet."""
    reuse, notes = split_notes(run)
    return {
        "id": run.id,
        "agent": run.fingerprint.get("agent", {}).get("name"),
        "startedAt": run.fingerprint.get("startedAt"),
        "verdict": run.verdict,
        "reasons": run.reasons,
        "partial": run.partial,
        "exitCode": int(run.exit_code),
        "hasTexts": run.has_texts,
        "regressions": [_regression(outcome) for outcome in run.regressions],
        "datasets": [_dataset(dataset) for dataset in run.datasets],
        "reuse": reuse,
        "notes": notes,
        "usage": render_usage(sum(run.judge_usage.values(), JudgeUsage())) if run.judge_usage else None,
        "usages": [[metric, render_usage(usage)] for metric, usage in run.judge_usage.items()],
        "fingerprint": run.fingerprint,
    }


def _dataset(dataset: DatasetResult) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "file": dataset.file,
        "samples": len(dataset.samples),
        "answered": dataset.answered,
        "metrics": metrics_of(dataset),
        "rows": list(_rows(dataset)),
        "charts": [
            _chart(dataset, metric, summary) for metric, summary in dataset.metrics.items() if not is_latency(metric)
        ],
        "latencies": _latencies(dataset),
        "sliceMetrics": list(dataset.metrics),
        "slices": [_slice(part) for part in dataset.slices],
        "repeats": _repeats(dataset.repeats) if dataset.repeats else None,
        "retrieval": describe_retrieval(dataset),
    }


def _rows(dataset: DatasetResult) -> Iterator[dict[str, Any]]:
    """Every metric with its own limit, followed by its limits on slices and other statistics."""
    for metric, summary in find_plain(dataset).items():
        yield _summary_row(dataset, metric, summary)
        for outcome in dataset.thresholds:
            if outcome.metric == metric and not dataset.is_own(outcome):
                yield _outcome_row(outcome, metric)
    for outcome in dataset.thresholds:
        if outcome.metric not in dataset.metrics:
            yield _outcome_row(outcome, None)


def _summary_row(dataset: DatasetResult, metric: str, summary: Summary) -> dict[str, Any]:
    limit = dataset.own_threshold(metric)
    own = [outcome for outcome in dataset.thresholds if outcome.metric == metric and dataset.is_own(outcome)]
    skipped = 0 < summary.skipped == summary.expected
    return {
        "name": metric,
        "statistic": summary.statistic,
        "lowerIsBetter": dataset.metrics[metric].direction is Direction.LOWER,
        "value": render_value(metric, summary.value, limit) if summary.value is not None else UNKNOWN,
        "point": summary.value,
        "interval": render_interval(summary),
        "ends": summary.interval,
        "limit": render_limit(metric, limit).rsplit(" ", 1)[0] if limit else UNKNOWN,
        "min": limit.min if limit else None,
        "max": limit.max if limit else None,
        "status": limit.status if limit else None,
        "reasons": list(dict.fromkeys(outcome.reason for outcome in own if outcome.reason)),
        "unknown": ("skipped" if skipped else "nothing scored") if summary.value is None else None,
        "scored": f"{summary.scored:,}/{summary.expected:,}",
        "gaps": render_gaps(summary),
    }


def _outcome_row(outcome: Threshold, under: str | None) -> dict[str, Any]:
    threshold = limit = outcome
    names = [threshold.stat or "", f"[{threshold.slice}]" if threshold.slice else ""]
    return {
        "name": " ".join(filter(None, [threshold.metric if under is None else "", *names])),
        "under": under,
        "value": UNKNOWN if outcome.value is None else render_value(threshold.metric, outcome.value, limit),
        "point": outcome.value,
        "interval": UNKNOWN,
        "limit": render_limit(threshold.metric, limit).rsplit(" ", 1)[0],
        "min": threshold.min,
        "max": threshold.max,
        "status": outcome.status,
        "reasons": [outcome.reason] if outcome.reason else [],
        "unknown": "not known" if outcome.value is None else None,
        "scored": f"{outcome.scored:,}/{outcome.expected:,}",
        "gaps": render_not_applicable(outcome),
    }


def _chart(dataset: DatasetResult, metric: str, summary: Summary) -> dict[str, Any]:
    limit = dataset.own_threshold(metric)
    scores, _ = pool_scores(dataset.samples, metric, summary.statistic)
    values = [score.value for score in scores if score.value is not None]
    return {
        "name": metric,
        "histogram": compute_histogram(values, _bounds(limit)),
        "median": None if summary.median is None else render_value(metric, summary.median),
        "bounds": _bounds(limit),
        "limit": render_limit(metric, limit).rsplit(" ", 1)[0] if limit else None,
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


def _slice(part: SliceResult) -> dict[str, Any]:
    return {
        "name": part.name,
        "n": part.selected,
        "small": part.small,
        "cells": [
            [
                UNKNOWN if summary.value is None else render_value(metric, summary.value),
                ", ".join(filter(None, [render_interval(summary), render_not_applicable(summary)]))
                if summary.interval
                else None,
                render_gaps(summary) if summary.value is None else render_not_applicable(summary) or None,
            ]
            for metric, summary in part.metrics.items()
        ],
    }


def _repeats(repeats: RepeatSummary) -> dict[str, Any]:
    def share(value: float | None, decimals: int) -> str:
        return UNKNOWN if value is None else f"{value:.{decimals}f}"

    return {
        "repeats": repeats.repeats,
        "decided": repeats.decided,
        "passes": [[k, share(value, 3), share(repeats.pass_all.get(k), 3)] for k, value in repeats.pass_at.items()],
        "flaky": repeats.flaky,
        "variance": [
            [metric, *(share(part, 4) for part in (spread.replies, spread.agent, spread.judge))]
            for metric, spread in repeats.variance.items()
        ],
    }


def _regression(outcome: RegressionOutcome) -> dict[str, Any]:
    metric = outcome.metric or ""

    def say(number: float | None, sign: str = "") -> str:
        return UNKNOWN if number is None else f"{sign if number > 0 else ''}{render_value(metric, number)}"

    return {
        "dataset": outcome.dataset,
        "metric": outcome.metric,
        "ofBaseline": outcome.of_baseline,
        "status": outcome.status,
        "baseline": say(outcome.baseline),
        "candidate": say(outcome.candidate),
        "delta": say(outcome.delta, "+"),
        "mark": mark_regression(outcome),
        "pairs": f"{outcome.pairs:,}" if outcome.metric else UNKNOWN,
        "reason": outcome.reason,
    }
