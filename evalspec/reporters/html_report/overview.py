"""What the page shows at once: the view of the run, charts, and what the run was made of."""

from typing import Any

from msgspec import to_builtins

from evalspec.model import DatasetResult, Run
from evalspec.reporters.html_report.charts import describe_charts
from evalspec.reporters.html_report.samples import metrics_of
from evalspec.reporters.view.fit import Limits, fit_view
from evalspec.reporters.view.parts import View
from evalspec.reporters.wording import render_limit, render_usage

_LIMITS = Limits(items=20, without=frozenset({"worst"}))
"""The page has a table of all samples."""


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
        **describe_charts(dataset),
    }


def _limit(dataset: DatasetResult, metric: str) -> dict[str, Any]:
    """What the scores of single samples are shown beside; in words only where the limit is on their mean."""
    limit = dataset.own_threshold(metric)
    if limit is None:
        return {}
    on_mean = dataset.metrics[metric].statistic == "mean"
    return {"min": limit.min, "max": limit.max, "words": render_limit(limit) if on_mean else None}
