"""How large a difference between two runs is."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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
