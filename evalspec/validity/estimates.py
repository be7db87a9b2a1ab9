"""How sure the value of one run is: which interval suits a statistic, and why there is none."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from evalspec.stats.bootstrap import bootstrap_interval
from evalspec.stats.bounded import OF_MEAN, compute_bounded_interval
from evalspec.stats.percentiles import compute_percentile_interval, count_needed

CONFIDENCE = 0.95
FEW = 5
"""Independent units below which every number carries a caution."""

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """An interval with what it rests on.

    `units`: how many independent scores or clusters there are. `method`: how the interval was computed. `reason`: why
    there is none.
    """

    units: int
    interval: tuple[float, float] | None = None
    method: str | None = None
    reason: str | None = None


def estimate(
    values: Sequence[float],
    statistic: str,
    bounds: Bounds | None,
    confidence: float = CONFIDENCE,
    *,
    clusters: Sequence[Hashable] | None = None,
    weight: float = OF_MEAN,
) -> Estimate:
    """The interval of a statistic of some scores. `bounds`: the range that scores reach, None where there is none.

    Raises:
        ValueError: a value is not finite or outside the bounds, or the labels do not fit the values.
    """
    units = len(values if clusters is None else set(clusters))
    if not values:
        return Estimate(0, reason="nothing is scored")
    if clusters is not None and units < 2:
        return Estimate(units, reason="all samples belong to one cluster, which says nothing about others")
    if statistic != "mean":
        return _estimate_percentile(values, statistic, confidence, clusters, units)
    if bounds is not None:
        found = compute_bounded_interval(values, bounds, confidence, clusters=clusters, weight=weight)
        return Estimate(units, found, "bounded")
    if min(values) == max(values):
        return Estimate(units, reason="all scores are equal, and the metric has no bounds")
    found = bootstrap_interval(values, confidence, clusters=clusters)
    return Estimate(units, found, "bootstrap")


def _estimate_percentile(
    values: Sequence[float], statistic: str, confidence: float, clusters: Sequence[Hashable] | None, units: int
) -> Estimate:
    needed = count_needed(statistic, confidence)
    if math.isinf(needed):
        return Estimate(units, reason=f"a {statistic} rests on one value")
    found = compute_percentile_interval(values, statistic, confidence, clusters=clusters)
    if found is None:
        least = "at least " if clusters is not None else ""
        noun = "scores" if clusters is None else "independent samples or clusters"
        interval = f"a {100 * confidence:g} % interval"
        return Estimate(
            units, reason=f"{statistic} needs {least}{needed:,.0f} {noun} for {interval}, and there are {units:,}"
        )
    return Estimate(units, found, "order statistics")
