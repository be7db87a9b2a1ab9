"""The report for terminals: the outcome, what is broken, the samples to look at, and the outcome again."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evalspec.base.foreign_text import cut, inert, visible
from evalspec.model import Run, VerdictStatus
from evalspec.reports.affected_samples import find_failure_causes
from evalspec.reports.base import StoredExchanges, no_exchanges
from evalspec.reports.table_layout import LabelLayout, TableLayout, print_parts
from evalspec.reports.view.curation import GOLD
from evalspec.reports.view.failures import FailureTexts, read_failure_texts
from evalspec.reports.view.fit import Limits, fit_view, join_items
from evalspec.reports.view.outage import build_outage_view
from evalspec.reports.view.parts import (
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
    prose,
    quiet,
)
from evalspec.reports.view.run import build_headline, build_view, find_broken
from evalspec.reports.worst import list_worst

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_NARROWEST = 40
_ROWS = {"rivals": 20, "slices": 8, "worst": 5, "missing": 5, "agreement": 12, "dropped": 20, "coverage": 12}
_FAILURES = 3
"""Samples that are shown with their texts, and how many with -v."""
_MANY_FAILURES = 20
_MANY_ROWS = 100
_ITEMS = 5
_REASONS = 8
_FIRST_COLUMN, _EXTRA_COLUMN, _EXTRAS = 24, 18, 5
"""Approximate width of the first column and of the `extra` columns of a table, and the maximum number of the latter."""
_LONGEST = {Role.SAMPLE: 80, Role.ANSWER: 300}
"""Maximum characters of untrusted text by role. Other roles are not cut."""
_STYLES = {Tone.PLAIN: "", Tone.PASS: "green", Tone.FAIL: "red", Tone.WARN: "yellow", Tone.QUIET: "dim"}
_UNDECIDED = (VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED)
_SHORTEST_REASON = 20
"""Minimum characters of a reason beside the verdict."""
_TAB = 4
_MARK = "bold underline"
_MORE = "-v shows everything, `evalspec show SAMPLE` one sample"


class Amount(StrEnum):
    """How much to print: one line, what is wrong, or everything."""

    BRIEF = "brief"
    NORMAL = "normal"
    FULL = "full"


def render_terminal(
    run: Run,
    *,
    width: int,
    color: bool,
    exchanges: StoredExchanges = no_exchanges,
    amount: Amount = Amount.NORMAL,
) -> str:
    """Return the report of a run in lines of at most `width` characters (at least 40), with a newline at the end.

    The verdict is the first line and the last one; an agent that is down takes two lines. `exchanges`: reads the texts
    of the run, for the worst samples.
    """
    if amount is Amount.BRIEF:
        return _render_line(run, width=width, color=color)
    outage = None if amount is Amount.FULL else build_outage_view(run)
    if outage:
        return render_parts(_lay_out(_fit(outage, width, amount)), width=width, color=color)
    view = build_view(run, _read_worst(run, exchanges, _FAILURES if amount is Amount.NORMAL else _MANY_FAILURES))
    if amount is Amount.NORMAL and _is_cut(view):
        view = replace(view, notes=(*view.notes, quiet(_MORE)))
    parts = [*_lay_out(_fit(view, width, amount)), "", _summarise(run)]
    return render_parts(parts if view.sections else parts[:-2], width=width, color=color)


def _summarise(run: Run) -> "Text":
    """Return the verdict without an introduction of reasons."""
    verdict, *about = build_headline(run, announce=False)
    return _heading(verdict, about, "  ")


def _render_line(run: Run, *, width: int, color: bool) -> str:
    """Return the verdict with its first reason, if one has room. The reason is cut."""
    line, reason = _summarise(run), next(_list_causes(run), None)
    if reason is not None and line.cell_len + _SHORTEST_REASON <= width:
        line = _one_line(line.append_text(_text((": ", *prose(reason)))))
    return render_parts([_indent(line, 0)], width=width, color=color)


def _list_causes(run: Run) -> Iterator[str]:
    """Yield why each metric without a value failed, unless the verdict is certain all the same, then the reasons."""
    for dataset in run.datasets if run.verdict in _UNDECIDED else ():
        empty = [metric for metric, summary in dataset.metrics.items() if summary.failed and not summary.scored]
        scores = ((metric, sample.scores.get(metric)) for metric in empty for sample in dataset.samples)
        found = ((metric, score.reason) for metric, score in scores if score and score.reason)
        yield from (f"{dataset.name}: {metric} failed: {reason}" for metric, reason in found)
    yield from run.reasons


def _read_worst(run: Run, exchanges: StoredExchanges, most: int) -> FailureTexts:
    """Return the texts of the worst samples of the datasets that are broken."""
    if not run.has_texts or run.verdict not in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE):
        return {}
    broken = find_broken(run)
    shown = [one for one in run.datasets if broken[one.name] or not any(broken.values())]
    worst = zip(run.datasets, find_failure_causes(run), strict=True)
    wanted = {
        (one.name, trouble.id) for one, blamed in worst if one in shown for trouble in list_worst(one, blamed)[:most]
    }
    attempts = max((len(sample.attempts) for one in shown for sample in one.samples), default=1)
    return read_failure_texts(exchanges(), wanted, max(attempts, 1))


def _is_cut(view: View) -> bool:
    return any(inner.minor or inner.key == "worst" for section in view.sections for inner in section.sections)


def render_view_terminal(view: View, *, width: int, color: bool, amount: Amount = Amount.NORMAL) -> str:
    """Return a view in lines of at most `width` characters (at least 40), with a newline at the end.

    Names, ids and reasons are untrusted. They are escaped and never interpreted.
    """
    return render_parts(_lay_out(_fit(view, width, amount)), width=width, color=color)


def _fit(view: View, width: int, amount: Amount) -> View:
    width = max(width, _NARROWEST)
    is_full = amount is Amount.FULL
    extras = max(1, min(_EXTRAS, (width - _FIRST_COLUMN) // _EXTRA_COLUMN))
    limits = Limits(
        dict.fromkeys(_ROWS, _MANY_ROWS) if is_full else _ROWS,
        items=_ITEMS,
        reasons=None if is_full else _REASONS,
        extras=extras,
        width=width,
        minor=is_full,
        details=False,
        without=frozenset({GOLD}),
    )
    return fit_view(view, limits)


def render_parts(parts: Iterable["RenderableType"], *, width: int, color: bool) -> str:
    """Return parts in lines of at most `width` characters (at least 40), with a newline at the end.

    Text is never interpreted as markup.
    """
    return print_parts(parts, max(width, _NARROWEST), color=color)


def _lay_out(view: View) -> Iterator["RenderableType"]:
    yield _heading(view.headline[0], view.headline[1:], "  ")
    yield from (_indent(_line(line)) for line in view.lead)
    yield from (_indent(_text(reason)) for reason in view.reasons)
    for section in view.sections:
        yield ""
        yield _heading(Cell(section.title), section.about, ", ")
        yield from map(_indent, _parts(section.parts))
        for inner in section.sections:
            yield _indent(_text(inner.title, Tone.QUIET))
            yield from map(_indent, _parts(inner.parts))
    if view.notes:
        yield ""
        yield from map(_line, view.notes)


def _heading(title: Cell, about: Iterable[Cell], separator: str) -> "Text":
    line = _text(title.words, title.tone)
    line.stylize("bold")
    for number, cell in enumerate(about):
        line.append_text(_text((separator if number else "  ", *cell.words), cell.tone))
    return line


def _parts(parts: Iterable[Part]) -> Iterator["RenderableType"]:
    """Yield the parts. The texts of successive lines with labels begin below each other."""
    for is_labelled, group in groupby(parts, lambda part: isinstance(part, Line) and bool(part.label)):
        if is_labelled:
            yield _labelled([part for part in group if isinstance(part, Line)])
        else:
            for part in group:
                yield from _part(part)


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
    for number, entry in enumerate(part.entries):
        is_labelled = any(line.label for line in entry.lines)
        if number and is_labelled:
            yield ""
        yield _indent(_text((entry.name, ": ", *entry.said), entry.tone))
        if is_labelled:
            yield _indent(_labelled(entry.lines), 4)
        else:
            yield from (_indent(_line(line), 4) for line in entry.lines)


def _labelled(lines: Sequence[Line]) -> LabelLayout:
    plain = ((line.label, replace(line, label="")) for line in lines)
    return LabelLayout([(_text((label,), Tone.QUIET), _line(line)) for label, line in plain])


def _table(table: Table) -> TableLayout:
    titles = [_text((column.title,), Tone.QUIET) for column in table.columns]
    rows = []
    for row in table.rows:
        first, *others = map(_cell, row.cells, table.columns)
        rows.append([_text(("  ",)).append_text(first) if row.under else first, *others])
    return TableLayout(table.columns, titles, rows)


def _cell(cell: Cell, column: Column) -> "Text":
    mark = (" ", cell.mark) if cell.words and cell.mark else (cell.mark,)
    text = _text((*cell.words, *mark), cell.tone)
    return _one_line(text) if column.wrap is Wrap.CUT else text


def _text(words: Words, tone: Tone = Tone.PLAIN) -> "Text":
    """Return words with the style of a tone. Answers are cut to one line."""
    from rich.text import Text

    text = Text(style=_STYLES[tone])
    for piece in words:
        differs = isinstance(piece, Foreign) and piece.differs
        text.append(_show(piece), _MARK if differs else None)
    return _one_line(text) if any(isinstance(piece, Foreign) and piece.role is Role.ANSWER for piece in words) else text


def _one_line(text: "Text") -> "Text":
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _show(piece: Piece) -> str:
    """Return a piece as text. All untrusted text passes through here."""
    if isinstance(piece, str):
        return piece
    if piece.role is Role.TEXT:
        return _show_part(piece)
    longest = _LONGEST.get(piece.role)
    return inert(piece.text if longest is None else cut(piece.text, longest))


def _show_part(piece: Foreign) -> str:
    """Return part of a text with its lines. Asterisks enclose differing words, for terminals without styles."""
    shown = visible(piece.text).expandtabs(_TAB)
    if not piece.differs:
        return shown
    words = shown.strip()
    before, _, after = shown.partition(words)
    return f"{before}*{words}*{after}"


def _indent(part: "RenderableType", columns: int = 2) -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, columns))
