"""Compare two runs over the same samples: test whether the differences exceed noise, and measure their size.

The randomisation test flips the sign of each difference, and uses all possible sums, or many drawn at random. Equal
absolute differences are combined: c flips of one size sum exactly to size x (2 B - c) with B binomial(c, 1/2).
"""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from evalspec.verdict.stats.clusters import number_clusters, sum_clusters
from evalspec.verdict.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 10_000
"""Gives a p-value of 0.05 a Monte Carlo error of 0.002."""

Alternative = Literal["two-sided", "greater", "less"]
"""The alternative to "no difference": any difference, candidate above baseline, or candidate below baseline."""

_ALL_SUMS = 2**16
"""Up to this many distinct sums, all are enumerated, such as those of 16 differences of distinct sizes. Those of one
size are always enumerated."""

_DIGITS = 12
"""Differences and sums that agree to this many digits, relative to the largest, count as equal."""
_REPEATS_TO_COUNT = 256
"""From this many equal sizes, one binomial draw is cheaper than one bit for each."""

_SIGNS_AT_ONCE = 250_000
"""The signs of a block, as many as stay in the processor's cache."""


class RandomisationTest(Struct, frozen=True):
    """The result of a paired randomisation test.

    `units`: number of independent units (pairs or clusters). `nonzero`: number of units with a difference. `exact`:
    whether all sign assignments were used, rather than a random sample.
    """

    p_value: float
    mean: float
    pairs: int
    units: int
    nonzero: int
    exact: bool


def compute_differences(baseline: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Return candidate minus baseline for each pair; 0 if they are equal within rounding.

    Raises:
        ValueError: the numbers of values differ.
    """
    if len(baseline) != len(candidate):
        raise ValueError(
            f"{len(baseline)} baseline values but {len(candidate)} candidate values; the numbers must be equal"
        )
    return [
        0.0 if math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-12) else new - old
        for old, new in zip(baseline, candidate, strict=True)
    ]


def compute_randomisation_test(
    differences: Sequence[float],
    alternative: Alternative = "two-sided",
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> RandomisationTest | None:
    """Return the paired randomisation (sign-flip) test of the mean difference (Fisher 1935, section 21).

    None without pairs. Under the null hypothesis that the runs are interchangeable, each difference could have the
    other sign. The p-value is the share of sign assignments whose mean is at least as extreme as the observed one,
    including ties. It is exact for at most 65,536 distinct sums, and for differences of one size. Otherwise it is
    (b + 1) / (m + 1), if b of m random assignments are as extreme: never 0, and itself a valid p-value (Phipson and
    Smyth 2010). No distribution of the scores is assumed. Zero differences have no influence.

    For scores of 0 and 1, this is McNemar's (1947) test in its exact form: a binomial test of the changed pairs, whose
    error does not exceed alpha. Chi-square and mid-p are closer to alpha but may exceed it (Fagerland, Lydersen and
    Laake 2013), which matters with few changed pairs, where they help most.

    With `clusters`, one label per pair, the pairs of a cluster change sign together.

    Raises:
        ValueError: a difference is not finite, or the labels do not match the differences.
    """
    members = None if clusters is None else number_clusters(clusters, len(differences))
    if not differences:
        return None
    import numpy as np

    array = to_finite_array(differences)
    units = sum_clusters(array, members)[0]
    greatest = np.abs(units).max() or 1.0
    units = (units / greatest).round(_DIGITS)
    sizes, counts = np.unique(np.abs(units[units != 0]), return_counts=True)
    exact = len(sizes) < 2 or math.prod(int(count) + 1 for count in counts) <= _ALL_SUMS
    if exact:
        sums, weights = compute_all_sums(sizes, counts)
    else:
        sums, weights = draw_sums(sizes, counts, resamples, np.random.default_rng(seed)), np.ones(resamples)
    seen, tolerance = units.sum(), 10.0**-_DIGITS * len(units)  # each unit is rounded by up to half a digit
    if alternative == "two-sided":
        extreme = np.abs(sums) >= abs(seen) - tolerance
    else:
        extreme = sums >= seen - tolerance if alternative == "greater" else sums <= seen + tolerance
    share = weights[extreme].sum()
    return RandomisationTest(
        p_value=min(1.0, float(share if exact else (share + 1) / (resamples + 1))),
        mean=float(array.mean()),
        pairs=len(array),
        units=len(units),
        nonzero=int(counts.sum()),
        exact=exact,
    )


class EffectSize(Struct, frozen=True):
    """The size of paired differences without their unit.

    `cohens_dz`: their mean over their standard deviation (Cohen 1988, Lakens 2013): 0.2 is called small, 0.5 medium,
    0.8 large. None if they do not vary. `superiority`: the share of pairs in which the candidate is above the baseline,
    with ties counting half (Grissom and Kim 2012). 0.5 means no difference. Cliff's delta of the pairs is
    2 x superiority - 1.
    """

    cohens_dz: float | None
    superiority: float


def compute_effect_size(differences: Sequence[float]) -> EffectSize | None:
    """Return the effect sizes of paired differences, candidate minus baseline; None without pairs."""
    if not differences:
        return None
    error = compute_standard_error(differences)
    count = len(differences)
    ahead = sum(difference > 0 for difference in differences) + sum(difference == 0 for difference in differences) / 2
    mean = math.fsum(differences) / count
    return EffectSize(mean / (error * math.sqrt(count)) if error else None, ahead / count)


def compute_standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean, s / sqrt(n) with n - 1 in s, in the unit of the values.

    None below two values.

    Raises:
        ValueError: a value is not finite.
    """
    if len(values) < 2:
        return None
    if min(values) == max(values):
        return 0.0
    array = to_finite_array(values)
    deviations = array - array.mean()
    return math.sqrt(len(array) / (len(array) - 1) * float(deviations @ deviations)) / len(array)


def compute_half_binomial(count: int) -> "NDArray[numpy.float64]":
    """Return the probabilities of 0, 1 … `count` heads in `count` tosses of a fair coin; shape (count + 1,)."""
    import numpy as np

    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1)))))
    probabilities: NDArray[np.float64] = np.exp(logs[-1] - logs - logs[::-1] - count * math.log(2))
    return probabilities


def compute_all_sums(
    sizes: "NDArray[numpy.float64]", counts: "NDArray[numpy.int64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return every sum and its probability. `sizes`: distinct. `counts`: how often each size occurs.

    Both results have the shape (product of count + 1,).
    """
    import numpy as np

    sums, probabilities = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts, strict=True):
        steps = size * (2 * np.arange(count + 1) - count)
        sums = np.add.outer(sums, steps).ravel()
        probabilities = np.multiply.outer(probabilities, compute_half_binomial(int(count))).ravel()
    return sums, probabilities


def draw_sums(
    sizes: "NDArray[numpy.float64]", counts: "NDArray[numpy.int64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Return sums under random signs; shape (resamples,). Signs are drawn in blocks, so that memory is bounded."""
    import numpy as np

    sums = np.zeros(resamples)
    many = counts >= _REPEATS_TO_COUNT
    for size, count in zip(sizes[many], counts[many], strict=True):
        sums += size * (2 * rng.binomial(count, 0.5, size=resamples) - count)
    few = np.repeat(sizes[~many], counts[~many])
    rows = max(1, _SIGNS_AT_ONCE // resamples)
    for start in range(0, len(few), rows):
        block = few[start : start + rows]
        tosses = rng.integers(0, 256, size=(len(block), -(-resamples // 8)), dtype=np.uint8)
        sums += 2 * (block @ np.unpackbits(tosses, axis=1, count=resamples)) - block.sum()
    return sums
