"""The parts of a view: words, cells, tables, lists, sections. They say what is shown, and no form of report.

The HTML report is given them as JSON, in which defaults are left out.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from evalspec.model import VerdictStatus


class Role(StrEnum):
    """What a foreign text is, which decides how much of it a form shows."""

    NAME = "name"
    SAMPLE = "sample"
    PROSE = "prose"
    ANSWER = "answer"


class Foreign(Struct, frozen=True, omit_defaults=True):
    """Text from a dataset, an agent or a judge. A form makes it harmless; all other text of a view is ours."""

    text: str
    role: Role = Role.NAME


Piece = str | Foreign
Words = tuple[Piece, ...]
"""One text, with what is foreign in it marked."""


class Tone(StrEnum):
    """How a text is coloured."""

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
}


class Plot(Struct, frozen=True, omit_defaults=True):
    """A value as a point on its scale, for forms that draw."""

    point: float
    ends: tuple[float, float] | None = None
    min: float | None = None
    max: float | None = None


class Cell(Struct, frozen=True, omit_defaults=True):
    """One cell of a table, or one part of a heading.

    `mark`: the symbol of an outcome, after the words. `details`: lines for forms with room under the words.
    """

    words: Words = ()
    tone: Tone = Tone.PLAIN
    mark: str = ""
    details: tuple[Words, ...] = ()
    plot: Plot | None = None


class Wrap(StrEnum):
    """What happens to a cell that is wider than its column has room for."""

    NEVER = "never"
    WORDS = "words"
    FOLD = "fold"
    CUT = "cut"


class Column(Struct, frozen=True, omit_defaults=True):
    """One column.

    `right`: aligned to the right, as numbers are. `room`: the width in characters from which a form shows the column.
    `below`: a form that is narrower has its cells as lines under the table. `extra`: one of several alike, of which a
    form shows the first few.
    """

    title: Piece = ""
    right: bool = False
    wrap: Wrap = Wrap.NEVER
    room: int = 0
    below: bool = False
    extra: bool = False


class Row(Struct, frozen=True, omit_defaults=True):
    """One row. `under`: the name of the row that it belongs to, which its own lacks. `minor`: it may be left out."""

    cells: tuple[Cell, ...]
    under: Words = ()
    minor: bool = False


class Line(Struct, frozen=True, omit_defaults=True, tag="line"):
    """One line of text, with a list where it has `items`, and `more` beside those. `detail`: for forms with room."""

    words: Words
    items: tuple[Words, ...] = ()
    more: int = 0
    tone: Tone = Tone.PLAIN
    detail: bool = False


class Table(Struct, frozen=True, omit_defaults=True, tag="table"):
    """A table. `minor`: what its minor rows are. `more`: rows beside these, which no form has room for."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    minor: str = ""
    more: int = 0
    detail: bool = False


class Entry(Struct, frozen=True, omit_defaults=True):
    """A named thing, what is said of it, and lines under it."""

    name: Foreign
    said: Words
    tone: Tone = Tone.PLAIN
    lines: tuple[Line, ...] = ()


class Entries(Struct, frozen=True, omit_defaults=True, tag="entries"):
    """A list of named things. `title` may be empty; `noun` says what they are; `more`: those beside them."""

    noun: str
    entries: tuple[Entry, ...]
    title: str = ""
    more: int = 0
    detail: bool = False


Part = Line | Table | Entries


class Section(Struct, frozen=True, omit_defaults=True):
    """Parts under a heading, and sections under those.

    `about`: what stands beside the title. `what`: how it is called where it had to be left out; those of a low `rank`
    are given room first. `folded`: a form that can fold shows only its title at first.
    """

    key: str
    title: Words
    parts: tuple[Part, ...]
    what: str
    about: tuple[Cell, ...] = ()
    sections: "tuple[Section, ...]" = ()
    rank: int = 0
    folded: bool = False


class View(Struct, frozen=True, omit_defaults=True):
    """A whole report. `mark`: the symbol of its outcome; `lead`: lines above the reasons; `notes`: those at the end."""

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
    """A cell of these words, of which empty ones are none."""
    return Cell(tuple(piece for piece in words if piece), tone, mark, tuple(details), plot)


def numbers(*titles: Piece) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(title, right=True) for title in titles)


def names(title: Piece) -> Column:
    """A column of names, which are not cut."""
    return Column(title, wrap=Wrap.FOLD)


def quiet(*words: Piece, items: Iterable[Words] = (), more: int = 0) -> Line:
    """A line that may be passed over."""
    return Line(words, tuple(items), more, Tone.QUIET)


def name(text: str) -> Words:
    """A foreign name by itself."""
    return (Foreign(text),)


def sample(text: str) -> Words:
    """The id of a sample by itself."""
    return (Foreign(text, Role.SAMPLE),)


def prose(text: str) -> Words:
    """A foreign sentence by itself."""
    return (Foreign(text, Role.PROSE),)
