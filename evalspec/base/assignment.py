"""Pair the rows of a matrix with its columns, each at most once.

The shortest augmenting paths of D. F. Crouse, "On implementing 2D rectangular assignment algorithms" (2016), with the
choices among equal sums that scipy makes. scipy itself would double the size of an installation.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


def pair_up(compatible: Any) -> list[int]:
    """Return a column for each row, such that as many rows as possible have one of their own; -1: it has none.

    `compatible`: rows of bools, or an array of them.
    """
    rows = len(compatible)
    if not rows or not len(compatible[0]):
        return [-1] * rows
    if rows == 1:
        return [next((column for column, fits in enumerate(compatible[0]) if fits), -1)]
    import numpy as np

    pairs = dict(assign(np.asarray(compatible, dtype=float)))
    return [pairs[row] if row in pairs and compatible[row][pairs[row]] else -1 for row in range(rows)]


def assign(worth: "NDArray[numpy.float64]") -> Iterator[tuple[int, int]]:
    """Yield as many pairs of row and column as there can be, in the order of the rows, with the largest sum of worth.

    Takes time in proportion to the product of the sides and the shorter one, at most.
    """
    import numpy as np

    if worth.shape[0] > worth.shape[1]:
        yield from sorted((row, column) for column, row in assign(worth.T))
        return
    rows, columns = worth.shape
    u, v = np.zeros(rows), np.zeros(columns)  # prices, at which no pair is cheaper than one that is chosen
    row_of, column_of = np.full(columns, -1), np.full(rows, -1)
    for start in range(rows):  # finds the shortest path to a free column, and swaps the pairs along it
        shortest, before = np.full(columns, np.inf), np.full(columns, -1)
        left = np.arange(columns)[::-1].copy()
        row, length, reached = start, 0.0, list[int]()
        while row != -1:
            lengths = length - worth[row, left] - u[row] - v[left]
            before[left[lengths < shortest[left]]] = row
            shortest[left] = np.minimum(lengths, shortest[left])
            length = shortest[left].min()
            nearest = np.flatnonzero(shortest[left] == length)
            free = nearest[row_of[left[nearest]] == -1]
            place = free[-1] if len(free) else nearest[0]
            column = left[place]
            reached.append(column)
            left[place] = left[-1]
            left = left[:-1]
            row = row_of[column]
        passed = row_of[reached[:-1]]
        u[start] += length
        u[passed] += length - shortest[column_of[passed]]
        v[reached] -= length - shortest[reached]
        while row != start:
            row_of[column] = row = before[column]
            column_of[row], column = column, column_of[row]
    yield from enumerate(map(int, column_of))
