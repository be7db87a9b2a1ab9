"""Inference on the values of one run: the choice of an interval for a statistic."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from msgspec import Struct

from evalspec.verdict.stats.bounded import compute_bounded_interval
from evalspec.verdict.stats.percentiles import compute_percentile_interval, count_needed

CONFIDENCE = 0.95
FEW = 5
"""Results with fewer independent units than this get a warning."""

MOST_OF_ONE = 0.25
"""Maximum share of the scores that one cluster may have. Above it, no statement about the mean is licensed."""

UNBOUNDED = "the metric has no range, so a rare value could move its mean by any amount"

Bounds = tuple[float, float]


class Estimate(Struct, frozen=True):
    """An interval and how it was computed.

    `units`: number of independent scores or clusters. `method`: method of the interval. `reason`: why there is no
    interval.
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
) -> Estimate:
    """Return the interval of a statistic of some scores. `bounds`: range of possible scores, None if unbounded.

    Raises:
        ValueError: A value is not finite or out of bounds, or `clusters` and `values` have different lengths.
    """
    units = len(values if clusters is None else set(clusters))
    if not values:
        return Estimate(0, reason="no sample is scored")
    if clusters is not None and (dominance := describe_dominance(clusters)):
        return Estimate(units, reason=dominance)
    if statistic != "mean":
        return _estimate_percentile(values, statistic, confidence, clusters, units)
    if bounds is None:
        return Estimate(units, reason=UNBOUNDED)
    return Estimate(units, compute_bounded_interval(values, bounds, confidence, clusters=clusters), "bounded")


def describe_dominance(clusters: Sequence[Hashable]) -> str | None:
    """Return why one cluster has too many of the scores for an interval; None if none has."""
    label, count = Counter(clusters).most_common(1)[0]
    if count <= MOST_OF_ONE * len(clusters):
        return None
    name = "=".join(map(str, label[:2])) if isinstance(label, tuple) else str(label)
    share = f"{count} of {len(clusters)} scores"
    return f"one cluster ({name}) has {share}, and an interval allows a quarter at most"


def _estimate_percentile(
    values: Sequence[float], statistic: str, confidence: float, clusters: Sequence[Hashable] | None, units: int
) -> Estimate:
    needed = count_needed(statistic, confidence)
    if math.isinf(needed):
        return Estimate(units, reason=f"a {statistic} depends on a single value")
    found = compute_percentile_interval(values, statistic, confidence, clusters=clusters)
    if found is None:
        least = "at least " if clusters is not None else ""
        noun = "scores" if clusters is None else "independent samples or clusters"
        interval = f"a {100 * confidence:g} % interval"
        return Estimate(
            units, reason=f"{statistic} needs {least}{needed:,.0f} {noun} for {interval}, but there are {units:,}"
        )
    return Estimate(units, found, "order statistics")
