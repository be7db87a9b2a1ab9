"""Cells of metadata with few samples, about which a result says little."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from evalspec.model import Coverage, ThinCell

CELL_KEYS = ("domain", "difficulty", "failure_mode")
"""The metadata keys of a gold set whose combinations are cells."""

_MOST_CELLS = 100_000
"""Of a cross product. With more, only cells with samples are listed."""


def compute_coverage(samples: Iterable[Mapping[str, Any]], needed: int) -> Coverage:
    """Return the cells with fewer than `needed` samples, also those without any. `samples`: their metadata.

    The cells are the cross product of the values that occur. A key that no sample has is left out. Samples that lack
    one of the other keys are counted, and are in no cell.
    """
    known = [{key: str(one[key]) for key in CELL_KEYS if one.get(key) is not None} for one in samples]
    keys = tuple(key for key in CELL_KEYS if any(key in one for one in known))
    counts = Counter(tuple(one[key] for key in keys) for one in known if len(one) == len(keys))
    values = [sorted({one[key] for one in known if key in one}) for key in keys]
    cells = _cross(values, counts) if keys else []
    thin = [ThinCell(dict(zip(keys, cell, strict=True)), counts[cell]) for cell in cells if counts[cell] < needed]
    lacking = {key: sum(key not in one for one in known) for key in keys}
    return Coverage(
        keys=keys,
        cells=len(cells),
        needed=needed,
        thin=tuple(sorted(thin, key=lambda cell: (cell.count, *cell.values.values()))),
        unplaced={key: count for key, count in lacking.items() if count},
    )


def _cross(values: Sequence[Sequence[str]], counts: Mapping[tuple[str, ...], int]) -> list[tuple[str, ...]]:
    size = 1
    for one in values:
        size *= len(one)
    return list(product(*values)) if size <= _MOST_CELLS else sorted(counts)
