"""A conversation with a person on a terminal: lines that scroll, and single keys as answers."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.cli.failure import CommandFailed, ended_like_ctrl_c
from evalspec.cli.keyboard import END, ENTER, ESCAPE, RESIZED, Keyboard
from evalspec.cli.screen import find_screen, find_size, render_choices, render_lines
from evalspec.cli.streams import emit, results_stream
from evalspec.curation.work_queue import WorkQueue


def require_terminal(what: str, fix: str) -> None:
    """Check that a person can read the results and press keys. `what`: needs it. `fix`: what to do without one.

    Raises:
        InvalidInput: There is no terminal.
    """
    if not (sys.stdin.isatty() and results_stream().isatty()):
        raise InvalidInput(Problem(f"{what} needs a terminal", fix))


class Dialog(ABC):
    """The base of sessions on a terminal. `keyboard`: that of the conversation."""

    keyboard: Keyboard

    def converse(self, kept: str, again: str) -> None:
        """Run the conversation until its end. `kept`: what stays if it is interrupted. `again`: command to continue.

        Raises:
            CommandFailed: Interrupted.
        """
        try:
            with ended_like_ctrl_c(), Keyboard(sys.stdin, find_size) as self.keyboard:
                self.run()
        except KeyboardInterrupt:
            self.end()
            lines = [f"interrupted; {kept}", f"to resume: {again}"]
            raise CommandFailed(ExitCode.INTERRUPTED, lines) from None
        self.end()

    @abstractmethod
    def run(self) -> None:
        """Ask until there is nothing left, or the person quits."""

    @abstractmethod
    def end(self) -> None:
        """Print what was done."""

    @abstractmethod
    def undo(self) -> bool:
        """Take the last decision back. Return whether that was possible."""

    def wait_at_the_end(self, queue: WorkQueue[Any, Any]) -> bool:
        """Offer what is left to do. Return whether there is another one to show."""
        choices = [f"[s] back to {queue.skipped} skipped"] if queue.skipped else []
        choices += ["[u] undo"] if queue.can_undo else []
        if not choices:
            return False
        self.say("", "That was the last one.", ", ".join([*choices, "[q] quit"]))
        while (key := self.keyboard.read_key()) not in ("q", END):
            if key == "s" and queue.skipped:
                queue.resume_skipped()
                return True
            if key == "u" and self.undo():
                return True
        return False

    def say(self, *lines: str) -> None:
        """Print lines, which may contain untrusted text."""
        self.show(render_lines(lines, find_screen()))

    def show(self, text: str) -> None:
        """Print laid out text."""
        emit(text, nl=False, color=find_screen().color)
        results_stream().flush()

    def complain(self, error: InvalidInput) -> None:
        """Print what is wrong."""
        self.say(*(problem.render() for problem in error.problems))

    def read_note(self, prompt: str) -> str | None:
        """Ask for a line of text. Empty for none; None if the person goes back."""
        note = self.keyboard.read_line(lambda: self.say(prompt))
        return None if note is None else note.strip()

    def choose(self, title: str, choices: Mapping[Any, str], otherwise: str, *, may_be_none: bool = False) -> str:
        """Return the chosen key of a mapping, or ESCAPE, END, or ENTER if that is possible."""
        self.show(render_choices(title, choices, otherwise, find_screen()))
        names = list(choices)
        while True:
            key = self.keyboard.read_key()
            if key in (ESCAPE, END) or (key == ENTER and may_be_none):
                return key
            if key.isdecimal() and 1 <= int(key) <= len(names):
                self.say(str(names[int(key) - 1]))
                return str(names[int(key) - 1])
            if key == RESIZED:
                self.show(render_choices(title, choices, otherwise, find_screen()))
