"""Compute the smallest change that a paired test detects, and the pairs it needs, by simulating the actual test."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.verdict.stats.bounded import compute_beta_cdf
from evalspec.verdict.stats.clusters import sum_clusters
from evalspec.verdict.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

POWER = 0.8
"""Share of comparisons that detect a change of the detectable size (Cohen 1988)."""

_SIMULATIONS = 1000
_MOST_UNITS = 2000
"""With more units, the statistic is treated as normal."""
_STEPS = 20
_DIGITS = 1e-9
_NORMAL = NormalDist()


def count_needed_to_decide(truth: float, limit: float, alpha: float, most: int) -> int | None:
    """Return about how many 0/1 scores decide in POWER of the draws whether their share is above or below a limit.

    Decided is where Clopper and Pearson's two-sided interval at level `alpha` has the limit outside. Other scores from
    0 to 1 with the same mean vary less. None if more than `most` are needed, or if the share is the limit.
    """
    if truth == limit:
        return None
    if truth < limit:
        truth, limit = 1 - truth, 1 - limit

    def decides(count: int) -> bool:
        passing = range(1, count + 1)
        fewest = bisect_left(passing, True, key=lambda k: compute_beta_cdf(limit, k, count - k + 1) <= alpha / 2)
        return fewest < count and compute_beta_cdf(truth, fewest + 1, count - fewest) >= POWER

    place = bisect_left(range(1, most + 1), True, key=decides)
    return place + 1 if place < most else None


class Power(Struct, frozen=True):
    """An observed comparison, to predict what a one-sided test at `alpha` detects in similar ones.

    `differences`: those of the pairs, positive if the candidate is worse. `members`: each pair's cluster, None if all
    are independent. `is_binary`: scores are 0 or 1, so that a change means flips. `critical`: the significant value of
    the statistic (sum over root of the sum of squares) if several tests are adjusted together.
    """

    differences: Sequence[float]
    members: Sequence[int] | None
    is_binary: bool
    alpha: float
    critical: float | None = None

    @property
    def level(self) -> float:
        """The level of a single test. It is capped at alpha, which it could exceed with few changed pairs."""
        return self.alpha if self.critical is None else min(self.alpha, 1 - _NORMAL.cdf(self.critical))

    @property
    def units(self) -> int:
        """The number of independent units."""
        return len(self.differences) if self.members is None else len(set(self.members))

    @property
    def step(self) -> float:
        """The smallest observed step of the score: 1 for 0/1 scores, close to 0 for continuous numbers."""
        if self.is_binary:
            return 1.0
        return min((abs(difference) for difference in self.differences if difference), default=0.0)

    @property
    def limit(self) -> float:
        """The statistic from which the test is significant."""
        return _NORMAL.inv_cdf(1 - self.level)


def compute_detectable(power: Power) -> float | None:
    """Return the smallest true change of the mean that four of five comparisons detect, in the unit of the score.

    The observed differences serve as the noise: they are centred, resampled, and shifted by the change, in whole steps
    if scores have grades. 0/1 scores flip instead: the observed number of flips, half of them each way, and losses for
    the change. None without pairs, and if numbers or clusters do not vary at all, because the noise is then unknown.
    """
    if not power.differences:
        return None
    if power.is_binary and power.members is None:
        finds = _flips(power)
    elif abs(_units(power)[0]).max() <= _DIGITS * max(map(abs, power.differences)):
        return None
    else:
        finds = _shifts(power)
    largest = 1.0 if power.is_binary else 8 * _spread(power)
    if finds(largest) < POWER:
        return None
    low, high = 0.0, largest
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if finds(middle) >= POWER else (middle, high)
    return high if power.is_binary and power.members is None else high * (1 + _doubt(power))


def compute_needed(power: Power, change: float) -> int | None:
    """Return about how many pairs detect a true change of this size in four of five comparisons; None if unknown.

    Raises:
        ValueError: the change is not above 0.
    """
    if change <= 0:
        raise ValueError("no number of samples is enough to detect a change of 0")
    moments = compute_moments(power)
    if moments is None:
        return None
    noise, size = moments
    squared = float((_units(power)[1] ** 2).mean())
    noise += _scatter(power, change) * size
    reach = power.limit * math.sqrt(noise + change * change * squared) + _NORMAL.inv_cdf(POWER) * math.sqrt(noise)
    return max(2, math.ceil((reach / (change * size)) ** 2 * size))


def compute_needed_to_exclude(
    moments: tuple[float, float] | None, drop: float, alpha: float, worst: float
) -> int | None:
    """Return about how many pairs exclude a drop, one-sided at alpha, in four of five comparisons without change.

    `moments`: the variance of the difference of a unit's sums, and its mean size. The bounded interval has one more
    unit with the worst possible difference, `worst`.
    """
    if moments is None or drop <= 0:
        return None
    noise, size = moments
    reach = (_NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(POWER)) * math.sqrt(noise) / size
    root = (reach + math.sqrt(reach * reach + 4 * drop * worst)) / (2 * drop)
    return max(2, math.ceil(root * root * size))


def _units(power: Power) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Return unbiased noise (sum of differences minus its share of the mean) and size of each independent unit."""
    sums, sizes = sum_clusters(to_finite_array(power.differences), power.members)
    noise = sums - sums.sum() / sizes.sum() * sizes
    return noise * math.sqrt(len(noise) / max(1, len(noise) - 1)), sizes


def compute_moments(power: Power) -> tuple[float, float] | None:
    """Return the variance of a unit's sum of differences, and its mean size; None if nothing varies or is known."""
    if len(power.differences) < 2:
        return None
    noise, sizes = _units(power)
    spread = float((noise**2).mean())
    return (spread, float(sizes.mean())) if spread else None


def _doubt(power: Power) -> float:
    """Return the relative variance of the observed variance, (kurtosis - 1) / units: 2 / units for normal noise.

    If the noise is estimated from few units, or from few with a difference, a change of the computed size is detected
    in less than four of five comparisons. Adding about this share to the change compensates (measured with 20 to 200
    units).
    """
    noise, _ = _units(power)
    return float((noise**4).sum() / (noise**2).sum() ** 2 - 1 / len(noise))


def _scatter(power: Power, change: float) -> float:
    """Return the variance of the change between samples: graded scores drop by whole steps, some by one more."""
    if not power.step:
        return 0.0
    more = change / power.step % 1
    return power.step**2 * more * (1 - more)


def _spread(power: Power) -> float:
    """Return the scale of the search for changes, large enough to be detected in any case."""
    noise, sizes = _units(power)
    return max(float(abs(noise).max() / sizes.mean()), 1e-12)


def _flips(power: Power) -> Callable[[float], float]:
    """Return the power of the exact binomial test of 0/1 scores as a function of the lost share."""
    import numpy as np

    count = len(power.differences)
    churn = sum(difference != 0 for difference in power.differences) / count / 2
    least = _critical_losses(count, power)

    def finds(change: float) -> float:
        lost = min(churn + change, 1.0)
        gained = min(churn, 1.0 - lost)
        rng = np.random.default_rng(0)
        draws = rng.multinomial(count, [lost, gained, 1 - lost - gained], size=_SIMULATIONS)
        return float((draws[:, 0] >= least[draws[:, 0] + draws[:, 1]]).mean())

    return finds


def _critical_losses(most: int, power: Power) -> "NDArray[numpy.int64]":
    """Return how many losses are significant for 0 … `most` changed pairs; more than the pairs if none are enough.

    Decided by the exact test, and with several tests also by the statistic (lost - gained) / sqrt(changed).
    """
    import numpy as np

    from evalspec.verdict.stats.paired import compute_half_binomial

    every = np.arange(most + 1)
    least = every + 1
    for changed in range(1, most + 1):
        if changed <= _MOST_UNITS:
            tails = compute_half_binomial(changed)[::-1].cumsum()[::-1]
            least[changed] = int((tails > power.alpha).sum())
        else:
            reach = _NORMAL.inv_cdf(1 - power.alpha) * math.sqrt(changed)
            least[changed] = math.ceil((changed + reach + 1) / 2)
    if power.critical is None:
        return least
    return np.maximum(least, np.ceil((every + power.critical * np.sqrt(every)) / 2 - _DIGITS).astype(np.int64))


def _shifts(power: Power) -> Callable[[float], float]:
    """Return the power of the randomisation test as a function of the shift."""
    import numpy as np

    noise, sizes = _units(power)
    columns = np.column_stack([noise, noise**2, sizes, sizes**2, noise * sizes])
    units = len(noise)
    if units > _MOST_UNITS:
        moments = columns.sum(axis=0)[None, :]

        def finds_among_many(change: float) -> float:
            noise = moments[0, 1] + _scatter(power, change) * moments[0, 2]
            needed = power.limit * math.sqrt(noise + change**2 * moments[0, 3])
            return _NORMAL.cdf((change * moments[0, 2] - needed) / math.sqrt(noise))

        return finds_among_many
    rng = np.random.default_rng(0)
    times = rng.multinomial(units, np.full(units, 1 / units), size=_SIMULATIONS)
    noises, squares, totals, squared, mixed = (times @ columns).T

    tosses = rng.standard_normal(_SIMULATIONS)

    def finds(change: float) -> float:
        scatter = _scatter(power, change) * totals
        spread = np.sqrt(squares + 2 * change * mixed + change**2 * squared + scatter)
        statistic = (noises + change * totals + np.sqrt(scatter) * tosses) / spread
        return float((statistic >= power.limit).mean())

    return finds
