"""Distributions for the charts."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from evalspec.stats import compute_statistic

_BINS = 20
_PERCENTILES = ("p50", "p95", "p99")


def compute_histogram(values: Sequence[float], bounds: Iterable[float] = ()) -> dict[str, Any] | None:
    """Counts of the values in bins of equal width, the last one closed; None without values, or where
    they are too far apart for any scale.

    The scale goes from 0 to 1, and as much further as values and `bounds` do.
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
    """The histogram of latencies with their percentiles; None without values."""
    histogram = compute_histogram(values, bounds)
    if histogram is None:
        return None
    return histogram | {"percentiles": [[name, compute_statistic(values, name)] for name in _PERCENTILES]}
