"""Cuts a view to the limits of a report."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.reports.view.parts import Column, Entries, Line, Part, Row, Section, Table, Tone, View, Words

T = TypeVar("T")


class Limits(Struct, frozen=True):
    """How much of a view a report shows. None: no limit.

    `rows`: rows of the tables and lists of a section, by its key. `other_rows`: rows in all other sections. `items`:
    items of a list within a line. `reasons`: reasons of the verdict. `notes`: lines at the beginning or the end.
    `extras`: columns with `extra`. `width`: characters of a line. `minor`: whether to show optional rows, columns and
    sections. `details`: whether to show optional lines. `without`: keys of sections to omit.
    """

    rows: Mapping[str, int | None] = field(default_factory=dict)
    other_rows: int | None = None
    items: int | None = None
    reasons: int | None = None
    notes: int | None = None
    extras: int | None = None
    width: int | None = None
    minor: bool = True
    details: bool = True
    without: frozenset[str] = frozenset()


def fit_view(view: View, limits: Limits) -> View:
    """Return the view within the limits. Omitted items are counted."""
    reasons, more = _cut(view.reasons, limits.reasons)
    lead, more_lead = _cut(_fit_lines(view.lead, limits), limits.notes)
    notes, more_notes = _cut(_fit_lines(view.notes, limits), limits.notes)
    return replace(
        view,
        lead=(*lead, *_rest(more_lead)),
        reasons=(*reasons, *([(_say_rest(more),)] if more else [])),
        sections=tuple(_fit_section(one, limits) for one in view.sections if one.key not in limits.without),
        notes=(*notes, *_rest(more_notes)),
    )


def _fit_section(section: Section, limits: Limits) -> Section:
    most = limits.rows.get(section.key, limits.other_rows)
    parts = tuple(fitted for part in section.parts for fitted in _fit_part(part, limits, most))
    shown = (one for one in section.sections if one.key not in limits.without and (limits.minor or not one.minor))
    inner = [_fit_section(one, limits) for one in shown]
    return replace(section, parts=parts, sections=tuple(inner))


def _fit_part(part: Part, limits: Limits, most: int | None) -> Sequence[Part]:
    if part.detail and not limits.details:
        return ()
    if isinstance(part, Line):
        return [_fit_line(part, limits)]
    if isinstance(part, Table):
        return _fit_table(part, limits, most)
    entries, more = _cut(part.entries, most)
    fitted = tuple(replace(entry, lines=_fit_lines(entry.lines, limits)) for entry in entries)
    return [Entries(part.noun, fitted, part.title), *_rest(more + part.more)]


def _fit_table(table: Table, limits: Limits, most: int | None) -> Sequence[Part]:
    """Return the table, cells of columns that do not fit as lines, and the number of omitted rows."""
    telling = [row for row in table.rows if limits.minor or not row.minor]
    rows, more = _cut(telling, most)
    minor = len(table.rows) - len(telling)
    shown = _find_columns(table.columns, limits)
    cells = [Row(tuple(row.cells[place] for place in shown), row.under) for row in rows]
    fitted = Table(tuple(table.columns[place] for place in shown), tuple(cells))
    below = [line for row in rows for line in _say_below(table.columns, row, shown)]
    if minor and not rows and not table.more:
        return [Line((f"{minor:,} {table.minor}, not shown",), tone=Tone.QUIET)]
    return [*([fitted] if rows else []), *below, *_rest(more + table.more, minor, table.minor)]


def _find_columns(columns: Sequence[Column], limits: Limits) -> list[int]:
    wide = limits.width is None
    told = [place for place, one in enumerate(columns) if limits.minor or not one.minor]
    fitting = [place for place in told if wide or columns[place].min_width <= (limits.width or 0)]
    extras, _ = _cut([place for place in fitting if columns[place].extra], limits.extras)
    return [place for place in fitting if not columns[place].extra or place in extras]


def _say_below(columns: Sequence[Column], row: Row, shown: Sequence[int]) -> list[Line]:
    hidden = [cell for place, cell in enumerate(row.cells) if columns[place].below and place not in shown]
    return [Line((*row.cells[0].words, ": ", *cell.words), tone=Tone.QUIET) for cell in hidden if cell.words]


def _fit_lines(lines: Sequence[Line], limits: Limits) -> tuple[Line, ...]:
    return tuple(_fit_line(line, limits) for line in lines if limits.details or not line.detail)


def _fit_line(line: Line, limits: Limits) -> Line:
    items, more = _cut(line.items, limits.items)
    return replace(line, items=tuple(items), more=line.more + more)


def _cut(items: Sequence[T], most: int | None) -> tuple[Sequence[T], int]:
    """Return the first items, and the number of the others."""
    return items[:most], 0 if most is None else max(len(items) - most, 0)


def _rest(more: int, minor: int = 0, minor_are: str = "") -> list[Line]:
    counts = [f"{more:,} more"] if more else []
    counts += [f"{minor:,} {minor_are}"] if minor else []
    return [Line((f"… and {', '.join(counts)}",), tone=Tone.QUIET)] if counts else []


def _say_rest(more: int) -> str:
    return f"… and {more:,} more"


def join_items(line: Line) -> Words:
    """Return a line with its items as one sentence, for reports without lists."""
    words = (f"{line.label}: ", *line.words) if line.label else line.words
    for number, item in enumerate(line.items):
        words = (*words, ", " if number else ": ", *item)
    return (*words, f" and {line.more:,} more") if line.more else words
