"""The interval that a summary shows: which method suits which scores is decided here and nowhere else."""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from evalspec.stats.bootstrap import RESAMPLES, bootstrap_interval


def compute_interval(
    values: Sequence[float],
    statistic: str = "mean",
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    clusters: Sequence[Hashable] | None = None,
    may_be_passes: bool = True,
) -> tuple[float, float] | None:
    """Confidence interval of a statistic, in the unit of the values: Wilson's for means of 0/1, else the bootstrap's.

    Ten of ten passed says little about the eleventh, but resampling them gives ten of ten again: the bootstrap takes
    what it has not seen for impossible. Wilson's interval is from 0.72 there. With clusters the bootstrap is all there
    is. Measured coverage: docs/adr/0011-intervals-and-tests.md. None below two values or two clusters; a point where
    all values are equal, of another number than 0 or 1 or in clusters. `may_be_passes`: whether values that are all 0
    or 1 are failures and passes; differences are not, whatever they come to.

    Raises:
        ValueError: the statistic is not known, a value is not finite, or the labels do not fit the values.
    """
    are_passes = may_be_passes and statistic == "mean" and clusters is None
    if are_passes and len(values) > 1 and set(values) <= {0, 1}:
        return compute_wilson_interval(round(sum(values)), len(values), confidence)
    return bootstrap_interval(values, statistic, confidence, resamples, seed, clusters=clusters)


def compute_wilson_interval(passes: int, attempts: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share (Wilson 1927; recommended by Brown, Cai and DasGupta 2001); always within 0 to 1.

    Raises:
        ValueError: there are no attempts, or the passes are not between 0 and the attempts.
    """
    if attempts < 1 or not 0 <= passes <= attempts:
        raise ValueError(f"{passes} of {attempts} is not a share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (passes + z * z / 2) / (attempts + z * z)
    reach = z * math.sqrt(passes * (attempts - passes) / attempts + z * z / 4) / (attempts + z * z)
    return (centre - reach if passes else 0.0), (centre + reach if passes < attempts else 1.0)
