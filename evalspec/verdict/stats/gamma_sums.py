"""The distribution of a weighted sum of gamma variables, by which all bounded intervals and tests are computed.

A random weighted mean with Dirichlet weights exceeds a limit exactly if such a sum is above 0, so tail probabilities of
the weighted mean are exact, without draws. Method: the inversion integral of the moment generating function along a
hyperbola through its saddlepoint (Daniels 1954; Rice 1980), with the trapezoidal rule. The hyperbola bends as the path
of steepest descent does there: along a vertical line, a sum of one large and one small shape oscillates.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_STEP = 0.08
"""Step of the trapezoidal rule, whose error falls faster than any power of it: at most about 1e-9 of the tail."""
_MOST_BENT = 1.0
"""The hyperbola has an angle of at most 45 degrees to the vertical."""
_NODES = 24
_MOST_BLOCKS = 20
_NEGLIGIBLE = 1e-13
"""The integral is computed in blocks of nodes, until the integrand is this share of its start."""
_NEWTON_STEPS = 100
_NEAR = 1e-4
"""The path may pass beside the saddlepoint by this share of it: the integral is the same, only less smooth."""
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
    second = (counts * ratio**2).sum(axis=1, keepdims=True) + 1 / point**2
    third = 2 * ((counts * ratio**3).sum(axis=1, keepdims=True) - 1 / point**3)
    width, bend = 1 / np.sqrt(second), np.clip(third / (3 * second**1.5), -_MOST_BENT, _MOST_BENT)
    start = -(counts * np.log1p(-terms * point)).sum(axis=1) - np.log(point[:, 0])
    total = np.zeros(len(terms))
    for block in range(_MOST_BLOCKS):
        x = _STEP * np.arange(block * _NODES, (block + 1) * _NODES)
        right, up = width * bend * (np.cosh(x) - 1), width * np.sinh(x)
        # Modulus and phase of each factor 1 - term * place, by real functions: complex logarithms are slow.
        real, imaginary = 1 - right[:, :, None] * ratio[:, None, :], up[:, :, None] * ratio[:, None, :]
        phase = (np.arctan2(imaginary, real) @ counts[:, :, None])[:, :, 0] - np.arctan2(up, point + right)
        squares = (np.log(real**2 + imaginary**2) @ counts[:, :, None])[:, :, 0]
        sizes = np.exp(-squares / 2) / np.hypot(1 + right / point, up / point)
        values = sizes * (np.cos(phase) * np.cosh(x) + np.sin(phase) * bend * np.sinh(x))
        total += values.sum(axis=1) - (values[:, 0] / 2 if block == 0 else 0)
        if (sizes[:, -1] * np.cosh(x[-1]) < _NEGLIGIBLE).all():
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
