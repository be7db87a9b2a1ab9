"""Inference on the values of one run: the choice of an interval for a statistic.

Intervals of percentiles are from order statistics, exact for independent values of any distribution. A value x is too
low for the p-quantile if the interval of the share of values up to x is below p. So the interval of a percentile
inverts that of a share, at the same confidence. For independent values, the share's interval is that of Clopper and
Pearson, which gives the classical ranks (David and Nagaraja 2003, section 7.1). For clustered values, it is the bounded
interval of clustered 0/1 scores.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct

from evalspec.verdict.stats.bounded import compute_beta_cdf, compute_bounded_interval
from evalspec.verdict.stats.descriptive import parse_share


def count_needed(statistic: str, confidence: float = 0.95) -> float:
    """Return the minimum number of independent values for an interval of a percentile; infinite for min and max.

    The upper end exists if share**n is at most the tail, and likewise the lower end. p95 at 95 % needs 72 values.
    """
    share = parse_share(statistic)
    rarer = max(share, 1 - share)
    return math.inf if rarer == 1 else math.ceil(math.log((1 - confidence) / 2) / math.log(rarer))


def compute_percentile_interval(
    values: Sequence[float],
    statistic: str,
    confidence: float = 0.95,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float] | None:
    """Return the interval of a percentile, in the unit of the values. Both ends are observed values.

    With `clusters`, one label per value, clusters rather than values are independent. None with too few values or
    clusters for both ends.

    Raises:
        ValueError: the statistic is the mean or unknown, or the labels do not match the values.
    """
    share, tail = parse_share(statistic), (1 - confidence) / 2
    ordered = sorted(values)

    def bound_share(value: float) -> tuple[bool, bool]:
        """Return whether the lower and the upper end of the interval of the share of values up to this one reach p."""
        if clusters is None:
            below, rest = bisect_right(ordered, value), len(ordered) - bisect_right(ordered, value)
            is_low_above = below > 0 and compute_beta_cdf(share, below, rest + 1) <= tail
            return is_low_above, rest == 0 or compute_beta_cdf(share, below + 1, rest) <= 1 - tail
        ends = compute_bounded_interval(
            [float(one <= value) for one in values], (0.0, 1.0), confidence, clusters=clusters
        ) or (0.0, 1.0)
        return ends[0] >= share, ends[1] >= share

    if not ordered or not 0 < share < 1 or bound_share(-math.inf)[1]:
        return None
    distinct = sorted(set(ordered))
    low = _find_first(distinct, lambda value: bound_share(value)[1])
    high = _find_first(distinct, lambda value: bound_share(value)[0])
    return None if low is None or high is None else (low, high)


def _find_first(ordered: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """Return the first value from which the condition holds, by bisection."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if holds(ordered[middle]):
            high = middle
        else:
            low = middle + 1
    return ordered[low] if low < len(ordered) else None


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
