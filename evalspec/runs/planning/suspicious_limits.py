"""Find suspicious thresholds, which most replies pass or only bad ones do."""

from collections.abc import Iterator, Sequence

from evalspec.model import Direction, Threshold
from evalspec.scoring.metrics.base import Metric


def list_suspicious_limits(metric: Metric, limits: Sequence[Threshold]) -> Iterator[tuple[int, str, str]]:
    """Yield the suspicious thresholds on a metric: index, message and fix."""
    for index, limit in enumerate(limits):
        found = _find_idle(metric, limit) or _find_unusual(metric, limit)
        if found:
            yield index, *found
    higher, low_and_high = metric.definition.direction is Direction.HIGHER, None not in metric.bounds
    stated = [limit.min if higher else limit.max for limit in limits]
    if limits and low_and_high and not _is_own(metric) and stated.count(None) == len(stated):
        side, better, other = ("maximum", "higher", "min") if higher else ("minimum", "lower", "max")
        message = f"{metric.name} has only a {side}, but {better} is better: only bad replies pass"
        yield 0, message, f"use {other}, or add {other}"


def _find_idle(metric: Metric, limit: Threshold) -> tuple[str, str] | None:
    """Return message and fix if a threshold is at the end of the metric's range, so no value can fail it."""
    low, high = metric.bounds
    may_undercut = limit.min is not None and (low is None or limit.min > low)
    may_exceed = limit.max is not None and (high is None or limit.max < high)
    if may_undercut or may_exceed:
        return None
    return f"no value of {metric.name} can fail this threshold", "tighten or remove it"


def _find_unusual(metric: Metric, limit: Threshold) -> tuple[str, str] | None:
    """Return message and fix if a threshold accepts a bad mean. Thresholds on other statistics are not checked."""
    least, most = metric.definition.usual_limits
    best = metric.bounds[1 if metric.definition.direction is Direction.HIGHER else 0]
    if limit.stat not in (None, "mean"):
        return None
    for side, value, is_odd in (
        ("minimum", limit.min, least is not None and limit.min is not None and limit.min < least),
        ("maximum", limit.max, most is not None and limit.max is not None and limit.max > most),
    ):
        if is_odd and value is not None:
            message = f"a {side} of {value:g} on {metric.name} accepts most failures; its best value is {best:g}"
            return message, f"did you mean {1 - value:g}?"
    return None


def _is_own(metric: Metric) -> bool:
    entry = metric.settings.get("entry", {})
    return bool(entry.get("rubric") or entry.get("scorer"))
