"""Intervals of a mean that hold at every number of scores at once, so that labelling may stop when they decide.

For each possible mean m, two players bet that the scores are higher, or lower, than m. If m is the true mean, the
capital of each is a martingale, which exceeds 2 / α with probability α / 2 at most, at any time (Ville). The means
against which nobody has won so much are the confidence sequence: the hedged capital of Waudby-Smith and Ramdas
(2024, arXiv 2010.09686, theorem 3), with their predictable bets.

Scores must be independent, or in random order. The sequence is about the mean of the population that the replies
come from, as the intervals of the gate are, not about the mean of these replies.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalspec.verdict.stats.descriptive import to_finite_array

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]

Bounds = tuple[float, float]

_CELLS = 1000
_LARGEST_BET = 0.5
"""Share of the capital that a player loses at most with one score."""


def compute_confidence_sequence(
    values: Sequence[float], bounds: Bounds, alpha: float = 0.05
) -> list[tuple[float, float]]:
    """Return the interval of the mean after each score, in the unit of the scores.

    All of them contain the mean with a probability of 1 − alpha at least. Each is within the one before.

    Raises:
        ValueError: A score is outside the bounds, or not finite.
    """
    import numpy as np

    low, high = bounds
    scores = (to_finite_array(values) - low) / (high - low)
    if ((scores < 0) | (scores > 1)).any():
        raise ValueError(f"a score is outside {low:g} to {high:g}")
    means = np.linspace(0, 1, _CELLS + 1)
    bets = _compute_bets(scores, alpha)
    capital = np.zeros((2, len(means)))
    found: list[tuple[float, float]] = []
    ends = 0.0, 1.0
    for score, bet in zip(scores, bets, strict=True):
        capital += _log_growth(float(score), float(bet), means)
        ends = _narrow(ends, means[capital.max(axis=0) < math.log(2 / alpha)])
        found.append((low + ends[0] * (high - low), low + ends[1] * (high - low)))
    return found


def _compute_bets(scores: "Array", alpha: float) -> "Array":
    """Return the bet on each score, which depends on earlier scores alone (equation 26)."""
    import numpy as np

    times = np.arange(1, len(scores) + 1)
    means = (0.5 + np.cumsum(scores)) / (times + 1)
    spreads = (0.25 + np.cumsum((scores - means) ** 2)) / (times + 1)
    before = np.concatenate([[0.25], spreads[:-1]])
    bets: Array = np.sqrt(2 * math.log(2 / alpha) / (before * times * np.log(times + 1)))
    return bets


def _log_growth(score: float, bet: float, means: "Array") -> "Array":
    """Return by what the log of both players' capital grows, for each mean. No capital becomes negative."""
    import numpy as np

    with np.errstate(divide="ignore"):
        upward = np.minimum(bet, _LARGEST_BET / means)
        downward = np.minimum(bet, _LARGEST_BET / (1 - means))
    growth: Array = np.log1p(np.stack([upward * (score - means), -downward * (score - means)]))
    return growth


def _narrow(ends: tuple[float, float], possible: "Array") -> tuple[float, float]:
    """Return the part of an interval that is possible, one cell wider, because means between cells are possible too.

    If nothing is, scores do not come from one population, and the interval stays.
    """
    if not len(possible):
        return ends
    low, high = max(ends[0], float(possible[0]) - 1 / _CELLS), min(ends[1], float(possible[-1]) + 1 / _CELLS)
    return (low, high) if low < high else ends
