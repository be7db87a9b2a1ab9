"""The tables of a comparison on a terminal, with as many columns as have room."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalspec.compare.comparison import CandidateComparison, Change, Comparison, DatasetComparison, MetricChange
from evalspec.compare.wording import (
    MARKS,
    render_delta,
    render_number,
    render_p,
    render_relative,
    render_statement,
)
from evalspec.foreign_text import inert
from evalspec.records import Direction
from evalspec.reporters.wording import UNKNOWN

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_WIDE = 120
"""Columns from which shares and statements have room beside the numbers; below they are left out, or are lines."""

_NARROW = 80
"""Columns below which counts have none either."""

_NAME = 11
_SLICES_SHOWN = 10
_SLICE_METRICS_SHOWN = 5
_SLICE_NAME, _SLICE_COLUMN = 24, 18
_STYLES = {
    Change.IMPROVED: "green",
    Change.DEGRADED: "red",
    Change.UNDECIDED: "",
    Change.TOO_FEW: "yellow",
    Change.NOT_TESTED: "dim",
}


def metrics_table(dataset: DatasetComparison, width: int) -> "Table":
    """The metrics of one candidate."""
    from rich.text import Text

    wide = width >= _WIDE
    table = _table("metric", ">baseline", ">candidate", ">delta", *([""] if wide else []), "")
    if wide:
        table.add_column("")
    for change in dataset.metrics:
        table.add_row(
            Text(inert(change.metric)),
            render_number(change.metric, change.found.baseline),
            render_number(change.metric, change.found.candidate),
            Text(render_delta(change.metric, change.found.delta), style=_STYLES[change.change]),
            *([Text(render_relative(change.found), style="dim")] if wide else []),
            _verdict(change),
            *([Text(_remark(change), style="dim")] if wide else []),
        )
    return table


def remark_lines(dataset: DatasetComparison, width: int) -> Iterator[str]:
    """What has no room in the table."""
    for change in dataset.metrics if width < _WIDE else ():
        said = _remark(change)
        if said:
            yield f"{inert(change.metric)}: {said}"


def candidates_table(comparison: Comparison, dataset: str, width: int) -> "Table":
    """One table for all candidates: every metric of the baseline, and below it how each of them compares."""
    from rich.text import Text

    wide, narrow = width >= _WIDE, width < _NARROW
    table = _table("metric", "run", ">value", ">delta", *([""] if wide else []), *([] if narrow else [">pairs"]), "")
    for metric, found in _by_metric(comparison, dataset).items():
        base = next((change.found.baseline for _, change in found if change.found.baseline is not None), None)
        same = len({change.found.baseline for _, change in found}) == 1
        table.add_row(
            Text(inert(metric)), Text("baseline", style="dim"), render_number(metric, base) if same else UNKNOWN
        )
        for one, change in found:
            table.add_row(
                "",
                Text(inert(one.candidate.name)),
                render_number(metric, change.found.candidate),
                Text(render_delta(metric, change.found.delta), style=_STYLES[change.change]),
                *([Text(render_relative(change.found), style="dim")] if wide else []),
                *([] if narrow else [f"{change.found.pairs:,}"]),
                _verdict(change, with_p=wide),
            )
    return table


def _by_metric(comparison: Comparison, dataset: str) -> Mapping[str, list[tuple[CandidateComparison, MetricChange]]]:
    found: dict[str, list[tuple[CandidateComparison, MetricChange]]] = {}
    for one in comparison.candidates:
        for compared in one.datasets:
            for change in compared.metrics if compared.name == dataset else ():
                found.setdefault(change.metric, []).append((one, change))
    return found


def slices_table(dataset: DatasetComparison, width: int) -> "Table":
    """Deltas of the slices, worst first. None is tested, so that none is coloured."""
    from rich.text import Text

    shown = dataset.metrics[: max(1, min(_SLICE_METRICS_SHOWN, (width - _SLICE_NAME) // _SLICE_COLUMN))]
    table = _table("slice", ">pairs", *(f">{inert(change.metric)}" for change in shown), "")
    for part in dataset.slices[:_SLICES_SHOWN]:
        cells = [render_delta(change.metric, part.metrics[change.metric].delta) for change in shown]
        table.add_row(Text(inert(part.name)), f"{part.pairs:,}", *cells, Text("small" if part.small else "", "dim"))
    if len(dataset.slices) > _SLICES_SHOWN:
        table.add_row(Text(f"… and {len(dataset.slices) - _SLICES_SHOWN:,} more", style="dim"))
    return table


def _verdict(change: MetricChange, *, with_p: bool = False) -> "Text":
    from rich.text import Text

    is_decided = change.change in (Change.IMPROVED, Change.DEGRADED)
    p_value = f", {render_p(change.adjusted)}" if with_p and is_decided else ""
    return Text(f"{MARKS[change.change]} {change.change}{p_value}".strip(), style=_STYLES[change.change])


def _remark(change: MetricChange) -> str:
    hint = "lower is better" if change.direction is Direction.LOWER else ""
    return ", ".join(filter(None, [render_statement(change), hint]))


def _table(*titles: str) -> "Table":
    """A title that begins with > is of a column of numbers."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(titles):
        right = title.startswith(">")
        justify = "right" if right else "left"
        table.add_column(
            title.removeprefix(">"),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=bool(number),
            overflow="fold",
            min_width=None if number else _NAME,
        )
    return table
