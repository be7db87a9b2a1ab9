"""Parts of a terminal report as plain lines: the one place that sets up rich."""

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROWEST = 60


def render_parts(parts: Iterable["RenderableType"], *, width: int, color: bool) -> str:
    """The parts one under the other as lines of at most `width` columns (60 at least), ending with a newline.

    Whatever a text holds is shown and never interpreted as markup.
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
