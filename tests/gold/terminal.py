"""A program in a pseudo-terminal, as a person uses it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from pathlib import Path
from typing import Any

_PATIENCE = 60.0


class Terminal:
    """Runs `evalspec` with the given arguments. `output`: everything it has printed, with `\\n` as line ends."""

    def __init__(self, folder: Path, *arguments: str, columns: int = 80, lines: int = 40, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, lines)
        self.mode = termios.tcgetattr(self._theirs)
        known = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evalspec", *arguments],
            cwd=folder,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=known | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | environment,
            start_new_session=True,
            preexec_fn=self._take_control,
        )
        self.output = ""
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    def _take_control(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

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
        code = self.process.wait(_PATIENCE)
        while self._receive(0.1):
            pass
        return code, self.output[self._seen :]

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
            return self.process.poll() is None
        self._raw += os.read(self._ours, 65536)
        self.output = self._raw.decode("utf-8", "replace").replace("\r\n", "\n")
        return True


def measure(line: str) -> int:
    """Return the columns of a line: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(sign) or sign in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in line
    )
