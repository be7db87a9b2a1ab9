"""A program in a pseudo-terminal, as a person uses it."""

import fcntl
import multiprocessing
import os
import pty
import select
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from evalspec.__main__ import main

_PATIENCE = 60.0
_EXIT = os._exit
"""As it is before a command replaces it."""
_FORK = multiprocessing.get_context("fork")


class Terminal:
    """Runs `evalspec` with the given arguments. `output`: everything it has printed, with `\\n` as line ends."""

    def __init__(self, folder: Path, *arguments: str, columns: int = 80, lines: int = 40, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, lines)
        self.mode = termios.tcgetattr(self._theirs)
        self.process = _FORK.Process(target=self._run, args=(folder, arguments, environment))
        self.process.start()
        self.output = ""
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.join()
        self.close()

    def _run(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        """Become the program. What the tests have imported is there already, so it starts at once."""
        os.setsid()
        fcntl.ioctl(self._theirs, termios.TIOCSCTTY, 0)
        for descriptor in range(3):
            os.dup2(self._theirs, descriptor)
        self.close()
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the program runs
            for number, mode in enumerate("rww")
        )
        os.chdir(folder)
        for name in ("COLUMNS", "NO_COLOR"):
            os.environ.pop(name, None)
        os.environ |= {"TERM": "xterm-256color", **environment}
        sys.argv = ["evalspec", *arguments]
        code = main()
        sys.stderr.flush()
        _EXIT(code)

    def resize(self, columns: int, lines: int = 40) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def expect(self, text: str) -> str:
        """Wait for a text after what was expected before, and return the output up to its end."""
        deadline = time.monotonic() + _PATIENCE
        while (found := self.output.find(text, self._seen)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in {self.output[self._seen :]}"
            assert self._receive(), f"the end, and no {text!r} in {self.output[self._seen :]}"
        before, self._seen = self.output[self._seen : found], found + len(text)
        return before + text

    def act(self, keys: str, *texts: str) -> str:
        """Press keys, expect texts one after another, and return the output up to the end of the last."""
        self.press(keys)
        return "".join(map(self.expect, texts))

    def quit(self) -> tuple[int, str]:
        """Press q and wait for the end, as `end` does."""
        self.press("q")
        return self.end()

    def end(self) -> tuple[int, str]:
        """Wait for the end of the program, and return its exit code and the rest of its output."""
        code = self.wait()
        while self._receive(0.1):
            pass
        return code, self.output[self._seen :]

    def wait(self) -> int:
        """Wait for the end of the program, and return its exit code: negative after a signal."""
        self.process.join(_PATIENCE)
        assert self.process.exitcode is not None, "it does not end"
        return self.process.exitcode

    def close(self) -> None:
        """Close the window."""
        for descriptor in filter(None, (self._ours, self._theirs)):
            os.close(descriptor)
        self._ours = self._theirs = 0

    def current_mode(self) -> list[Any]:
        """Return the settings of the terminal."""
        return termios.tcgetattr(self._theirs)

    def set_mode(self, mode: list[Any]) -> None:
        """Change the settings of the terminal."""
        termios.tcsetattr(self._theirs, termios.TCSANOW, mode)

    def hang_up(self) -> None:
        """Close the window while the program runs."""
        self.close()

    def _receive(self, seconds: float = 1.0) -> bool:
        """Read what there is. Return False if nothing comes and the program has ended."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return self.process.is_alive()
        self._raw += os.read(self._ours, 65536)
        self.output = self._raw.decode("utf-8", "replace").replace("\r\n", "\n")
        return True


def measure(line: str) -> int:
    """Return the columns of a line: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(sign) or sign in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in line
    )
