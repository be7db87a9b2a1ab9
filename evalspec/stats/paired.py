"""Whether two runs over the same samples differ by more than chance: tests of the differences sample by sample."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array
from evalspec.stats.sign_flips import compute_all_sums, compute_half_binomial, draw_sums

RESAMPLES = 10_000
"""Enough for a p-value of 0.05 to have a Monte Carlo error of 0.002."""

Alternative = Literal["two-sided", "greater", "less"]
"""What is held against "no difference": any, candidate above baseline, candidate below baseline."""

_ALL_SUMS = 2**16
"""Up to so many different sums all are made: 16 differences of sizes of their own, or 65,535 of one size."""

_DIGITS = 12
"""Differences are equal, and sums as large as the one observed, where they are to so many digits of the greatest."""


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
