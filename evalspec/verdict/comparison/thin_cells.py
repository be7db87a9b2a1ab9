"""Where a gold set has too few samples to tell two runs apart."""

from collections.abc import Iterable, Sequence

from evalspec.base.plural import counted
from evalspec.model import DatasetResult, SampleResult
from evalspec.model.comparisons import Change, MetricChange
from evalspec.verdict.validity.cells import compute_coverage

_NAMED = 5
_CANNOT_TELL = frozenset({Change.UNDECIDED, Change.TOO_FEW})


def describe_thin_cells(
    dataset: DatasetResult, pairs: Sequence[tuple[SampleResult, SampleResult]], changes: Iterable[MetricChange]
) -> str | None:
    """Return a note with the thin cells of a gold set if a metric is undecided. None if it has no thin cell.

    `dataset`: of the run that knows the gold set. `pairs`: its common samples, whose metadata say their cells.
    """
    undecided = [change.metric for change in changes if change.verdict in _CANNOT_TELL]
    if dataset.gold is None or not undecided:
        return None
    needed = dataset.gold.coverage.needed
    found = compute_coverage(({**before.metadata, **after.metadata} for before, after in pairs), needed)
    head = f"dataset {dataset.name}: no evidence for {', '.join(undecided)}"
    if not found.keys:
        return f"{head}; its thin cells are unknown, because the reports have no metadata of the samples"
    cells = found.thin or ()
    if not cells:
        return None
    named = ", ".join(f"{cell.name} ({cell.count})" for cell in cells[:_NAMED])
    more = f" and {len(cells) - _NAMED:,} more" if len(cells) > _NAMED else ""
    few = f"cells of {' × '.join(found.keys)} with fewer than {counted(needed, 'common sample')}"
    return f"{head}; {few}, where a change could go unnoticed: {named}{more}"
