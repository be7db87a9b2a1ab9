"""How small a change a paired test finds, and how many pairs it needs: simulated with the test that is really used."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from evalspec.stats.clusters import sum_clusters
from evalspec.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

POWER = 0.8
"""Share of comparisons in which a change of the detectable size is found (Cohen 1988)."""

_SIMULATIONS = 1000
_MOST_UNITS = 2000
"""From more units on, the statistic is as good as normal."""
_STEPS = 20
_DIGITS = 1e-9
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Power:
    """A comparison as it was observed: what a test at `alpha`, one-sided, would find in others like it.

    `differences`: of the pairs, positive where the candidate is worse. `members`: the cluster of each, None where all
    are independent. `is_binary`: scores are 0 or 1, so that a change means that some flip. `critical`: the statistic
    (sum over root of the sum of squares) that is significant where several tests are adjusted together.
    """

    differences: Sequence[float]
    members: Sequence[int] | None
    is_binary: bool
    alpha: float
    critical: float | None = None

    @property
    def level(self) -> float:
        """The level of one test by itself; never above alpha, which few changed pairs may suggest."""
        return self.alpha if self.critical is None else min(self.alpha, 1 - _NORMAL.cdf(self.critical))

    @property
    def units(self) -> int:
        """How many independent units there are."""
        return len(self.differences) if self.members is None else len(set(self.members))

    @property
    def step(self) -> float:
        """The smallest step that a score was seen to take: 1 for 0/1 scores, next to nothing for numbers."""
        if self.is_binary:
            return 1.0
        return min((abs(difference) for difference in self.differences if difference), default=0.0)

    @property
    def limit(self) -> float:
        """The statistic from which on the test is significant."""
        return _NORMAL.inv_cdf(1 - self.level)


def compute_detectable(power: Power) -> float | None:
    """The smallest true change of the mean that is found in four of five comparisons, in the unit of the score.

    The observed differences are taken for the noise: centred, resampled, and shifted by the change, in whole steps
    where scores have grades. 0/1 scores flip instead: gains and losses as were seen, half of them each way, and losses
    for the change. None without pairs, and where numbers or clusters do not vary at all: without any noise seen it is
    unknown what would be found.
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
    """About how many such pairs find a true change of that size in four of five comparisons; None where unknown.

    Raises:
        ValueError: the change is not above 0.
    """
    if change <= 0:
        raise ValueError("no number of samples is enough to find a change of 0")
    moments = _moments(power)
    if moments is None:
        return None
    noise, size, squared = moments
    noise += _scatter(power, change) * size
    reach = power.limit * math.sqrt(noise + change * change * squared) + _NORMAL.inv_cdf(POWER) * math.sqrt(noise)
    return max(2, math.ceil((reach / (change * size)) ** 2 * size))


def compute_needed_to_exclude(power: Power, drop: float, alpha: float) -> int | None:
    """About how many such pairs exclude that drop, one-sided at alpha, in four of five comparisons of equals.

    The half pseudo-pair of the bounded interval adds 1 / (2 n) of the range to the noise.
    """
    moments = _moments(power)
    if moments is None or drop <= 0:
        return None
    noise, size, _ = moments
    reach = (_NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(POWER)) * math.sqrt(noise) / size
    root = (reach + math.sqrt(reach * reach + 2 * drop)) / (2 * drop)
    return max(2, math.ceil(root * root * size))


def _units(power: Power) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Noise and size of each independent unit: its sum of differences less its share of the mean, without bias."""
    sums, sizes = sum_clusters(to_finite_array(power.differences), power.members)
    noise = sums - sums.sum() / sizes.sum() * sizes
    return noise * math.sqrt(len(noise) / max(1, len(noise) - 1)), sizes


def _moments(power: Power) -> tuple[float, float, float] | None:
    """Variance of a unit's sum, mean size, and mean squared size; None where nothing varies or nothing is known."""
    if len(power.differences) < 2:
        return None
    noise, sizes = _units(power)
    spread = float((noise**2).mean())
    return (spread, float(sizes.mean()), float((sizes**2).mean())) if spread else None


def _doubt(power: Power) -> float:
    """Relative variance of the observed variance, (kurtosis - 1) / units: 2 / units of normal noise.

    Noise that is known from few units, or from few that differ at all, makes a change of the computed size harder to
    find than four times in five: by about this share of it, measured with 20 to 200 units.
    """
    noise, _ = _units(power)
    return float((noise**4).sum() / (noise**2).sum() ** 2 - 1 / len(noise))


def _scatter(power: Power, change: float) -> float:
    """Variance of the change from sample to sample: scores in grades fall by whole steps, some by one more."""
    if not power.step:
        return 0.0
    more = change / power.step % 1
    return power.step**2 * more * (1 - more)


def _spread(power: Power) -> float:
    """A scale on which changes are looked for: large enough to be found in any case."""
    noise, sizes = _units(power)
    return max(float(abs(noise).max() / sizes.mean()), 1e-12)


def _flips(power: Power) -> Callable[[float], float]:
    """Power of the exact binomial test of 0/1 scores, as a function of the share that is lost."""
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
    """For 0 … most changed pairs: how many losses are significant; more than there are where none is enough.

    By the exact test, and where several tests are made by the statistic too, which is (lost - gained) / sqrt(changed).
    """
    import numpy as np

    from evalspec.stats.paired import compute_half_binomial

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
    """Power of the randomisation test, as a function of the shift."""
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
