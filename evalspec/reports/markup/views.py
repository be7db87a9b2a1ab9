"""The parts of a view as elements: words, lines, tables, entries, sections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from evalspec.base.foreign_text import cut
from evalspec.base.plural import counted
from evalspec.reports.markup.charts import draw_plot
from evalspec.reports.markup.elements import Element, Nodes, about, chip, el, folded, group, name
from evalspec.reports.markup.shown import ShownSection
from evalspec.reports.view.parts import (
    Cell,
    Column,
    Entries,
    Entry,
    Foreign,
    Line,
    Part,
    Role,
    Row,
    Table,
    Tone,
    Words,
    Wrap,
)

LONGEST: Mapping[Role, int] = {Role.NAME: 160, Role.SAMPLE: 160, Role.PROSE: 600, Role.ANSWER: 4000, Role.TEXT: 4000}
"""How many characters of an untrusted text a page of the service shows."""
_MEANINGS = {Tone.PASS: "pass", Tone.FAIL: "fail", Tone.WARN: "incomplete", Tone.QUIET: "not gated", Tone.PLAIN: ""}
_KINDS = {Tone.FAIL: "fail", Tone.QUIET: "muted"}
"""Classes of coloured words in cells."""
NOTES_AT_ONCE = 10


class Links(Protocol):
    """The addresses that a view links to."""

    @property
    def longest(self) -> Mapping[Role, int]:
        """How many characters of an untrusted text are shown."""

    def sample(self, dataset: str, id: str) -> str | None:
        """Return the address of a sample. None: it has none."""

    def section(self, at: str, page: int | None = None) -> str | None:
        """Return the address of a section with all its rows. None: it has none."""


def draw_words(words: Words, links: Links | None = None, dataset: str | None = None) -> Iterator[Nodes]:
    """Return a text: own words unchanged, untrusted text isolated, and ids of samples of the dataset as links."""
    for piece in words:
        if isinstance(piece, str):
            yield piece
            continue
        shown = name(_clip(piece, links))
        is_linked = piece.role is Role.SAMPLE and links is not None and dataset is not None
        address = links.sample(dataset, piece.text) if is_linked and links and dataset is not None else None
        yield el("a", shown, href=address) if address else shown


def _clip(piece: Foreign, links: Links | None) -> str:
    return cut(piece.text, (links.longest if links else LONGEST)[piece.role])


def draw_line_words(line: Line, links: Links | None = None, dataset: str | None = None) -> Iterator[Nodes]:
    """Return a line without an element around it."""
    yield draw_words(line.words, links, dataset)
    for number, item in enumerate(line.items):
        yield ", " if number else ": "
        yield draw_words(item, links, dataset)
    if line.more:
        yield f" and {line.more:,} more"


def draw_cell(cell: Cell, links: Links | None = None, dataset: str | None = None) -> Iterator[Nodes]:
    """Return what is in a cell."""
    said = draw_words(cell.words, links, dataset)
    yield el("span", said, class_=_KINDS[cell.tone]) if cell.words and cell.tone in _KINDS else said
    if cell.mark:
        yield " " if cell.words else ""
        yield chip(cell.tone, cell.mark, _MEANINGS[cell.tone])
    for detail in cell.details:
        yield el("small", draw_words(detail, links, dataset))


def draw_about(cells: Iterable[Cell], *others: Nodes, links: Links | None = None) -> Element | None:
    """Return the facts beside a title; None: there are none."""
    return about([*(el("span", draw_cell(cell, links)) for cell in cells), *others])


def draw_notes(notes: Sequence[Line], links: Links | None = None) -> Iterator[Nodes]:
    """Yield the lines at the end of a view. The later ones are folded."""
    items = [el("li", draw_line_words(line, links)) for line in notes]
    if items:
        yield el("ul", items[:NOTES_AT_ONCE], class_="notes")
    if rest := items[NOTES_AT_ONCE:]:
        yield folded(counted(len(rest), "further note"), el("ul", rest, class_="notes"))


def draw_part(part: Part, label: str, links: Links | None = None, dataset: str | None = None) -> Nodes:
    """Return a line, a table or entries. `label`: what it is, for screen readers."""
    if isinstance(part, Table):
        return draw_table(part, label, links, dataset)
    if isinstance(part, Entries):
        return _draw_entries(part, label, links, dataset)
    kind = "muted" if part.tone is Tone.QUIET else part.tone and f"said {part.tone}"
    return el("p", draw_line_words(part, links, dataset), class_=kind)


def frame_table(label: str, head: Nodes, rows: Nodes, kind: str = "cards") -> Element:
    """Return a table that becomes cards on a phone. Its roles are there because browsers drop them with the layout."""
    body = el("tbody", rows, role="rowgroup")
    table = el(
        "table",
        el("thead", el("tr", head, role="row"), role="rowgroup"),
        body,
        role="table",
        aria_label=label,
        class_=kind,
    )
    return el("div", table, class_="scroll", role="region", tabindex="0", aria_label=label)


def head_cell(title: Nodes, kind: str | None = None) -> Element:
    """Return the title of a column. An empty one is no header."""
    if not title:
        return el("td", class_=kind, role="cell")
    return el("th", title, scope="col", role="columnheader", class_=kind)


def data_cell(content: Nodes, title: str = "", kind: str | None = None) -> Element:
    """Return a cell. `title`: of its column, shown on a phone."""
    return el("td", content, role="cell", class_=kind, data_title=title)


def row_head(content: Nodes, kind: str | None = None) -> Element:
    """Return the first cell of a row."""
    return el("th", content, role="rowheader", scope="row", class_=kind)


def draw_table(table: Table, label: str, links: Links | None = None, dataset: str | None = None) -> Element:
    """Return a table, with a chart beside each column that has values to draw."""
    drawn = [any(row.cells[place].plot for row in table.rows) for place in range(len(table.columns))]
    head = [
        (
            head_cell(group(draw_words((column.title,), links)) if column.title else None, _class_of(column, place)),
            drawn[place] and head_cell(None, "plotted"),
        )
        for place, column in enumerate(table.columns)
    ]
    return frame_table(label, head, [_draw_row(row, table.columns, drawn, links, dataset) for row in table.rows])


def _draw_row(
    row: Row, columns: Sequence[Column], drawn: Sequence[bool], links: Links | None, dataset: str | None
) -> Element:
    cells: list[Element] = []
    for place, (cell, column) in enumerate(zip(row.cells, columns, strict=True)):
        content = draw_cell(cell, links, dataset)
        if place:
            cells.append(data_cell(content, _text_of(column, links), _class_of(column, place)))
        else:
            cells.append(row_head(el("span", content, class_="under") if row.under else content))
        if drawn[place]:
            cells.append(data_cell(draw_plot(cell.plot, cell.tone) if cell.plot else None, kind="plotted"))
    return el("tr", cells, role="row")


def _text_of(column: Column, links: Links | None) -> str:
    return column.title if isinstance(column.title, str) else _clip(column.title, links)


def _class_of(column: Column, place: int) -> str | None:
    if column.right:
        return "number"
    if not place:
        return None
    return ("wide" if column.wrap is Wrap.WORDS else "short") + (" titled" if column.title else "")


def _draw_entries(part: Entries, label: str, links: Links | None, dataset: str | None) -> Iterator[Nodes]:
    """Yield a row for each entry, with a column for each kind of line below it; entries with other texts as a list."""
    if any(not line.items for entry in part.entries for line in entry.lines):
        yield el(
            "ol", [_draw_entry(entry, links, dataset) for entry in part.entries], class_="entries", data_noun=part.noun
        )
        return
    kinds = dict.fromkeys(_kind_of(line) for entry in part.entries for line in entry.lines)
    if part.title:
        yield el("h4", part.title)
    head: list[Nodes] = [head_cell(part.noun), head_cell(None), [head_cell(kind, "wide titled") for kind in kinds]]
    rows = [
        el(
            "tr",
            row_head(draw_words((entry.name,), links, dataset)),
            data_cell(draw_words(entry.said, links, dataset), kind="state" if kinds else "wide"),
            [data_cell(_draw_items(entry, kind, links, dataset), kind, "wide titled") for kind in kinds],
            role="row",
        )
        for entry in part.entries
    ]
    yield frame_table(part.title or label, head, rows)


def _kind_of(line: Line) -> str:
    return "".join(piece for piece in line.words if isinstance(piece, str))


def _draw_items(entry: Entry, kind: str, links: Links | None, dataset: str | None) -> Iterator[Nodes]:
    for line in entry.lines:
        if _kind_of(line) == kind:
            items = [el("li", draw_words(item, links, dataset)) for item in line.items]
            more = el("li", f"and {line.more:,} more") if line.more else None
            yield el("ul", items, more, class_="missed")


def _draw_entry(entry: Entry, links: Links | None, dataset: str | None) -> Element:
    """Return an entry with the answers of both sides beside each other."""
    answers = [line for line in entry.lines if _answer_of(line) is not None]
    return el(
        "li",
        el("p", el("strong", draw_words((entry.name,), links, dataset)), " ", draw_words(entry.said, links, dataset)),
        [el("p", draw_line_words(line, links, dataset), class_="muted") for line in entry.lines if line not in answers],
        el("div", [_draw_answer(line, links) for line in answers], class_="beside") if answers else None,
        class_=entry.tone,
        tabindex="-1",
        data_row=True,
    )


def _answer_of(line: Line) -> Foreign | None:
    return next((piece for piece in line.words if isinstance(piece, Foreign) and piece.role is Role.ANSWER), None)


def _draw_answer(line: Line, links: Links | None) -> Element:
    answer = _answer_of(line)
    text = "" if answer is None else _clip(answer, links)
    shown = el("div", text, class_="prose", dir="auto") if text.strip() else el("p", "(empty)", class_="muted")
    return el("div", el("p", _kind_of(line).removesuffix(": "), class_="subheading"), shown, class_="block")


def draw_shown_parts(shown: ShownSection, links: Links) -> Iterator[Nodes]:
    """Yield the parts of a section."""
    for number, one in enumerate(shown.parts, 1):
        label = f"{shown.label} ({number})" if number > 1 else shown.label
        yield draw_part(one.part, label, links, shown.dataset)


def draw_shown(shown: ShownSection, links: Links) -> Iterator[Nodes]:
    """Yield the parts of a section, and a link to further rows."""
    yield draw_shown_parts(shown, links)
    if shown.more:
        address = links.section(shown.at)
        said = f"… and {shown.more:,} more"
        yield el("p", el("a", said, href=address) if address else said, class_="muted")


def draw_inner(shown: ShownSection, links: Links) -> Iterator[Element]:
    """Yield a section inside another one, folded if it asks for that, and the sections inside it."""
    title = group(draw_words(shown.section.title, links))
    if shown.section.folded:
        yield folded(title, draw_shown(shown, links), is_open=shown.is_open)
    else:
        yield el("div", el("h3", title), draw_shown(shown, links))
    for one in shown.sections:
        yield from draw_inner(one, links)


def draw_panel(
    id: str, title: Nodes, beside: Nodes, *content: Nodes, is_open: bool = True, kind: str = "panel"
) -> Element:
    """Return a part of the page under its own heading. `is_open`: whether a phone shows it unfolded."""
    heading = el("h2", title, id=f"title-{id}")
    return el(
        "section",
        heading,
        beside,
        content,
        id=id,
        class_=kind,
        aria_labelledby=f"title-{id}",
        data_folds="open" if is_open else "closed",
    )
