"""The report for terminals: first the outcome, then the numbers, then the samples to look at."""

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evalspec.foreign_text import cut, inert
from evalspec.model import Run
from evalspec.reporters.base import StoredExchanges, no_exchanges
from evalspec.reporters.view.curation import GOLD
from evalspec.reporters.view.failing import build_failing
from evalspec.reporters.view.fit import Limits, fit_view, join_items
from evalspec.reporters.view.parts import (
    Cell,
    Column,
    Entries,
    Foreign,
    Line,
    Part,
    Piece,
    Role,
    Table,
    Tone,
    View,
    Words,
    Wrap,
)
from evalspec.reporters.view.run import build_view

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

_NARROWEST = 60
_ROWS = {"slices": 8, "worst": 5, "missing": 5, "agreement": 12, "dropped": 20, "coverage": 12}
_ITEMS = 5
_REASONS = 8
_FIRST_COLUMN, _EXTRA_COLUMN, _EXTRAS = 24, 18, 5
"""Approximate width of the first column and of the `extra` columns of a table, and the maximum number of the latter."""
_LONGEST = {Role.SAMPLE: 80, Role.ANSWER: 300}
"""Maximum characters of untrusted text by role. Other roles are not cut."""
_STYLES = {Tone.PLAIN: "", Tone.PASS: "green", Tone.FAIL: "red", Tone.WARN: "yellow", Tone.QUIET: "dim"}
_CUT_NAME = 28
"""Maximum width of a name in a column that cuts names."""


def render_terminal(run: Run, *, width: int, color: bool, exchanges: StoredExchanges = no_exchanges) -> str:
    """Return the report of a run in lines of at most `width` characters (at least 60), with a newline at the end.

    `exchanges`: reads the texts of the run. A FAIL shows the texts of a few samples.
    """
    view, failing = build_view(run), build_failing(run, exchanges)
    if failing is not None:
        view = replace(view, sections=(*view.sections, failing))
    return render_view_terminal(view, width=width, color=color)


def render_view_terminal(view: View, *, width: int, color: bool) -> str:
    """Return a view in lines of at most `width` characters (at least 60), with a newline at the end.

    Names, ids and reasons are untrusted. They are escaped and never interpreted.
    """
    width = max(width, _NARROWEST)
    extras = max(1, min(_EXTRAS, (width - _FIRST_COLUMN) // _EXTRA_COLUMN))
    limits = Limits(
        _ROWS,
        items=_ITEMS,
        reasons=_REASONS,
        extras=extras,
        width=width,
        minor=False,
        details=False,
        without=frozenset({GOLD}),
    )
    return render_parts(_lay_out(fit_view(view, limits)), width=width, color=color)


def render_parts(parts: Iterable["RenderableType"], *, width: int, color: bool) -> str:
    """Return parts in lines of at most `width` characters (at least 60), with a newline at the end.

    Text is never interpreted as markup.
    """
    from rich.console import Console

    stream = StringIO()
    console = Console(
        file=stream,
        width=max(width, _NARROWEST),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().removesuffix("\n").split("\n"))


def _lay_out(view: View) -> Iterator["RenderableType"]:
    yield _heading(view.headline[0], view.headline[1:], "  ")
    yield from (_indent(_line(line)) for line in view.lead)
    yield from (_indent(_text(reason)) for reason in view.reasons)
    for section in view.sections:
        yield ""
        yield _heading(Cell(section.title), section.about, ", ")
        for part in section.parts:
            yield from map(_indent, _part(part))
        for inner in section.sections:
            yield _indent(_text(inner.title, Tone.QUIET))
            for part in inner.parts:
                yield from map(_indent, _part(part))
    if view.notes:
        yield ""
        yield from map(_line, view.notes)


def _heading(title: Cell, about: Iterable[Cell], separator: str) -> "Text":
    line = _text(title.words, title.tone)
    line.stylize("bold")
    for number, cell in enumerate(about):
        line.append_text(_text((separator if number else "  ", *cell.words), cell.tone))
    return line


def _part(part: Part) -> Iterator["RenderableType"]:
    if isinstance(part, Line):
        yield _line(part)
    elif isinstance(part, Table):
        yield _table(part)
    else:
        yield from _entries(part)


def _line(line: Line) -> "Text":
    return _text(join_items(line), line.tone)


def _entries(part: Entries) -> Iterator["RenderableType"]:
    if part.title:
        yield _text((part.title,), Tone.QUIET)
    for entry in part.entries:
        yield _indent(_text((entry.name, ": ", *entry.said), entry.tone))
        yield from (_indent(_line(line), 4) for line in entry.lines)


def _table(table: Table) -> "RichTable":
    from rich.table import Table as RichTable

    made = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(table.columns):
        made.add_column(
            _text((column.title,)),
            justify="right" if column.right else "left",
            no_wrap=column.wrap is Wrap.NEVER,
            overflow="fold",
            max_width=_CUT_NAME if not number and column.wrap is Wrap.CUT else None,
        )
    for row in table.rows:
        first, *others = map(_cell, row.cells, table.columns)
        made.add_row(_indent(first) if row.under else first, *others)
    return made


def _cell(cell: Cell, column: Column) -> "Text":
    mark = (" ", cell.mark) if cell.words and cell.mark else (cell.mark,)
    text = _text((*cell.words, *mark), cell.tone)
    return _one_line(text) if column.wrap is Wrap.CUT else text


def _text(words: Words, tone: Tone = Tone.PLAIN) -> "Text":
    """Return words with the style of a tone. Answers are cut to one line."""
    from rich.text import Text

    text = Text("".join(map(_show, words)), style=_STYLES[tone])
    return _one_line(text) if any(isinstance(piece, Foreign) and piece.role is Role.ANSWER for piece in words) else text


def _one_line(text: "Text") -> "Text":
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _show(piece: Piece) -> str:
    """Return a piece as text. All untrusted text passes through here."""
    if isinstance(piece, str):
        return piece
    longest = _LONGEST.get(piece.role)
    return inert(piece.text if longest is None else cut(piece.text, longest))


def _indent(part: "RenderableType", columns: int = 2) -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, columns))
