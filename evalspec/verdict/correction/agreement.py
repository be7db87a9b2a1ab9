"""How well judge and people agree on the replies that people labelled at random.

Kappa is weighted by squared differences: 1 − mean (judge − people)² / the same for judge and people drawn independently
(Cohen 1968). For 0/1 scores this is Cohen's kappa (1960), for other scores Lin's concordance (1989). Its interval is
drawn as those of `estimates`: Dirichlet weights over the labels and one unseen reply, on which they agree or disagree
as much as they can. Measurements: docs/explanation/judge-correction.md.
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float64]

_DRAWS = 8_000
_SEED = 19_680_301
_ROUNDING = 1e-12
"""Spread of scores that are equal, at most."""


class Kappa(Struct, frozen=True):
    """Weighted kappa with its interval; None: unknown, for judge or people always give the same score."""

    value: float | None
    interval: tuple[float, float] | None


def measure_kappa(
    judged: Sequence[float], people: Sequence[float], bounds: tuple[float, float], confidence: float = 0.95
) -> Kappa:
    """Return the weighted kappa of the scores of the same replies. `bounds`: range of the scores."""
    import numpy as np

    low, high = bounds
    first, second = ((np.array(values, np.float64) - low) / (high - low) for values in (judged, people))
    if len(first) < 2 or np.isnan(value := float(_compute_kappa(np.ones((1, len(first))), first, second)[0])):
        return Kappa(None, None)
    weights = np.random.default_rng(_SEED).standard_exponential((_DRAWS, len(first) + 1))
    drawn = [
        _compute_kappa(weights, np.append(first, corner[0]), np.append(second, corner[1]))
        for corner in product((0.0, 1.0), repeat=2)
    ]
    tail = (1 - confidence) / 2
    ends = [np.nanquantile(one, (tail, 1 - tail)) for one in drawn]
    return Kappa(value, (float(min(end[0] for end in ends)), float(max(end[1] for end in ends))))


def _compute_kappa(weights: "Matrix", first: "Matrix", second: "Matrix") -> "Matrix":
    """Return kappa for each row of weights; NaN where both are constant and equal."""
    import numpy as np

    shares = weights / weights.sum(axis=1, keepdims=True)
    means = shares @ first, shares @ second
    spread = shares @ first**2 - means[0] ** 2 + shares @ second**2 - means[1] ** 2
    expected = spread + (means[0] - means[1]) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Matrix = np.where(expected > _ROUNDING, 1 - shares @ (first - second) ** 2 / expected, np.nan)
    return found
