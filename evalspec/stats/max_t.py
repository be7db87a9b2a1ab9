"""Adjust the p-values of several paired tests by the distribution of the largest statistic.

Step-down maxT (Westfall and Young 1993) with shared sign flips: under the null hypothesis that the runs are
interchangeable, all metrics of a sample change sign together. So correlated metrics count as one test rather than
several, unlike with Bonferroni and Holm. Level and power compared with Holm: docs/explanation/statistics.md.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_ALL_FLIPS = 13
"""Up to this many units, all sign assignments are enumerated, at most 8,192."""
_MANY_UNITS = 5000
"""Above this many units, the flipped statistics are drawn from their normal approximation."""
_DIGITS = 1e-9
_CELLS_AT_ONCE = 4_000_000


class MaxT(Struct, frozen=True):
    """Adjusted p-values in the order of the tests, and the critical statistic at alpha, shared by all of them."""

    adjusted: tuple[float, ...]
    critical: float


def compute_max_t(
    families: "Sequence[NDArray[numpy.float64]]",
    alpha: float,
    *,
    two_sided: bool,
    resamples: int = 10_000,
    seed: int = 0,
) -> MaxT:
    """Return the p-values of all families, adjusted together; empty without tests.

    A family has the shape (units, tests): the sum of differences of each independent unit, positive if it supports the
    alternative. Tests of a family flip together, and families separately, which is conservative for dependent families
    (Šidák 1967). The statistic of a test is its sum over the root of its sum of squares.
    """
    import numpy as np

    tests = sum(family.shape[1] for family in families)
    if not tests:
        return MaxT((), 0.0)
    kept = [family[np.abs(family).max(axis=1, initial=0.0) > 0] for family in families]
    scaled = [family / (np.sqrt((family**2).sum(axis=0)) + (family == 0).all(axis=0)) for family in kept]
    seen = np.concatenate([family.sum(axis=0) for family in scaled])
    exact = sum(len(family) for family in kept) <= _ALL_FLIPS
    null = np.vstack(list(_all(scaled) if exact else _draw(scaled, resamples, np.random.default_rng(seed))))
    if two_sided:
        seen, null = np.abs(seen), np.abs(null)
    order = np.argsort(-seen, kind="stable")
    maxima = np.maximum.accumulate(null[:, order[::-1]], axis=1)[:, ::-1]
    reached = (maxima >= seen[order] - _DIGITS).sum(axis=0)
    shares = reached / len(null) if exact else (reached + 1) / (len(null) + 1)
    adjusted = np.empty(tests)
    adjusted[order] = np.maximum.accumulate(shares)
    return MaxT(tuple(adjusted.tolist()), float(np.quantile(maxima[:, 0], 1 - alpha, method="higher")))


def _all(families: "Sequence[NDArray[numpy.float64]]") -> "Iterator[NDArray[numpy.float64]]":
    """Yield the statistics under every sign assignment."""
    import numpy as np

    units = sum(len(family) for family in families)
    bits = np.arange(2**units)[:, None] >> np.arange(units)
    yield _flip(families, bits & 1)


def _draw(
    families: "Sequence[NDArray[numpy.float64]]", resamples: int, rng: "numpy.random.Generator"
) -> "Iterator[NDArray[numpy.float64]]":
    """Yield the statistics under random sign assignments, in blocks of rows."""
    import numpy as np

    units = sum(len(family) for family in families)
    if units > _MANY_UNITS:
        yield np.hstack([rng.multivariate_normal(np.zeros(f.shape[1]), f.T @ f, resamples) for f in families])
        return
    rows = max(1, _CELLS_AT_ONCE // units)
    for start in range(0, resamples, rows):
        yield _flip(families, rng.integers(0, 2, size=(min(rows, resamples - start), units), dtype=np.int8))


def _flip(families: "Sequence[NDArray[numpy.float64]]", bits: "NDArray[numpy.integer]") -> "NDArray[numpy.float64]":
    import numpy as np

    signs, start, parts = 1.0 - 2.0 * bits, 0, []
    for family in families:
        parts.append(signs[:, start : start + len(family)] @ family)
        start += len(family)
    return np.hstack(parts)
