"""Adjust the p-values of several paired tests by the distribution of the largest statistic.

Step-down maxT (Westfall and Young 1993): under the null hypothesis that the runs are interchangeable, the attempts of
all metrics of a sample are exchanged together. So correlated metrics count as one test rather than several, unlike with
Bonferroni and Holm. Level and power compared with Holm: benchmarks/simulations.md.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_ALL_FLIPS = 13
"""Up to this many units, all sign assignments are enumerated, at most 8,192."""
_MANY_UNITS = 5000
"""Above this many units in all families, statistics are drawn from their normal approximation."""
_FEW_UNITS = 100
"""Up to this many units, a family is never approximated: six units of one sign would have p = 0.014 and not 0.031."""
_DIGITS = 1e-9
_CELLS_AT_ONCE = 4_000_000
_MOST_WAYS = 252
"""Up to this many ways to choose the candidate's attempts, as of five in ten, their sums are computed beforehand."""


class Family(Struct, frozen=True):
    """The tests of some metrics over the same independent units.

    `columns`: shape (units, attempts, tests): the sum of a unit's scores in each attempt, the baseline's attempts
    first, larger where it supports the alternative. `chosen`: how many of the attempts are the candidate's.
    """

    columns: "NDArray[numpy.float64]"
    chosen: int = 1

    @property
    def others(self) -> int:
        """The number of attempts of the baseline."""
        return int(self.columns.shape[1]) - self.chosen

    def scale(self) -> "Family":
        """Return the columns around their unit's mean, so that a statistic is the sum of the chosen ones.

        Units without differences are left out. The null distribution of each statistic has a variance of 1.
        """
        import numpy as np

        columns = self.columns - self.columns.mean(axis=1, keepdims=True)
        columns = columns[(np.abs(columns) > _DIGITS * np.abs(self.columns).max(initial=0.0)).any(axis=(1, 2))]
        variance = (columns**2).sum(axis=(0, 1)) * self._share()
        return Family(columns / np.sqrt(np.where(variance > 0, variance, 1.0)), self.chosen)

    def compute_covariance(self) -> "NDArray[numpy.float64]":
        """Return the covariance of the sums of chosen columns under the null hypothesis, shape (tests, tests)."""
        flat = self.columns.reshape(-1, self.columns.shape[2])
        covariance: NDArray[numpy.float64] = flat.T @ flat * self._share()
        return covariance

    def _share(self) -> float:
        """Return the variance of the sum of chosen columns as a share of their sum of squares (Cochran 1977, 2.3)."""
        count = self.chosen + self.others
        return self.chosen * self.others / (count * (count - 1))


class MaxT(Struct, frozen=True):
    """Adjusted p-values in the order of the tests, and the critical statistic at alpha, shared by all of them."""

    adjusted: tuple[float, ...]
    critical: float


def compute_max_t(
    families: Sequence[Family],
    alpha: float,
    *,
    two_sided: bool,
    resamples: int = 10_000,
    seed: int = 0,
) -> MaxT:
    """Return the p-values of all families, adjusted together; empty without tests.

    Under the null hypothesis that the runs are interchangeable, any of a unit's attempts could be the candidate's. With
    one attempt on each side, differences change sign. Tests of a family are exchanged together, and families
    separately, which is conservative for dependent families (Šidák 1967). The statistic of a test is the sum of the
    candidate's attempts around their unit's mean, over its standard deviation under the null hypothesis.
    """
    import numpy as np

    scaled = [family.scale() for family in families if family.columns.shape[2]]
    tests = sum(family.columns.shape[2] for family in scaled)
    if not tests:
        return MaxT((), 0.0)
    seen = np.concatenate([family.columns[:, family.others :].sum(axis=(0, 1)) for family in scaled])
    exact = sum(len(family.columns) for family in scaled) <= _ALL_FLIPS and all(map(_is_flipped, scaled))
    seen = np.abs(seen) if two_sided else seen
    order = np.argsort(-seen, kind="stable")
    reached, largest = np.zeros(tests), []
    for null in _all(scaled) if exact else _draw(scaled, resamples, np.random.default_rng(seed)):
        maxima = np.maximum.accumulate((np.abs(null) if two_sided else null)[:, order[::-1]], axis=1)[:, ::-1]
        reached += (maxima >= seen[order] - _DIGITS).sum(axis=0)
        largest.append(maxima[:, 0])
    maximum = np.concatenate(largest)
    shares = reached / len(maximum) if exact else (reached + 1) / (len(maximum) + 1)
    adjusted = np.empty(tests)
    adjusted[order] = np.maximum.accumulate(shares)
    return MaxT(tuple(adjusted.tolist()), float(np.quantile(maximum, 1 - alpha, method="higher")))


def _is_flipped(family: Family) -> bool:
    """Return whether each side has one attempt, so that exchanging them changes the sign."""
    return family.chosen == family.others == 1


def _all(families: Sequence[Family]) -> "Iterator[NDArray[numpy.float64]]":
    """Yield the statistics under every sign assignment."""
    import numpy as np

    units = sum(len(family.columns) for family in families)
    bits = (np.arange(2**units)[:, None] >> np.arange(units)) & 1
    ends = np.cumsum([len(family.columns) for family in families])
    parts = np.split(bits, ends[:-1], axis=1)
    yield np.hstack([_flip(family, part) for family, part in zip(families, parts, strict=True)])


def _draw(
    families: Sequence[Family], resamples: int, rng: "numpy.random.Generator"
) -> "Iterator[NDArray[numpy.float64]]":
    """Yield the statistics under random assignments, in blocks of rows."""
    import numpy as np

    many = sum(len(family.columns) for family in families) > _MANY_UNITS
    ways = [_approximate if many and len(family.columns) > _FEW_UNITS else _exchange for family in families]
    drawn = [
        family.columns.shape[2] if way is _approximate else family.columns.size
        for family, way in zip(families, ways, strict=True)
    ]
    rows = max(1, 2 * _CELLS_AT_ONCE // max(1, sum(drawn)))
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        yield np.hstack([way(family, count, rng) for family, way in zip(families, ways, strict=True)])


def _approximate(family: Family, rows: int, rng: "numpy.random.Generator") -> "NDArray[numpy.float64]":
    """Return statistics drawn from their normal approximation, shape (rows, tests)."""
    covariance = family.compute_covariance()
    return rng.multivariate_normal([0.0] * len(covariance), covariance, rows)


def _exchange(family: Family, rows: int, rng: "numpy.random.Generator") -> "NDArray[numpy.float64]":
    """Return the statistics of random assignments, shape (rows, tests)."""
    import numpy as np

    units, count, tests = family.columns.shape
    if _is_flipped(family):
        return _flip(family, rng.integers(0, 2, size=(rows, units), dtype=np.int8))
    if math.comb(count, family.chosen) > _MOST_WAYS:
        keys = rng.random((rows, units, count), dtype=np.float32)
        chosen = keys.argsort(axis=2, kind="stable") < family.chosen  # the columns of the places 0 … chosen - 1
        return np.asarray(chosen.reshape(rows, -1) @ family.columns.reshape(-1, tests))
    ways = [family.columns[:, list(places)].sum(axis=1) for places in combinations(range(count), family.chosen)]
    picks = rng.integers(0, len(ways), size=(rows, units))
    return np.asarray(np.stack(ways, axis=1)[np.arange(units), picks].sum(axis=1))


def _flip(family: Family, bits: "NDArray[numpy.integer]") -> "NDArray[numpy.float64]":
    statistics: NDArray[numpy.float64] = (1.0 - 2.0 * bits) @ family.columns[:, 1]
    return statistics
