"""The report for pull request comments and step summaries of GitHub Actions: GitHub Flavored Markdown.

Untrusted text is only in code spans. There, GitHub renders no links, mentions, images or HTML. In escaped or encoded
text it does.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.foreign_text import cut, inert
from evalspec.model import Run
from evalspec.reports.base import Reporter
from evalspec.reports.view.curation import GOLD
from evalspec.reports.view.fit import Limits, fit_view, join_items
from evalspec.reports.view.parts import (
    Cell,
    Entries,
    Foreign,
    Line,
    Part,
    Piece,
    Role,
    Row,
    Section,
    Table,
    Tone,
    View,
    Words,
)
from evalspec.reports.view.run import build_view

MOST_BYTES = 60_000
"""Comments are limited to 65,536 characters. Bytes are a safe upper bound for every script."""

_ROWS = {"rivals": 40, "slices": 20, "worst": 10, "missing": 10, "samples": None}
"""Maximum rows of parts that may be long. The user limits the samples of a comparison."""
_LIMITS = Limits(_ROWS, 60, items=10, reasons=20, notes=20, extras=5, without=frozenset({GOLD}))
_LONGEST = {Role.NAME: 80, Role.SAMPLE: 80, Role.PROSE: 200, Role.ANSWER: 200, Role.TEXT: 200}
_ROOM_FOR_NOTE = 2_000
_NAMED_AS_LEFT_OUT = 5


class _Block(Struct, frozen=True):
    """A part that is shown completely or not at all. `rank`: blocks with a low rank come first when space is short."""

    what: str
    text: str
    rank: int


def render_markdown(run: Run) -> str:
    """Return the report of a run in less than MOST_BYTES of UTF-8."""
    return render_view_markdown(build_view(run))


def render_view_markdown(view: View) -> str:
    """Return a view in less than MOST_BYTES of UTF-8, with a note that lists omitted parts."""
    fitted = fit_view(view, _LIMITS)
    blocks = list(_blocks(fitted))
    end = "  \n".join(map(_line, fitted.notes)) + "\n"
    room = MOST_BYTES - _ROOM_FOR_NOTE - _size(end)
    kept: set[int] = set()
    for number, block in sorted(enumerate(blocks), key=lambda numbered: numbered[1].rank):
        if _size(block.text) <= room:
            kept.add(number)
            room -= _size(block.text)
    left_out = [block.what for number, block in enumerate(blocks) if number not in kept]
    texts = [block.text for number, block in enumerate(blocks) if number in kept]
    return "".join([*texts, _note(left_out), end])


def render_fields(run: Run) -> str:
    """Return the verdict and the tables of metrics, without any free text: for reports from an untrusted place."""
    view = build_view(run)
    sections = (
        replace(
            section, parts=tuple(_keep_fields(part) for part in section.parts if isinstance(part, Table)), sections=()
        )
        for section in view.sections
    )
    return render_view_markdown(View(view.headline, view.mark, sections=tuple(sections)))


def _keep_fields(table: Table) -> Table:
    kept = ([replace(cell, words=_drop_texts(cell.words)) for cell in row.cells] for row in table.rows)
    rows = (replace(row, cells=tuple(cells)) for row, cells in zip(table.rows, kept, strict=True))
    return replace(table, rows=tuple(rows))


def _drop_texts(words: Words) -> Words:
    return tuple(piece for piece in words if isinstance(piece, str) or piece.role is Role.NAME)


def _size(text: str) -> int:
    return len(text.encode())


def _note(left_out: Sequence[str]) -> str:
    if not left_out:
        return ""
    named = ", ".join(left_out[:_NAMED_AS_LEFT_OUT])
    more = f" and {len(left_out) - _NAMED_AS_LEFT_OUT:,} more" if len(left_out) > _NAMED_AS_LEFT_OUT else ""
    return f"> **Left out**, as a comment has room for {MOST_BYTES:,} bytes: {named}{more}. Other reports have all.\n\n"


def _blocks(view: View) -> Iterator[_Block]:
    yield _Block("the verdict", _head(view), 0)
    for section in view.sections:
        title = _text(section.title)
        about = ", ".join(_text(cell.words) for cell in section.about)
        heading = f"### {title}\n\n" + (f"{about}\n\n" if about else "")
        of = f" of {title}" if _has_foreign(section.title) else ""
        yield _Block(section.what + of, heading + _parts(section.parts), section.rank)
        for inner in section.sections:
            yield _Block(inner.what + of, _inner(inner), inner.rank)


def _head(view: View) -> str:
    lines = [f"## {_headline(view)}\n\n"]
    lines += [_part(line) for line in view.lead]
    lines += [f"- {_text(reason)}\n" for reason in view.reasons]
    return "".join(lines) + "\n" * bool(view.reasons)


def _headline(view: View) -> str:
    mark = f"{view.mark} " if view.mark else ""
    return mark + " · ".join(_text(cell.words) for cell in view.headline)


def _inner(section: Section) -> str:
    """Return a section, folded if it may be. Untrusted titles must not be inside HTML, so they prevent folding."""
    title, text = _text(section.title), _parts(section.parts)
    if section.folded and not _has_foreign(section.title):
        return f"<details><summary>{title}</summary>\n\n{text}</details>\n\n"
    return f"**{title}**\n\n{text}"


def _has_foreign(words: Words) -> bool:
    return any(isinstance(piece, Foreign) for piece in words)


def _parts(parts: Sequence[Part]) -> str:
    return "".join(map(_part, parts))


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Entries):
        return _entries(part)
    return f"{'> ' if part.tone is Tone.WARN else ''}{_line(part)}\n\n"


def _line(line: Line) -> str:
    return _text(join_items(line))


def _entries(part: Entries) -> str:
    lines = [f"{part.title}:\n\n"] if part.title else []
    for entry in part.entries:
        lines.append(f"- {_text((entry.name, ': ', *entry.said))}\n")
        lines += [f"  - {_line(line)}\n" for line in entry.lines]
    return "".join(lines) + "\n"


def _table(table: Table) -> str:
    """Return a table. Rows that belong to another row repeat its name."""
    lines = [
        [_in_cell((column.title,)) for column in table.columns],
        ["---:" if column.right else "---" for column in table.columns],
        *(_row(row) for row in table.rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _row(row: Row) -> list[str]:
    first, *others = map(_cell, row.cells)
    return [" ".join(filter(None, [_in_cell(row.under), first])), *others]


def _cell(cell: Cell) -> str:
    return " ".join(filter(None, [_in_cell(cell.words), cell.mark]))


def _in_cell(words: Words) -> str:
    """Return words for a table cell. Pipes are escaped, because they end a cell even inside a code span."""
    return _text(words).replace("|", "\\|")


def _text(words: Words) -> str:
    return "".join(map(_show, words))


def _show(piece: Piece) -> str:
    """Return the Markdown of a piece. All untrusted text passes through here."""
    return code(piece.text, _LONGEST[piece.role]) if isinstance(piece, Foreign) else piece


def code(text: str, limit: int = _LONGEST[Role.NAME]) -> str:
    """Return untrusted text as a code span on one line, cut to `limit` characters."""
    flat = cut(inert(text), limit)
    if not flat:
        return "(empty)"
    longest = max(map(len, "".join(c if c == "`" else " " for c in flat).split()), default=0)
    fence = "`" * (longest + 1)
    margin = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{margin}{flat}{margin}{fence}"


MARKDOWN = Reporter("markdown", (".md",), lambda run, _exchanges: render_markdown(run))
FIELDS = Reporter("fields", (".fields.md",), lambda run, _exchanges: render_fields(run))
