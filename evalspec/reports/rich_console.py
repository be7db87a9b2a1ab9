"""Print on a console of rich that writes to memory."""

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


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
