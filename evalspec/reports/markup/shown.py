"""How much of a view a page shows.

A page of the service has at most about _PAGE_BYTES of tables: the first rows of each, and links to the others. A report
has the whole view.
"""

import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.reports.view.parts import Cell, Entries, Entry, Foreign, Line, Part, Row, Section, Table, View, Words


class Fit(Struct, frozen=True):
    """How many rows, and about how many bytes, of a part are shown."""

    rows: int
    size: int


_BESIDE_OTHERS = Fit(25, 16_000)
_ALONE = Fit(100, 90_000)
_WHOLE = Fit(sys.maxsize, sys.maxsize)
_PAGE_BYTES = 90_000
_CELL_BYTES = 90
_PLOT_BYTES = 420
_LONGEST_PIECE = 160
_ROWS_UNFOLDED = 12


class ShownPart(Struct, frozen=True):
    """A part with the rows that fit. `more`: number of further rows."""

    part: Part
    more: int = 0


class ShownSection(Struct, frozen=True):
    """A section with what fits of it. `at`: its place in the view, such as `2.1`. `dataset`: the one that it is about.

    `is_open`: whether it is unfolded at first. `has_more`: whether some part has further rows.
    """

    at: str
    section: Section
    parts: tuple[ShownPart, ...]
    sections: "tuple[ShownSection, ...]"
    dataset: str | None
    is_open: bool

    @property
    def label(self) -> str:
        """The section in words, for screen readers."""
        title = "".join(piece if isinstance(piece, str) else piece.text for piece in self.section.title)
        of = f" of {self.dataset}" if self.dataset else ""
        return f"{self.section.what}{of}" if self.section.key == "dataset" else f"{self.section.what}{of}: {title}"

    @property
    def more(self) -> int:
        """Number of further rows of all parts."""
        return sum(part.more for part in self.parts)


class Layout(Struct, frozen=True):
    """The sections of a page, and those that are only links."""

    sections: tuple[ShownSection, ...]
    linked: tuple[ShownSection, ...]


def lay_out(view: View) -> Layout:
    """Return the sections of a view, as many as fit on a page."""
    shown: list[ShownSection] = []
    linked: list[ShownSection] = []
    size = 0
    for number, section in enumerate(view.sections):
        if linked:
            linked.append(_link(str(number), section))
            continue
        found = _show(str(number), section, None, _BESIDE_OTHERS)
        size += _measure(found)
        if size <= _PAGE_BYTES or not shown:
            shown.append(found)
        else:
            linked.append(_link(str(number), section))
    return Layout(tuple(shown), tuple(linked))


def lay_out_whole(view: View) -> tuple[ShownSection, ...]:
    """Return all sections of a view with all rows."""
    return tuple(_show(str(number), one, None, _WHOLE, inside=_WHOLE) for number, one in enumerate(view.sections))


def lay_out_section(view: View, at: str, page: int) -> ShownSection | None:
    """Return one section with more of its rows. None: there is none at this place, or no such page.

    `at`: as in ShownSection. `page`: from 1.
    """
    sections: Sequence[Section] = view.sections
    dataset, found = None, None
    for step in at.split("."):
        if not step.isdecimal() or int(step[:6]) >= len(sections):
            return None
        found = sections[int(step)]
        dataset = _find_dataset(found, dataset)
        sections = found.sections
    if found is None:
        return None
    shown = _show(at, found, dataset, _ALONE, page)
    return shown if page == 1 or any(_count(one.part) for one in shown.parts) else None


def _link(at: str, section: Section) -> ShownSection:
    return ShownSection(at, section, (), (), _find_dataset(section, None), is_open=False)


def _show(
    at: str, section: Section, dataset: str | None, fit: Fit, page: int = 1, inside: Fit = _BESIDE_OTHERS
) -> ShownSection:
    own = _find_dataset(section, dataset)
    parts = tuple(_show_part(part, fit, page) for part in section.parts)
    inner = tuple(
        _show(f"{at}.{number}", one, own, inside, inside=inside) for number, one in enumerate(section.sections)
    )
    is_open = not section.folded or max((_count(part) for part in section.parts), default=0) <= _ROWS_UNFOLDED
    return ShownSection(at, section, parts, inner if page == 1 else (), own, is_open)


def _find_dataset(section: Section, outer: str | None) -> str | None:
    if section.key != "dataset":
        return outer
    return next((piece.text for piece in section.title if isinstance(piece, Foreign)), outer)


def _show_part(part: Part, fit: Fit, page: int) -> ShownPart:
    if isinstance(part, Line):
        return ShownPart(part)
    if isinstance(part, Table):
        taken, more = _take_page([_measure_row(row) for row in part.rows], fit, page)
        return ShownPart(replace(part, rows=part.rows[taken]), more)
    taken, more = _take_page([_measure_entry(entry) for entry in part.entries], fit, page)
    return ShownPart(replace(part, entries=part.entries[taken]), more)


def _take_page(sizes: Sequence[int], fit: Fit, page: int) -> tuple[slice, int]:
    """Return the rows of a page, and how many come after it. A page has at least one row."""
    start = 0
    for number in range(1, page + 1):
        end = start + _count_fitting(sizes[start : start + fit.rows], fit.size)
        if number == page:
            return slice(start, end), len(sizes) - end
        start = end
    return slice(0, 0), 0


def _count_fitting(sizes: Sequence[int], size: int) -> int:
    total = 0
    for number, one in enumerate(sizes):
        total += one
        if total > size and number:
            return number
    return len(sizes)


def _count(part: Part) -> int:
    return len(part.rows) if isinstance(part, Table) else len(part.entries) if isinstance(part, Entries) else 0


def _measure(shown: ShownSection) -> int:
    """Return about how many bytes a section has."""
    own = sum(sum(map(_measure_row, part.rows)) if isinstance(part, Table) else 0 for part in _parts(shown))
    own += sum(sum(map(_measure_entry, part.entries)) if isinstance(part, Entries) else 0 for part in _parts(shown))
    own += sum(_measure_line(part) if isinstance(part, Line) else 0 for part in _parts(shown))
    return own + sum(map(_measure, shown.sections)) + 10 * _CELL_BYTES


def _parts(shown: ShownSection) -> Iterator[Part]:
    return (one.part for one in shown.parts)


def _measure_row(row: Row) -> int:
    return sum(map(_measure_cell, row.cells))


def _measure_cell(cell: Cell) -> int:
    plot = _PLOT_BYTES if cell.plot else 0
    return _CELL_BYTES + plot + _measure_words(cell.words) + sum(map(_measure_words, cell.details))


def _measure_entry(entry: Entry) -> int:
    return 2 * _CELL_BYTES + _measure_words(entry.said) + sum(map(_measure_line, entry.lines))


def _measure_line(line: Line) -> int:
    return _CELL_BYTES + _measure_words(line.words) + sum(map(_measure_words, line.items))


def _measure_words(words: Words) -> int:
    return sum(len(piece) if isinstance(piece, str) else 30 + min(len(piece.text), _LONGEST_PIECE) for piece in words)
