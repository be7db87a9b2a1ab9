"""The width of standard output, and whether to print colours."""

import os

from evalspec.cli.streams import results_stream

_WIDTH = 100
"""Width in columns if standard output is no terminal."""


def detect_terminal() -> tuple[int, bool]:
    """Return the width of standard output in columns, and whether to print colours."""
    color = bool(os.environ.get("FORCE_COLOR")) or (results_stream().isatty() and not os.environ.get("NO_COLOR"))
    return _find_width(), color


def find_line_width() -> int | None:
    """Return the width at which lines must be wrapped; None for files and pipes, whose lines are records."""
    return _find_width() if os.environ.get("COLUMNS") or results_stream().isatty() else None


def _find_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else read_size()[0] or _WIDTH


def read_size() -> tuple[int, int]:
    """Return columns and lines of the terminal, 0 if unknown. shutil.get_terminal_size may read standard error's."""
    try:
        return os.get_terminal_size(results_stream().fileno())
    except (OSError, ValueError):
        return 0, 0
