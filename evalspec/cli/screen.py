"""Lay out what people judge on a terminal: headings, texts with marked words, excerpts, choices, keys.

Lines scroll, nothing is drawn over: this works on every terminal and with screen readers.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from evalspec.base.foreign_text import inert, visible
from evalspec.cli.streams import results_stream
from evalspec.cli.terminal_size import read_size
from evalspec.reports.table_layout import open_console, print_parts

if TYPE_CHECKING:
    from rich.text import Text

_FALLBACK = (80, 24)
_WIDEST, _NARROWEST = 100, 20
_SHORTEST_EXCERPT = 6
"""Lines of a text that are shown even on a low screen."""
_TAB = 4
_MARK = "bold underline"


class Screen(Struct, frozen=True):
    """How to lay text out. `height`: lines of the terminal."""

    width: int
    height: int
    color: bool
    unicode: bool

    @property
    def columns(self) -> int:
        """The width of lines. Very wide ones are hard to read."""
        return max(_NARROWEST, min(self.width, _WIDEST))

    def count_text_lines(self, around: Sequence[Any], texts: int) -> int:
        """Return how many lines each of several texts may have between parts that are shown in full."""
        fixed = render_parts(around, self).count("\n") + texts * 3 + 4
        return max(_SHORTEST_EXCERPT, (self.height - fixed) // max(1, texts))


def find_size() -> tuple[int, int]:
    """Return columns and lines of the terminal."""
    width, height = read_size()
    return width or _FALLBACK[0], height or _FALLBACK[1]


def find_screen() -> Screen:
    """Return how to lay text out on the terminal as it is now."""
    width, height = find_size()
    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return Screen(width, height, color, (results_stream().encoding or "").lower().startswith("utf"))


def render_parts(parts: Iterable[Any], screen: Screen) -> str:
    """Return parts, a line or more each. Continued lines are indented like their first one."""
    return print_parts(map(_pad, parts), screen.columns, color=screen.color)


def _pad(part: Any) -> Any:
    from rich.padding import Padding
    from rich.text import Text

    text = part if isinstance(part, Text) else Text(part)
    indent = min(len(text.plain) - len(text.plain.lstrip(" ")), 4)
    return Padding(text[indent:], (0, 0, 0, indent)) if text.plain.strip() else ""


def render_lines(lines: Sequence[str], screen: Screen) -> str:
    """Return lines, which may contain untrusted text."""
    return render_parts(map(inert, lines), screen)


def render_choices(title: str, choices: Mapping[Any, str], otherwise: str, screen: Screen) -> str:
    """Return a question with numbered choices. `otherwise`: what other keys do."""
    lines = [f"  {number} {name}: {meaning}" for number, (name, meaning) in enumerate(choices.items(), 1)]
    return render_parts(["", title, *lines, f"  {otherwise}"], screen)


def render_keys(keys: Mapping[str, str]) -> str:
    """Return keys with their meanings on one line."""
    return "  ".join(f"[{key}] {meaning}" for key, meaning in keys.items())


def build_title(title: str, progress: str, screen: Screen) -> list[Any]:
    """Return the line across the screen that begins something new, between blank lines."""
    from rich.text import Text

    line = "─" if screen.unicode else "-"
    rule = Text(f"{line * 2} {inert(title)}  {progress} ", style="bold")
    rule.append(line * (screen.columns - rule.cell_len))
    return [Text(""), rule, Text("")]


def build_heading(title: str, about: str = "") -> "Text":
    """Return the heading of a text."""
    from rich.text import Text

    return Text.assemble((title, "bold"), f"  {about}" if about else "")


def build_body(text: str) -> Iterator["Text"]:
    """Yield the lines of an untrusted text."""
    from rich.text import Text

    yield from (Text(f"  {line}") for line in clean(text).strip("\n").split("\n"))


def clean(text: str) -> str:
    """Return an untrusted text of several lines that cannot control a terminal."""
    return visible(text).expandtabs(_TAB)


def build_marked(text: str, spans: Sequence[tuple[int, int]], screen: Screen) -> "Text":
    """Return a clean text with spans marked: by style, or by asterisks without colour."""
    from rich.text import Text

    marked, position = Text(), 0
    for start, end in spans:
        marked.append(text[position:start])
        marked.append(text[start:end] if screen.color else f"*{text[start:end]}*", _MARK)
        position = end
    return marked.append(text[position:])


def build_excerpt(text: "Text", room: int | None, screen: Screen, key: str) -> Iterator["Text"]:
    """Yield the lines of a marked text, or of its part with the most marks if there is less room.

    `room`: number of lines; None: enough. `key`: the one that shows all.
    """
    from rich.text import Text

    console = open_console(StringIO(), screen.columns, color=screen.color)
    lines = [Text("  ") + line for line in text.wrap(console, screen.columns - 2)]
    if room is None or len(lines) <= room:
        yield from lines
        return
    shown = room - 2
    marks = [sum(span.style == _MARK for span in line.spans) for line in lines]
    sums = [sum(marks[at : at + shown]) for at in range(len(lines) - shown + 1)]
    best = [at for at, count in enumerate(sums) if count == max(sums)]
    start = best[len(best) // 2] if max(sums) else 0
    after = len(lines) - start - shown
    yield Text(f"  … {start} lines before" if start else "  (from the beginning)", style="dim")
    yield from lines[start : start + shown]
    yield Text(f"  … {after} lines more; {key} shows all" if after else f"  (to the end; {key} shows all)", style="dim")
