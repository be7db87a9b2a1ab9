"""How large a difference between two runs is, and how large it must be to be found with so many samples."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from evalspec.stats.clusters import number_clusters, sum_clusters
from evalspec.stats.descriptive import to_finite_array


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


def compute_standard_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float | None:
    """Standard error of the mean, in the unit of the values; None below two values or two clusters.

    s / sqrt(n), with n - 1 in s. With `clusters`, that of the sum over size of clusters by linearisation (Cochran 1977,
    chapter 6): the sums of a cluster's deviations from the mean take the place of the deviations.

    Raises:
        ValueError: a value is not finite, or the labels do not fit the values.
    """
    members = None if clusters is None else number_clusters(clusters, len(values))
    units = len(values) if members is None else len(set(members))
    if units < 2:
        return None
    if min(values) == max(values):
        return 0.0
    array = to_finite_array(values)
    deviations = sum_clusters(array - array.mean(), members)[0]
    return math.sqrt(units / (units - 1) * float(deviations @ deviations)) / len(array)


def compute_minimum_detectable_change(
    differences: Sequence[float],
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> float | None:
    """The smallest true change of the mean that a two-sided test at alpha finds with that power, for these pairs.

    (z(1 - alpha / 2) + z(power)) x standard error of the mean difference (Cohen 1988; Card et al. 2020 for language
    models): 2.80 standard errors for the defaults, in the unit of the score. Normal approximation, a little too
    hopeful below some 30 pairs. None below two pairs or clusters, and where the differences do not vary: without any
    variation seen, it cannot be told what would be found.

    Raises:
        ValueError: the labels do not fit the differences.
    """
    error = compute_standard_error(differences, clusters)
    return _standard_errors(alpha, power) * error if error else None


def compute_sample_size(
    differences: Sequence[float],
    change: float,
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    clusters: Sequence[Hashable] | None = None,
) -> int | None:
    """How many pairs like these it takes to find a true change of that size: the reverse of the function above.

    With `clusters` the count is of pairs in clusters of the same make. None where the minimum detectable change is.

    Raises:
        ValueError: the change is 0, or the labels do not fit the differences.
    """
    if not change:
        raise ValueError("no number of samples is enough to find a change of 0")
    error = compute_standard_error(differences, clusters)
    if not error:
        return None
    return max(2, math.ceil(len(differences) * (_standard_errors(alpha, power) * error / change) ** 2))


def _standard_errors(alpha: float, power: float) -> float:
    """How many standard errors away from 0 the truth must be."""
    return NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(power)
