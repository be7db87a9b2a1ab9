"""What a statistic would have been on other samples of the same kind: bootstrap replicates, in bounded memory."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_DRAWS_AT_ONCE = 1_000_000

_CELLS = 256
_DRAWS_FOR_A_CELL = 16
"""Counting how many draws fall into a cell costs about as much as making so many draws."""


def resample_means(
    values: "NDArray[numpy.float64]", resamples: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.float64]":
    """Means of samples drawn with replacement; shape (resamples,).

    Few values are drawn. Of many, it is drawn how often each distinct value occurs, which is the same in distribution.
    Where the distinct values are more than 256 too, neighbours share a cell: see `group_neighbours`.
    """
    import numpy as np

    count = len(values)
    distinct, repeats = np.unique(values, return_counts=True)
    if count <= _DRAWS_FOR_A_CELL * min(len(distinct), _CELLS):
        return resample_ratios(values, None, resamples, rng)
    means, shares = group_neighbours(distinct, repeats)
    replicates = np.empty(resamples)
    for rows in _blocks(resamples, len(means)):
        replicates[rows] = rng.multinomial(count, shares, size=rows.stop - rows.start) @ means
    return replicates / count


def resample_ratios(
    sums: "NDArray[numpy.float64]",
    sizes: "NDArray[numpy.float64] | None",
    resamples: int,
    rng: "numpy.random.Generator",
) -> "NDArray[numpy.float64]":
    """Sum over size of clusters drawn with replacement (without sizes all are 1); shape (resamples,)."""
    import numpy as np

    count = len(sums)
    replicates = np.empty(resamples)
    for rows in _blocks(resamples, count):
        drawn = rng.integers(0, count, size=(rows.stop - rows.start, count))
        if sizes is None:
            replicates[rows] = sums[drawn].mean(axis=1)
        else:
            replicates[rows] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return replicates


def _blocks(resamples: int, width: int) -> list[slice]:
    """Slices of the resamples, each with few enough rows of that width for its table to stay small."""
    rows = max(1, _DRAWS_AT_ONCE // width)
    return [slice(start, min(start + rows, resamples)) for start in range(0, resamples, rows)]


def group_neighbours(
    distinct: "NDArray[numpy.float64]", repeats: "NDArray[numpy.int64]"
) -> tuple["NDArray[numpy.float64]", "NDArray[numpy.float64]"]:
    """Mean and share of the values in each cell of neighbours.

    Up to 256 distinct values are a cell each: nothing is lost. More are cut so that each cell holds about an equal part
    of the sum of distances from the mean, by which an outlier keeps a cell of its own. What is lost is the spread
    inside the cells: 0.03 % of the variance of scores of 0 to 1, 0.3 % of a log-normal one, at 100,000 values.
    """
    import numpy as np

    count = repeats.sum()
    if len(distinct) <= _CELLS:
        return distinct, repeats / count
    distances = np.abs(distinct - distinct @ repeats / count) * repeats
    part = (np.cumsum(distances) - distances / 2) / distances.sum()
    cells = np.unique((part * _CELLS).astype(np.intp), return_inverse=True)[1]
    inside = np.bincount(cells, weights=repeats)
    return np.bincount(cells, weights=distinct * repeats) / inside, inside / count
