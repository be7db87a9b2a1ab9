"""The sums that a list of numbers has when the sign of each is tossed: all of them, or many drawn at random.

Numbers of equal size are taken together: c tosses of one size sum to size x (2 B - c) with B binomial(c, 1/2), exactly.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_REPEATS_TO_COUNT = 256
"""From so many equal sizes on, one binomial is cheaper than a bit for each of them."""

_BYTES_AT_ONCE = 8_000_000


def compute_half_binomial(count: int) -> "NDArray[numpy.float64]":
    """Probability of 0, 1 … count heads in so many tosses of a fair coin; shape (count + 1,)."""
    import numpy as np

    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1)))))
    probabilities: NDArray[np.float64] = np.exp(logs[-1] - logs - logs[::-1] - count * math.log(2))
    return probabilities


def compute_all_sums(
    sizes: "NDArray[numpy.float64]", counts: "NDArray[numpy.int64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Every sum and its probability; `sizes` are distinct and `counts` says how often each occurs.

    Both results have the shape (product of count + 1,).
    """
    import numpy as np

    sums, probabilities = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts, strict=True):
        steps = size * (2 * np.arange(count + 1) - count)
        sums = np.add.outer(sums, steps).ravel()
        probabilities = np.multiply.outer(probabilities, compute_half_binomial(int(count))).ravel()
    return sums, probabilities


def draw_sums(
    sizes: "NDArray[numpy.float64]", counts: "NDArray[numpy.int64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Sums under random signs; shape (resamples,)."""
    import numpy as np

    many = counts >= _REPEATS_TO_COUNT
    sums = _draw_one_by_one(np.repeat(sizes[~many], counts[~many]), resamples, rng)
    for size, count in zip(sizes[many], counts[many], strict=True):
        sums += size * (2 * rng.binomial(count, 0.5, size=resamples) - count)
    return sums


def _draw_one_by_one(
    sizes: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """A random byte tosses eight signs; the 256 sums that eight sizes can have are made once and looked up."""
    import numpy as np

    eights = np.pad(sizes, (0, -len(sizes) % 8)).reshape(-1, 8)
    sums = np.zeros(resamples)
    at_once = max(1, _BYTES_AT_ONCE // max(resamples, 8 * 256))
    for start in range(0, len(eights), at_once):
        tables = np.zeros((len(eights[start : start + at_once]), 1))
        for column in eights[start : start + at_once].T[:, :, None]:
            tables = np.hstack([tables - column, tables + column])
        words = rng.integers(0, 2**64, size=(len(tables), -(-resamples // 8)), dtype=np.uint64)
        for table, tosses in zip(tables, words.view(np.uint8), strict=True):
            sums += table.take(tosses[:resamples], mode="clip")  # a byte is never outside: no check
    return sums
