"""Lay out tables and labelled lines for terminals of any width, and print them on a console that writes to memory.

A table that is too wide moves its columns with `aside` under their rows, the last ones first. If it is still too wide,
each row becomes a block: its first cell, and below it the other cells with their titles.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.reports.view.parts import Column, Wrap
from evalspec.verdict.wording import UNKNOWN

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text


def open_console(stream: StringIO, width: int, *, color: bool) -> "Console":
    """Return a console that writes to memory. Text is never interpreted as markup."""
    from rich.console import Console

    return Console(
        file=stream,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_parts(parts: Iterable["RenderableType"], width: int, *, color: bool) -> str:
    """Return parts as lines without spaces at their ends."""
    stream = StringIO()
    console = open_console(stream, width, color=color)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().removesuffix("\n").split("\n"))


_GAP = 2
_UNDER = 2
"""Columns by which cells under their row are indented."""
_LEAST = {Wrap.WORDS: 18, Wrap.FOLD: 16, Wrap.CUT: 10}
"""Minimum width of columns that can be narrower than their cells."""
_CUT_NAME = 28
"""Maximum width of a name in a column that cuts names."""


class TableLayout(Struct, frozen=True):
    """A table that rich prints at the width it has. `cells`: a text per row and column."""

    columns: Sequence[Column]
    titles: "Sequence[Text]"
    cells: "Sequence[Sequence[Text]]"

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        """Yield the lines."""
        asides = [place for place, column in enumerate(self.columns) if column.aside]
        for kept in range(len(asides), -1, -1):
            shown = [place for place in range(len(self.columns)) if place not in asides[kept:]]
            widths = self._fit(shown, options.max_width)
            if widths:
                yield from self._in_columns(console, options.max_width, widths)
                return
        yield from self._in_blocks(console, options.max_width)

    def _fit(self, shown: Sequence[int], width: int) -> dict[int, int]:
        """Return the widths of the columns, or nothing if they do not fit. The widest columns are narrowed first."""
        widths = {place: min(self._find_width(place), width) for place in shown}
        least = {place: min(widths[place], self._find_least(place)) for place in shown}
        room = width - _GAP * (len(shown) - 1)
        if sum(least.values()) > room:
            return {}
        while sum(widths.values()) > room:
            widest = max(shown, key=lambda place: (widths[place] > least[place], widths[place]))
            widths[widest] -= 1
        return widths

    def _find_width(self, place: int) -> int:
        texts = [self.titles[place], *(row[place] for row in self.cells)]
        widest = max(text.cell_len for text in texts)
        return min(widest, _CUT_NAME) if not place and self.columns[place].wrap is Wrap.CUT else widest

    def _find_least(self, place: int) -> int:
        words, column = self.titles[place].plain.split(), self.columns[place]
        if column.wrap is Wrap.WORDS and not column.aside:  # narrow is better than moving every cell
            words += [word for row in self.cells for word in row[place].plain.split()]
            return min(max(map(len, words), default=0), _LEAST[Wrap.WORDS])
        return max([_LEAST.get(column.wrap, self._find_width(place)), *map(len, words)])

    def _in_columns(self, console: "Console", width: int, widths: dict[int, int]) -> "Iterator[Text]":
        if any(title.plain for title in self.titles):
            yield from self._join(console, self.titles, widths)
        asides = [place for place in range(len(self.columns)) if place not in widths]
        for row in self.cells:
            yield from self._join(console, row, widths)
            yield from self._pack(console, row, asides, width)

    def _in_blocks(self, console: "Console", width: int) -> "Iterator[Text]":
        for row in self.cells:
            yield from row[0].wrap(console, width, overflow="fold", no_wrap=False)
            yield from self._pack(console, row, range(1, len(self.columns)), width)

    def _join(self, console: "Console", row: "Sequence[Text]", widths: dict[int, int]) -> "Iterator[Text]":
        from rich.text import Text

        parts = [_wrap(console, row[place], width, self.columns[place].wrap) for place, width in widths.items()]
        for cells in zip_longest(*parts, fillvalue=Text()):
            line = Text()
            for place, cell in zip(widths, cells, strict=True):
                blanks = " " * max(widths[place] - cell.cell_len, 0)
                gap = " " * _GAP if line.plain or place != next(iter(widths)) else ""
                right = self.columns[place].right
                line.append(gap + (blanks if right else ""))
                line.append_text(cell)
                line.append("" if right else blanks)
            line.rstrip()
            yield line

    def _pack(self, console: "Console", row: "Sequence[Text]", places: Iterable[int], width: int) -> "Iterator[Text]":
        """Yield cells with their titles, as many on a line as fit."""
        from rich.text import Text

        line = Text()
        for place in places:
            cell = row[place]
            if not cell.plain or (cell.plain == UNKNOWN and self.columns[place].aside):
                continue
            title = Text.assemble((self.titles[place].plain, "dim"), " ") if self.titles[place].plain else Text()
            said = title.append_text(cell)
            if line.plain and line.cell_len + _GAP + said.cell_len > width - _UNDER:
                yield Text(" " * _UNDER).append_text(line)
                line = Text()
            line.append(" " * _GAP if line.plain else "").append_text(said)
            *full, line = line.wrap(console, width - _UNDER, overflow="fold", no_wrap=False) or [line]
            yield from (Text(" " * _UNDER).append_text(one) for one in full)
        if line.plain:
            yield Text(" " * _UNDER).append_text(line)


class LabelLayout(Struct, frozen=True):
    """Texts with a label each. Continued lines begin below the text, not below its label."""

    lines: "Sequence[tuple[Text, Text]]"

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        """Yield the lines."""
        from rich.text import Text

        indent = max(label.cell_len for label, _ in self.lines) + _GAP
        for label, text in self.lines:
            room = max(options.max_width - indent, 1)
            for number, line in enumerate(_wrap(console, text, room, Wrap.CUT if text.no_wrap else Wrap.FOLD)):
                before = label.copy() if not number else Text()
                before.append(" " * (indent - before.cell_len))
                yield before.append_text(line)


def _wrap(console: "Console", text: "Text", width: int, how: Wrap) -> "Sequence[Text]":
    if how in (Wrap.NEVER, Wrap.CUT):
        cut = text.copy()
        cut.truncate(width, overflow="ellipsis")
        return [cut]
    return list(text.wrap(console, width, overflow="fold", no_wrap=False)) or [text]
