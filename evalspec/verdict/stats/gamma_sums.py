"""The distribution of a weighted sum of gamma variables, by which all bounded intervals and tests are computed.

A random weighted mean with Dirichlet weights exceeds a limit exactly if such a sum is above 0, so tail probabilities of
the weighted mean are exact, without draws. Method: the inversion integral of the moment generating function along the
vertical line through its saddlepoint (Daniels 1954; Rice 1980), with the trapezoidal rule after y = sinh(x).
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_STEP = 0.1
"""Step of the trapezoidal rule, whose error falls faster than any power of it: about 1e-12 of the tail."""
_NODES = 24
_MOST_BLOCKS = 20
_NEGLIGIBLE = 1e-13
"""The integral is computed in blocks of nodes, until the integrand is this share of its start."""
_NEWTON_STEPS = 100
_NEAR = 1e-4
"""The line may pass beside the saddlepoint by this share of it: the integral is the same, only less smooth."""
_CELLS_AT_ONCE = 2_000_000


def compute_tails(coefficients: "NDArray[numpy.float64]", shapes: "NDArray[numpy.float64]") -> "NDArray[numpy.float64]":
    """Return the probability that a sum of coefficient x Gamma(shape) is at least 0, for each row; shape (rows,).

    `coefficients`, `shapes`: (rows, terms). Shapes are at least 0, and a term of shape 0 does not count.
    """
    import numpy as np

    used = np.where(shapes > 0, coefficients, 0.0)
    found = np.where(used.min(axis=1) >= 0, 1.0, 0.0)
    mixed = (used.max(axis=1) > 0) & (used.min(axis=1) < 0)
    terms, counts = used[mixed], np.broadcast_to(shapes, used.shape)[mixed]
    terms = terms / np.abs(terms).max(axis=1, keepdims=True)
    sign = np.where((terms * counts).sum(axis=1) > 0, -1.0, 1.0)  # the smaller tail has no cancellation
    rows = max(1, _CELLS_AT_ONCE // (_NODES * terms.shape[1]))
    tails = [
        _integrate(sign[start : start + rows, None] * terms[start : start + rows], counts[start : start + rows])
        for start in range(0, len(terms), rows)
    ]
    small = np.concatenate(tails) if tails else np.zeros(0)
    found[mixed] = np.where(sign < 0, 1 - small, small)
    return found


def _integrate(terms: "NDArray[numpy.float64]", counts: "NDArray[numpy.float64]") -> "NDArray[numpy.float64]":
    """Return the tails of sums with a mean of at most 0, each with a positive term."""
    import numpy as np

    point = _find_saddlepoint(terms, counts)[:, None]
    ratio = terms / (1 - terms * point)
    width = 1 / np.sqrt((counts * ratio**2).sum(axis=1, keepdims=True) + 1 / point**2)
    start = -(counts * np.log1p(-terms * point)).sum(axis=1) - np.log(point[:, 0])
    total = np.zeros(len(terms))
    for block in range(_MOST_BLOCKS):
        x = _STEP * np.arange(block * _NODES, (block + 1) * _NODES)
        y = width * np.sinh(x)
        angles = y[:, :, None] * ratio[:, None, :]
        # Modulus and phase of the product of (1 - i angle) ^ count, by real functions: complex logarithms are slow.
        phase = (np.arctan(angles) @ counts[:, :, None])[:, :, 0] - np.arctan(y / point)
        modulus = (np.log1p(angles**2) @ counts[:, :, None])[:, :, 0] + np.log1p((y / point) ** 2)
        sizes = np.exp(-modulus / 2) * np.cosh(x)
        values = sizes * np.cos(phase)
        total += values.sum(axis=1) - (values[:, 0] / 2 if block == 0 else 0)
        if (sizes[:, -1] < _NEGLIGIBLE).all():
            break
    tails: NDArray[np.float64] = np.clip(np.exp(start) * total * width[:, 0] * _STEP / math.pi, 0.0, 1.0)
    return tails


def _find_saddlepoint(terms: "NDArray[numpy.float64]", counts: "NDArray[numpy.float64]") -> "NDArray[numpy.float64]":
    """Return where the integrand is smallest on the positive real axis, by Newton's method within a bracket."""
    import numpy as np

    low, high = np.zeros(len(terms)), 1 / terms.max(axis=1)
    point: NDArray[np.float64] = high / 2
    for _ in range(_NEWTON_STEPS):
        ratio = terms / (1 - terms * point[:, None])
        slope = (counts * ratio).sum(axis=1) - 1 / point
        low, high = np.where(slope > 0, low, point), np.where(slope > 0, point, high)
        step = point - slope / ((counts * ratio**2).sum(axis=1) + 1 / point**2)
        moved = np.where((low < step) & (step < high), step, (low + high) / 2)
        if (np.abs(moved - point) <= _NEAR * point).all():
            break
        point = moved
    return point
