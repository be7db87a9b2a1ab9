"""Resolve maxDrop: the metrics that the gate compares with its baseline, and the allowed drop of each."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import DatasetResult, Run, Summary
from evalspec.verdict.comparison.comparability import (
    explain_parts,
    list_content_mismatches,
    list_repeat_mismatches,
)
from evalspec.verdict.comparison.pairing import is_cost

if TYPE_CHECKING:
    from evalspec.scoring.metrics.columns import Definitions

PROMOTE = "promote a new baseline"
REJUDGE = "judge the replies of the baseline again (rescore --fresh) and promote that run"
NO_SCORES = f"the baseline has no scores for it: {PROMOTE}"
_ROUNDING = 1e-6
"""Tolerance, because rounding may put a cosine slightly above 1."""

BY_VALUE = "decided by value: latencies depend on machine and load, so no test is made"


def check_max_drop(policy: CiGate, metrics: "Definitions") -> list[str]:
    """Return a line, with the fix, for each name in `maxDrop` that is no computed metric, of these by column."""
    if not isinstance(policy.max_drop, dict):
        return []
    found = (_explain_unknown(name, metrics) for name in policy.max_drop)
    return [f"maxDrop: {problem}" for problem in found if problem]


def name_columns(policy: CiGate, metrics: "Definitions") -> CiGate:
    """Return a checked policy whose names in `maxDrop` have no defaults of parameters, which runs do not know."""
    if not isinstance(policy.max_drop, dict) or not any("(" in name for name in policy.max_drop):
        return policy
    found = {name: find_metric(name, metrics, _by_name(metrics)) or name for name in policy.max_drop if "(" in name}
    spelled = {name: column if "(" in column else f"{column}()" for name, column in found.items()}
    drops = {spelled.get(name, name): drop for name, drop in policy.max_drop.items()}
    return policy.model_copy(update={"max_drop": drops})


def _by_name(metrics: "Definitions") -> "Definitions":
    return {one.name: one for one in metrics.values()}


def _explain_unknown(name: str, metrics: "Definitions") -> str | None:
    """Return why a name stands for no metric, with the fix; None if it does."""
    try:
        known = find_metric(name, metrics, _by_name(metrics))
    except ValueError as error:
        return str(error).replace("; ", ". ")
    return None if known else f"no dataset computes '{name}'. {near_miss(name, metrics)}"


def find_metric(name: str, metrics: Collection[str], own: "Definitions | None" = None) -> str | None:
    """Return the metric of a name, which may be an alias and differ in case; None if there is none.

    `own`: metrics that are not registered.

    Raises:
        ValueError: the name may be several metrics, or has a parameter that its metric does not have.
    """
    if name in metrics and not any("(" in metric for metric in metrics):
        return name  # without the registry of all metrics, which is slow to import
    from evalspec.scoring.metrics.columns import find_column

    return find_column(name, metrics, own)


def resolve_limits(policy: CiGate, baseline: DatasetResult, candidate: DatasetResult) -> Mapping[str, float]:
    """Return the allowed drop of each metric of a dataset. Metrics missing from a mapping have no limit.

    A single number applies to common means of scores from −1 to 1: a drop of 0.02 means nothing in milliseconds.
    """
    if isinstance(policy.max_drop, dict):
        named = {find_metric(name, candidate.metrics): drop for name, drop in policy.max_drop.items()}
        return {metric: named[metric] for metric in candidate.metrics if metric in named}
    return {
        metric: policy.max_drop
        for metric, summary in candidate.metrics.items()
        if metric in baseline.metrics
        and not is_cost(metric, summary.statistic)
        and _is_share(metric, summary, baseline)
    }


def explain_block(baseline: Run, candidate: Run, name: str) -> str | None:
    """Return why no sample of a dataset can be compared with the baseline, or None.

    More samples are no reason, and edited ones only leave the comparison, as far as they are known.
    """
    if name not in {dataset.name for dataset in baseline.datasets}:
        return f"the baseline has no dataset '{name}': {PROMOTE}"
    parts = explain_parts(baseline, candidate)
    if parts is not None:
        return f"{parts}: {PROMOTE}, or run the part of the baseline"
    changed = [
        *list_content_mismatches(baseline, candidate, name, name),
        *list_repeat_mismatches(baseline, candidate),
    ]
    return f"{changed[0]}: {PROMOTE}" if changed else None


def _is_share(metric: str, summary: Summary, baseline: DatasetResult) -> bool:
    """Return whether a metric ranges from −1 to 1.

    Without bounds, the scores of the baseline decide, never the new ones: a metric must not escape the gate by falling
    below its range.
    """
    if summary.bounds is not None:
        low, high = summary.bounds
        return low >= -1 and high <= 1
    scores = (sample.scores.get(metric) for sample in baseline.samples)
    values = [abs(score.value) for score in scores if score is not None and score.value is not None]
    return max(values, default=0.0) <= 1 + _ROUNDING
