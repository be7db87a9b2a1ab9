"""Cells of metadata with few samples, about which a result says little."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from evalspec.base.plural import counted
from evalspec.model import Coverage, DatasetResult, SampleResult, SparseCell
from evalspec.model.comparisons import Change, MetricChange

CELL_KEYS = ("domain", "difficulty", "failure_mode")
"""The metadata keys of a gold set whose combinations are cells."""

_MOST_CELLS = 100_000
"""Of a cross product. With more, only cells with samples are listed."""

_NAMED = 5
_WITHOUT_EVIDENCE = frozenset({Change.UNDECIDED, Change.TOO_FEW})


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
    sparse = [SparseCell(dict(zip(keys, cell, strict=True)), counts[cell]) for cell in cells if counts[cell] < needed]
    lacking = {key: sum(key not in one for one in known) for key in keys}
    return Coverage(
        keys=keys,
        cells=len(cells),
        needed=needed,
        sparse=tuple(sorted(sparse, key=lambda cell: (cell.count, *cell.values.values()))),
        unplaced={key: count for key, count in lacking.items() if count},
    )


def _cross(values: Sequence[Sequence[str]], counts: Mapping[tuple[str, ...], int]) -> list[tuple[str, ...]]:
    size = 1
    for one in values:
        size *= len(one)
    return list(product(*values)) if size <= _MOST_CELLS else sorted(counts)


def describe_sparse_cells(
    dataset: DatasetResult, pairs: Sequence[tuple[SampleResult, SampleResult]], changes: Iterable[MetricChange]
) -> str | None:
    """Return a note with the sparse cells of a gold set if a metric is undecided. None if it has no sparse cell.

    `dataset`: of the run that knows the gold set. `pairs`: its common samples, whose metadata say their cells.
    """
    undecided = [change.metric for change in changes if change.verdict in _WITHOUT_EVIDENCE]
    if dataset.gold is None or not undecided:
        return None
    needed = dataset.gold.coverage.needed
    found = compute_coverage(({**before.metadata, **after.metadata} for before, after in pairs), needed)
    head = f"dataset {dataset.name}: no evidence for {', '.join(undecided)}"
    if not found.keys:
        return f"{head}; its sparse cells are unknown, because the reports have no metadata of the samples"
    cells = found.sparse or ()
    if not cells:
        return None
    named = ", ".join(f"{cell.name} ({cell.count})" for cell in cells[:_NAMED])
    more = f" and {len(cells) - _NAMED:,} more" if len(cells) > _NAMED else ""
    few = f"cells of {' × '.join(found.keys)} with fewer than {counted(needed, 'common sample')}"
    return f"{head}; {few}, where a change could go unnoticed: {named}{more}"
