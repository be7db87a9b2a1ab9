"""The parts of a view: words, cells, tables, lists, sections. They are independent of the form of a report.

The HTML report receives them as JSON, without default values.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from evalspec.model import VerdictStatus


class Role(StrEnum):
    """The kind of an untrusted text. It determines how much of the text a report shows."""

    NAME = "name"
    SAMPLE = "sample"
    PROSE = "prose"
    ANSWER = "answer"
    TEXT = "text"
    """Part of a longer text, with the blanks at its ends."""


class Foreign(Struct, frozen=True, omit_defaults=True):
    """Text from a dataset, an agent or a judge, which reports must escape. All other text is evalspec's own."""

    text: str
    role: Role = Role.NAME
    differs: bool = False
    """Whether it is a part of an answer that the expected one lacks, or the other way round."""


Piece = str | Foreign
Words = tuple[Piece, ...]
"""A text, with its untrusted parts marked."""


class Tone(StrEnum):
    """The colour of a text, by meaning."""

    PLAIN = ""
    PASS = "pass"  # noqa: S105 - a colour, not a password
    FAIL = "fail"
    WARN = "warn"
    QUIET = "none"


TONES = {
    VerdictStatus.PASS: Tone.PASS,
    VerdictStatus.FAIL: Tone.FAIL,
    VerdictStatus.INCOMPLETE: Tone.WARN,
    VerdictStatus.NOT_GATED: Tone.QUIET,
    VerdictStatus.SHARD: Tone.QUIET,
}


class Plot(Struct, frozen=True, omit_defaults=True):
    """A value as a point on its scale, for reports with graphics."""

    point: float
    ends: tuple[float, float] | None = None
    min: float | None = None
    max: float | None = None


class Cell(Struct, frozen=True, omit_defaults=True):
    """One cell of a table, or one part of a heading.

    `mark`: symbol of an outcome, after the words. `details`: lines under the words, for reports with details.
    """

    words: Words = ()
    tone: Tone = Tone.PLAIN
    mark: str = ""
    details: tuple[Words, ...] = ()
    plot: Plot | None = None


class Wrap(StrEnum):
    """How cells that are wider than their column are wrapped."""

    NEVER = "never"
    WORDS = "words"
    FOLD = "fold"
    CUT = "cut"


class Column(Struct, frozen=True, omit_defaults=True):
    """One column.

    `right`: align to the right, as for numbers. `min_width`: of a report that shows the column, in characters.
    `below`: in narrower reports, show its cells as lines under the table. `extra`: one of several similar columns; a
    report shows the first few. `aside`: the first to move under its row if a table is too wide. `minor`: reports may
    omit the column.
    """

    title: Piece = ""
    right: bool = False
    wrap: Wrap = Wrap.NEVER
    min_width: int = 0
    below: bool = False
    extra: bool = False
    aside: bool = False
    minor: bool = False


class Row(Struct, frozen=True, omit_defaults=True):
    """One row. `under`: name of the row that it belongs to, if any. `minor`: reports may omit the row."""

    cells: tuple[Cell, ...]
    under: Words = ()
    minor: bool = False


class Line(Struct, frozen=True, omit_defaults=True, tag="line"):
    """One line of text. `items`: list after it. `more`: number of omitted items. `detail`: for reports with details.

    `label`: what the text is, before it.
    """

    words: Words
    items: tuple[Words, ...] = ()
    more: int = 0
    tone: Tone = Tone.PLAIN
    detail: bool = False
    label: str = ""


class Table(Struct, frozen=True, omit_defaults=True, tag="table"):
    """A table. `minor`: description of its minor rows. `more`: number of rows that no report shows."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    minor: str = ""
    more: int = 0
    detail: bool = False


class Entry(Struct, frozen=True, omit_defaults=True):
    """A named entry with a text, and lines under it."""

    name: Foreign
    said: Words
    tone: Tone = Tone.PLAIN
    lines: tuple[Line, ...] = ()


class Entries(Struct, frozen=True, omit_defaults=True, tag="entries"):
    """A list of entries. `noun`: what an entry is. `title`: may be empty. `more`: number of omitted entries."""

    noun: str
    entries: tuple[Entry, ...]
    title: str = ""
    more: int = 0
    detail: bool = False


Part = Line | Table | Entries


class Section(Struct, frozen=True, omit_defaults=True):
    """Parts under a heading, and subsections.

    `about`: shown beside the title. `what`: name of the section if it is omitted. `rank`: sections with a low rank come
    first when space is short. `folded`: reports that can fold initially show only the title. `minor`: reports may
    omit the section.
    """

    key: str
    title: Words
    parts: tuple[Part, ...]
    what: str
    about: tuple[Cell, ...] = ()
    sections: "tuple[Section, ...]" = ()
    rank: int = 0
    folded: bool = False
    minor: bool = False


class View(Struct, frozen=True, omit_defaults=True):
    """A whole report. `mark`: symbol of its outcome. `lead`: lines above the reasons. `notes`: lines at the end."""

    headline: tuple[Cell, ...]
    mark: str = ""
    lead: tuple[Line, ...] = ()
    reasons: tuple[Words, ...] = ()
    sections: tuple[Section, ...] = ()
    notes: tuple[Line, ...] = ()


def cell(
    *words: Piece,
    tone: Tone = Tone.PLAIN,
    mark: str = "",
    details: Iterable[Words] = (),
    plot: Plot | None = None,
) -> Cell:
    """Return a cell of these words without empty ones."""
    return Cell(tuple(piece for piece in words if piece), tone, mark, tuple(details), plot)


def row(*cells: Cell, under: Words = (), minor: bool = False) -> Row:
    """Return a row of these cells."""
    return Row(cells, under, minor)


def numbers(*titles: Piece) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(title, right=True) for title in titles)


def names(title: Piece) -> Column:
    """Return a column of names, which are not cut."""
    return Column(title, wrap=Wrap.FOLD)


def quiet(*words: Piece, items: Iterable[Words] = (), more: int = 0) -> Line:
    """Return a line in a quiet tone."""
    return Line(words, tuple(items), more, Tone.QUIET)


def name(text: str) -> Words:
    """Return an untrusted name as words."""
    return (Foreign(text),)


def sample(text: str) -> Words:
    """Return the id of a sample as words."""
    return (Foreign(text, Role.SAMPLE),)


def prose(text: str) -> Words:
    """Return an untrusted sentence as words."""
    return (Foreign(text, Role.PROSE),)
