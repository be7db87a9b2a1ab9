"""The power of the gate's comparison with a baseline, by simulating it: attempts, test, margin and confirmation.

Attempts are drawn from a model of one agent: the rate of each sample with 0/1 scores, or deviations of single attempts
from a unit's mean. A drop lowers every rate by the same share, or every other score by whole steps.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.verdict.stats.detection import POWER

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_SIMULATIONS = 2000
_CELLS = 6_000_000
"""With more attempts in all simulations, fewer are simulated."""
_FEWEST = 200
_SIMULATIONS_EXACT = 600
"""Simulations of the bounded test, which is slow."""
_STEPS = 10
_MOST_TERMS = 24
_DIGITS = 9
_NORMAL = NormalDist()


def compute_chance(attempts: int, own: int, margin: float = 0.0) -> float:
    """Return the probability that a unit is as much worse as it can be by noise alone.

    `attempts`, `own`: of the baseline and of the run, which are exchanged. `margin`: if the bounded test of a margin is
    made instead, its share of the largest possible difference.
    """
    return (1 + margin) / 2 if margin else 1 / math.comb(attempts + own, own)


class AttemptModel(Struct, frozen=True):
    """How the attempts of an unchanged agent vary, in the unit of the score.

    `rates`: probability that an attempt scores 1, one per sample, in the order of the units; empty if scores are not 0
    or 1. `deviations`: of single attempts from the mean of their unit, summed over its samples. `sizes`: number of
    samples of each unit; empty with rates of independent samples. `step`: the smallest step of a score, 0 if it is
    continuous.
    """

    rates: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    step: float = 0.0

    @property
    def units(self) -> int:
        """The number of independent units."""
        return len(self.sizes or self.rates)

    @property
    def grain(self) -> float:
        """The smallest step of a sum of scores."""
        return 1.0 if self.rates else self.step

    @property
    def variance(self) -> float:
        """The variance of a unit's sum of scores in one attempt."""
        if self.rates:
            return math.fsum(rate * (1 - rate) for rate in self.rates) / self.units
        return math.fsum(deviation**2 for deviation in self.deviations) / max(1, len(self.deviations))

    @property
    def largest(self) -> float:
        """The largest drop to look for."""
        if self.rates:
            return math.fsum(self.rates) / len(self.rates)
        return 8 * max(map(abs, self.deviations), default=0.0) * len(self.sizes) / max(1, sum(self.sizes))


class Design(Struct, frozen=True):
    """What the gate compares. `attempts`: of each sample in the baseline. `own`: in the run, and in its confirmation.

    `level`: of the one-sided test; None: the value decides. `margin`: the allowed drop. `reach`: the largest possible
    difference; None if unbounded. `confirmed`: whether a second run has to be significant too.
    """

    attempts: int
    own: int
    level: float | None
    margin: float = 0.0
    reach: float | None = 1.0
    confirmed: bool = True

    @property
    def is_bounded_test(self) -> bool:
        """Whether a drop beyond the margin is tested by the bounded test."""
        return self.margin > 0 and self.reach is not None and self.level is not None

    @property
    def chance(self) -> float:
        """The probability that a unit is as much worse as it can be by noise alone."""
        return compute_chance(
            self.attempts, self.own, self.margin / self.reach if self.is_bounded_test and self.reach else 0.0
        )


@lru_cache  # metrics whose noise is assumed have the same model
def find_detectable(model: AttemptModel, design: Design, seed: int = 0) -> float | None:
    """Return the smallest true drop that four of five runs detect, in the unit of the score; None if none is."""
    power = compute_power(model, design, seed)
    low, high = 0.0, model.largest
    if not model.units or power(high) < POWER:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def compute_power(model: AttemptModel, design: Design, seed: int = 0) -> Callable[[float], float]:
    """Return the power as a function of the true drop: the share of runs that the gate fails."""
    import numpy as np

    count = design.attempts + 2 * design.own
    most = _SIMULATIONS_EXACT if design.is_bounded_test else _SIMULATIONS
    simulations = max(_FEWEST, min(most, _CELLS // max(1, (len(model.rates) or model.units) * count)))
    rng = np.random.default_rng(seed)
    draw = _draw_passes if model.rates else _draw_scores
    attempts = draw(model, (simulations, model.units, count), design.attempts, rng)
    sizes = np.array(model.sizes or [1] * model.units, dtype=np.float64)

    def power(drop: float) -> float:
        drawn = attempts(drop)
        before, runs = drawn[:, :, : design.attempts], drawn[:, :, design.attempts :]
        found = _is_significant(before, runs[:, :, : design.own], sizes, design, model)
        if design.confirmed and found.any():
            found[found] = _is_significant(before[found], runs[found, :, design.own :], sizes, design, model)
        return float(found.mean())

    return power


_Attempts = Callable[[float], "NDArray[numpy.float64]"]


def _draw_passes(
    model: AttemptModel, shape: tuple[int, int, int], before: int, rng: "numpy.random.Generator"
) -> _Attempts:
    """Return 0/1 scores of the baseline's attempts and those of two runs, as a function of the drop."""
    import numpy as np

    rates, starts = np.array(model.rates)[:, None], np.cumsum([0, *model.sizes[:-1]])
    tosses = rng.random((shape[0], len(rates), shape[2]), dtype=np.float32)

    def attempts(drop: float) -> "NDArray[numpy.float64]":
        kept = np.where(np.arange(shape[2]) < before, 1.0, 1 - drop / model.largest)
        passes = (tosses < rates * kept).astype(np.float64)
        return np.add.reduceat(passes, starts, axis=1) if model.sizes else passes

    return attempts


def _draw_scores(
    model: AttemptModel, shape: tuple[int, int, int], before: int, rng: "numpy.random.Generator"
) -> _Attempts:
    """Return sums of scores around their unit's mean. Both runs lose the same steps: some samples one more."""
    import numpy as np

    noise = np.array(model.deviations)[rng.integers(0, len(model.deviations), shape)]
    sizes, is_run = np.array(model.sizes, dtype=np.float64), np.arange(shape[2]) >= before
    scatter = rng.standard_normal(shape[:2])

    def attempts(drop: float) -> "NDArray[numpy.float64]":
        more = drop / model.step % 1 if model.step else 0.0
        lost = drop * sizes + model.step * math.sqrt(more * (1 - more)) * np.sqrt(sizes) * scatter
        scores: NDArray[np.float64] = noise - lost[:, :, None] * is_run
        return scores

    return attempts


def _is_significant(
    before: "NDArray[numpy.float64]",
    after: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64]",
    design: Design,
    model: AttemptModel,
) -> "NDArray[numpy.bool_]":
    """Return whether the gate's test is significant in each simulation."""
    import numpy as np

    beyond = after + (design.margin * sizes)[:, None]
    if design.level is None:
        return np.asarray((before.mean(axis=2) - beyond.mean(axis=2)).sum(axis=1) > 0)
    if design.is_bounded_test:
        return _exceeds_margin(before, after, sizes, design, design.level)
    if model.rates and not model.sizes and before.shape[2] == after.shape[2] == 1:
        return _has_many_losses(before[:, :, 0] - after[:, :, 0], design.level)
    return _is_rare_exchange(before, beyond, _NORMAL.inv_cdf(1 - design.level), model.grain)


def _has_many_losses(lost: "NDArray[numpy.float64]", level: float) -> "NDArray[numpy.bool_]":
    """Return whether McNemar's exact test is significant. `lost`: 1, 0 or −1, shape (simulations, samples)."""
    import numpy as np

    from evalspec.verdict.stats.paired import compute_half_binomial

    losses, changed = (lost > 0).sum(axis=1), (lost != 0).sum(axis=1)
    tails = {count: compute_half_binomial(count)[::-1].cumsum()[::-1] for count in set(changed.tolist())}
    return np.array([tails[n][loss] < level for loss, n in zip(losses.tolist(), changed.tolist(), strict=True)])


def _is_rare_exchange(
    before: "NDArray[numpy.float64]", after: "NDArray[numpy.float64]", limit: float, grain: float
) -> "NDArray[numpy.bool_]":
    """Return whether exchanging the attempts of each unit is significant, by its normal approximation.

    Sums have steps of `grain`, and half a step is taken off. `limit`: the normal quantile, to be corrected for skewness
    (Cornish and Fisher 1938): one attempt against several is skewed.
    """
    import numpy as np

    own, count = after.shape[2], before.shape[2] + after.shape[2]
    every = np.concatenate([before, after], axis=2)
    off = every.mean(axis=2, keepdims=True) - every
    lost = off[:, :, count - own :].sum(axis=(1, 2)) - grain / 2
    share = own * (count - own) / (count * (count - 1))
    squares = off * off
    spread = np.sqrt(share * squares.sum(axis=(1, 2)))
    cubes = share * (count - 2 * own) / max(1, count - 2) * np.einsum("sua,sua->s", squares, off)  # off**3 is slow
    skewness = cubes / np.maximum(spread, 1e-9) ** 3
    significant: NDArray[np.bool_] = lost >= (limit + skewness * (limit**2 - 1) / 6) * spread + 1e-9
    return significant


def _exceeds_margin(
    before: "NDArray[numpy.float64]",
    after: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64]",
    design: Design,
    level: float,
) -> "NDArray[numpy.bool_]":
    """Return whether the bounded test is significant, as `compute_bounded_p_value` decides it."""
    import numpy as np

    from evalspec.verdict.stats.bounded import compute_unseen_size
    from evalspec.verdict.stats.gamma_sums import compute_tails

    lost = before.mean(axis=2) - after.mean(axis=2) - design.margin * sizes
    unseen = (design.margin + (design.reach or 0.0)) * compute_unseen_size(sizes)
    terms = np.unique(lost.round(_DIGITS))
    if len(terms) > _MOST_TERMS:
        terms = np.linspace(terms[0], terms[-1], _MOST_TERMS)
    cells = np.searchsorted((terms[1:] + terms[:-1]) / 2, lost)
    shapes = np.ones((len(lost), len(terms) + 1))
    shapes[:, :-1] = [np.bincount(row, minlength=len(terms)) for row in cells]
    return compute_tails(np.broadcast_to(np.append(-terms, unseen), shapes.shape), shapes) < level
