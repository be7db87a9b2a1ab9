"""Two runs over the same samples: whether they differ by more than chance, and by how much, sample by sample.

The randomisation test tosses the sign of each difference: all sums that this can give, or many drawn at random. Numbers
of equal size are taken together: c tosses of one size sum to size x (2 B - c) with B binomial(c, 1/2), exactly.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 10_000
"""Enough for a p-value of 0.05 to have a Monte Carlo error of 0.002."""

Alternative = Literal["two-sided", "greater", "less"]
"""What is held against "no difference": any, candidate above baseline, candidate below baseline."""

_ALL_SUMS = 2**16
"""Up to so many different sums all are made: 16 differences of sizes of their own, or 65,535 of one size."""

_DIGITS = 12
"""Differences are equal, and sums as large as the one observed, where they are to so many digits of the greatest."""
_REPEATS_TO_COUNT = 256
"""From so many equal sizes on, one binomial is cheaper than a bit for each of them."""

_BYTES_AT_ONCE = 8_000_000


@dataclass(frozen=True, slots=True)
class RandomisationTest:
    """Outcome of a paired randomisation test.

    `units` are what is independent (pairs, or clusters of them) and `nonzero` those of them that differ at all. `exact`
    says that all sign assignments were taken into account and not a random choice of them.
    """

    p_value: float
    mean: float
    pairs: int
    units: int
    nonzero: int
    exact: bool


@dataclass(frozen=True, slots=True)
class McNemarTest:
    """Outcome of McNemar's test: how many samples of 0 became 1 (`gained`) and of 1 became 0 (`lost`)."""

    p_value: float
    pairs: int
    gained: int
    lost: int


def compute_differences(baseline: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Candidate minus baseline, pair by pair; 0 where the two are equal but for rounding.

    Raises:
        ValueError: there are not as many of one as of the other.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} baseline values but {len(candidate)} candidate values: they are not pairs")
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
    """Paired randomisation (sign-flip) test of the mean difference (Fisher 1935, section 21); None without pairs.

    Were it chance which run is which, each difference could as well have the other sign. The p-value is the share of
    sign assignments whose mean is at least as far out as the one seen; ties count. It is exact where there are at most
    65,536 different sums. Else it is (b + 1) / (m + 1), with b of m random assignments as far out: never 0, and valid
    as a p-value itself (Phipson and Smyth 2010). No shape of the scores is assumed. Zero differences do not matter.

    With `clusters`, one label a pair, the pairs of a cluster change sign together.

    Raises:
        ValueError: a difference is not finite, or the labels do not fit the differences.
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
    exact = math.prod(int(count) + 1 for count in counts) <= _ALL_SUMS
    if exact:
        sums, weights = compute_all_sums(sizes, counts)
    else:
        sums, weights = draw_sums(sizes, counts, resamples, np.random.default_rng(seed)), np.ones(resamples)
    seen, tolerance = units.sum(), 10.0**-_DIGITS * np.abs(units).sum()
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


def compute_mcnemar_test(
    baseline: Sequence[float], candidate: Sequence[float], alternative: Alternative = "two-sided"
) -> McNemarTest | None:
    """McNemar's (1947) test of 0/1 scores, in its exact form: a binomial test of the pairs that changed.

    Exact at every number of pairs, so that the error stays under alpha. Chi-square and mid-p come closer to alpha, but
    may exceed it (Fagerland, Lydersen and Laake 2013); that matters with few changed pairs, where they help most.
    The p-value is that of the randomisation test of the same pairs, which is the one to take with clusters. None
    without pairs.

    Raises:
        ValueError: a score is neither 0 nor 1, or there are not as many of one as of the other.
    """
    changes = compute_differences(baseline, candidate)
    for score in (*baseline, *candidate):
        if score not in (0, 1):
            raise ValueError(f"McNemar's test is of scores 0 and 1, not {score:g}; take the randomisation test")
    if not changes:
        return None
    gained, lost = changes.count(1), changes.count(-1)
    probabilities = compute_half_binomial(gained + lost)
    at_least = {
        "two-sided": 2 * probabilities[max(gained, lost) :].sum(),
        "greater": probabilities[gained:].sum(),
        "less": probabilities[lost:].sum(),
    }
    return McNemarTest(min(1.0, float(at_least[alternative])), len(changes), gained, lost)


@dataclass(frozen=True, slots=True)
class EffectSize:
    """Size of paired differences without their unit.

    `cohens_dz` is their mean over their standard deviation (Cohen 1988, Lakens 2013): 0.2 is called small, 0.5 medium,
    0.8 large; None where they do not vary. `superiority` is the share of pairs in which the candidate is above the
    baseline, ties counting half (Grissom and Kim 2012): 0.5 is no difference. Cliff's delta of the pairs is
    2 x superiority - 1.
    """

    cohens_dz: float | None
    superiority: float


def compute_effect_size(differences: Sequence[float]) -> EffectSize | None:
    """Effect sizes of paired differences, candidate minus baseline; None without pairs."""
    if not differences:
        return None
    error = compute_standard_error(differences)
    count = len(differences)
    ahead = sum(difference > 0 for difference in differences) + sum(difference == 0 for difference in differences) / 2
    mean = math.fsum(differences) / count
    return EffectSize(mean / (error * math.sqrt(count)) if error else None, ahead / count)


def compute_standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean, in the unit of the values: s / sqrt(n), with n - 1 in s; None below two values.

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
    """Probability of 0, 1 … count heads in so many tosses of a fair coin; shape (count + 1,)."""
    import numpy as np

    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1)))))
    probabilities: NDArray[np.float64] = np.exp(logs[-1] - logs - logs[::-1] - count * math.log(2))
    return probabilities


def compute_all_sums(
    sizes: "NDArray[numpy.float64]", counts: "NDArray[numpy.int64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Every sum and its probability; `sizes` are distinct and `counts` says how often each occurs.

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
    """Sums under random signs; shape (resamples,)."""
    import numpy as np

    many = counts >= _REPEATS_TO_COUNT
    sums = _draw_one_by_one(np.repeat(sizes[~many], counts[~many]), resamples, rng)
    for size, count in zip(sizes[many], counts[many], strict=True):
        sums += size * (2 * rng.binomial(count, 0.5, size=resamples) - count)
    return sums


def _draw_one_by_one(
    sizes: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """A random byte tosses eight signs; the 256 sums that eight sizes can have are made once and looked up."""
    import numpy as np

    eights = np.pad(sizes, (0, -len(sizes) % 8)).reshape(-1, 8)
    sums = np.zeros(resamples)
    at_once = max(1, _BYTES_AT_ONCE // max(resamples, 8 * 256))
    for start in range(0, len(eights), at_once):
        tables = np.zeros((len(eights[start : start + at_once]), 1))
        for column in eights[start : start + at_once].T[:, :, None]:
            tables = np.hstack([tables - column, tables + column])
        words = rng.integers(0, 2**64, size=(len(tables), -(-resamples // 8)), dtype=np.uint64)
        for table, tosses in zip(tables, words.view(np.uint8), strict=True):
            sums += table.take(tosses[:resamples], mode="clip")  # a byte is never outside: no check
    return sums
