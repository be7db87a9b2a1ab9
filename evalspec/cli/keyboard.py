"""Single keys and lines from a terminal.

POSIX terminals are in cbreak mode for the whole session, so that no key is lost between two prompts, and Ctrl-C and
Ctrl-Z work. prompt_toolkit would need an addressable cursor, and click.getchar discards keys that arrive while it
switches modes. click is used only where there is no termios (Windows).
"""

import os
import re
import select
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

import click

if sys.platform != "win32":
    import termios
    import tty

RESIZED, END, ENTER, ESCAPE = "resized", "end", "enter", "escape"
"""Names of keys and events that have no character."""

_EOF = "\x04"
_NAMES = {"\r": ENTER, "\n": ENTER, "\x1b": ESCAPE, _EOF: END}
_SPECIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.|$)", re.DOTALL)
"""What arrows, function keys and Alt with a key send."""
_TICK = 0.2
"""Seconds between two checks of the terminal's size."""
_CHUNK = 4096


class Keyboard:
    """The keys of a terminal. Use it as a context manager, which restores the terminal's mode.

    `find_size`: returns the size of the terminal; a change becomes the key RESIZED.
    """

    def __init__(self, stream: TextIO, find_size: Callable[[], Any]) -> None:
        self._fd = stream.fileno()
        self._find_size = find_size
        self._size: Any = None
        self._typed: deque[str] = deque()
        self._saved: list[Any] | None = None

    def __enter__(self) -> "Keyboard":
        if sys.platform != "win32":
            self._saved = termios.tcgetattr(self._fd)
            self._read_keys_at_once()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._read_lines()

    def forget(self) -> None:
        """Discard keys that were pressed before something new is shown, because they were not meant for it."""
        self._typed.clear()
        self._size = self._find_size()
        if sys.platform != "win32":
            with suppress(termios.error):
                termios.tcflush(self._fd, termios.TCIFLUSH)

    def read_key(self) -> str:
        """Return the next key as a small letter or sign, ENTER, ESCAPE or RESIZED; END if the terminal is gone.

        Other keys, such as arrows, are ignored.
        """
        while not self._typed:
            if sys.platform == "win32":
                self._typed.extend(click.getchar()[:1])
            elif not select.select([self._fd], [], [], _TICK)[0]:
                self._read_keys_at_once()  # after Ctrl-Z, the shell has set its own mode
                if self._find_size() != self._size:
                    self._size = self._find_size()
                    return RESIZED
            else:
                text = self._read()
                if not text:
                    return END
                self._typed.extend(text if text == "\x1b" else _SPECIAL.sub("", text))
        key = self._typed.popleft()
        return _NAMES.get(key, key.lower())

    def read_line(self, ask: Callable[[], None]) -> str | None:
        """Return a line that the person typed and could edit, without the line break; None after Ctrl-D.

        `ask`: prints what to type. The terminal has its own mode before that, so that no key is taken for another.
        """
        if sys.platform == "win32":
            ask()
            return click.prompt("", default="", show_default=False, prompt_suffix="")
        self._read_lines()
        try:
            ask()
            line = ""
            while not line.endswith("\n"):  # keys pressed before the change of mode arrive as a part
                part = self._read()
                if not part or _EOF in part:
                    return None
                line += part
        finally:
            self._read_keys_at_once()
        return line.rstrip("\r\n")

    def _read(self) -> str:
        try:
            return os.read(self._fd, _CHUNK).decode("utf-8", "replace")
        except OSError:  # the terminal was closed
            return ""

    def _read_keys_at_once(self) -> None:
        if sys.platform != "win32":
            with suppress(termios.error):
                if termios.tcgetattr(self._fd)[3] & termios.ICANON:
                    tty.setcbreak(self._fd, termios.TCSANOW)

    def _read_lines(self) -> None:
        if sys.platform != "win32" and self._saved is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
