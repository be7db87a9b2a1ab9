"""The interactive form of `evalspec gold review`."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.cli.failure import CommandFailed, ended_like_ctrl_c
from evalspec.cli.gold.keyboard import END, ENTER, ESCAPE, RESIZED, Keyboard
from evalspec.cli.gold.screen import (
    CATEGORIES,
    FLAGS,
    View,
    render_choices,
    render_help,
    render_lines,
    render_outcome,
    render_triple,
)
from evalspec.cli.options import warn
from evalspec.cli.streams import emit, notify, results_stream
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.gold.blocks import read_texts
from evalspec.gold.disputes import check_numbers
from evalspec.gold.gold_set import Entry
from evalspec.gold.passages import read_block_text
from evalspec.gold.review_session import Outcome, ReviewSession

_FALLBACK = (80, 24)


def run_session(root: Path, by: str, first: str | None, corpus: Path | None, again: str) -> ExitCode:
    """Let a person review triples on a terminal. `again`: the command that continues.

    Raises:
        InvalidInput: There is no terminal, or nothing can be read.
        CommandFailed: Interrupted. All reviews are kept.
    """
    if not (sys.stdin.isatty() and results_stream().isatty()):
        fix = "without one: evalspec gold next --json, then evalspec gold review ID VERDICT"
        raise InvalidInput(Problem("a review session needs a terminal", fix))
    texts = None if corpus is None else read_texts(corpus)
    session = ReviewSession(root, by, first)
    for problem in session.problems:
        warn(problem)
    terminal = _Terminal(session, texts, again)
    try:
        with ended_like_ctrl_c(), Keyboard(sys.stdin, find_size) as keyboard:
            terminal.run(keyboard)
    except KeyboardInterrupt:
        terminal.tell_end()
        raise CommandFailed(
            ExitCode.INTERRUPTED, ["interrupted; every review is kept", f"to resume: {again}"]
        ) from None
    terminal.tell_end()
    if session.remaining:
        notify(f"{session.remaining} left; to resume: {again}")
    return ExitCode.OK


def describe_again(root: Path, by: str, corpus: Path | None) -> str:
    """Return the command that continues a session."""
    command = ["evalspec", "gold", "review", "--set", str(root), "--as", by]
    return shlex.join([*command, *(["--corpus", str(corpus)] if corpus else [])])


def find_size() -> tuple[int, int]:
    """Return columns and lines of the terminal."""
    try:
        found = os.get_terminal_size(results_stream().fileno())
    except (OSError, ValueError):
        return _FALLBACK
    return found.columns or _FALLBACK[0], found.lines or _FALLBACK[1]


def compare_numbers(root: Path, entry: Entry, corpus: Mapping[str, str] | None) -> list[str]:
    """Return what the answer says in numbers and its block does not, a line each."""
    check = check_numbers(root, entry, corpus)
    return [] if check.unknown is not None else check.render()


class _Terminal:
    """A session on a terminal. `texts`: a corpus by id."""

    def __init__(self, session: ReviewSession, texts: Mapping[str, str] | None, again: str) -> None:
        self._session, self._texts, self._again = session, texts, again
        self._keyboard: Keyboard
        self._whole = False

    def run(self, keyboard: Keyboard) -> None:
        """Go through the triples until the person quits, or none is left."""
        self._keyboard = keyboard
        if self._session.current is None:
            self._say("nothing to review")
            return
        while (entry := self._open()) is not None or self._wait_at_the_end():
            self._whole = False
            if entry is not None and not self._handle(entry):
                return

    def tell_end(self) -> None:
        """Print what became of the last triple, and the number of reviews."""
        self._tell(self._session.settle())
        session = self._session
        if session.confirmed or session.flagged or session.skipped:
            self._say(f"{session.confirmed} confirmed, {session.flagged} flagged, {session.skipped} skipped")

    def _open(self) -> Entry | None:
        while True:
            try:
                return self._session.open()
            except InvalidInput as error:
                self._complain(error)

    def _handle(self, entry: Entry) -> bool:
        """Show a triple until the person has decided. Return whether the session continues."""
        decisions = {"c": self._confirm, "f": self._flag, "s": self._skip}
        self._show(entry)
        while (key := self._keyboard.read_key()) not in ("q", END):
            if key in decisions:
                decisions[key](entry)
                return True
            if key == "u":
                if self._undo():
                    return True
            elif key in ("b", RESIZED):
                self._whole = self._whole or key == "b"
                self._show(entry)
            elif key == "?":
                self._print(render_help(self._view()))
            elif key not in (ENTER, ESCAPE):
                self._say("unknown key; ? shows help")
        return False

    def _wait_at_the_end(self) -> bool:
        """Offer what is left to do. Return whether there is another triple to show."""
        session = self._session
        choices = [f"[s] back to {session.skipped} skipped"] if session.skipped else []
        choices += ["[u] undo"] if session.last else []
        if not choices:
            return False
        self._say("", "That was the last one.", ", ".join([*choices, "[q] quit"]))
        while (key := self._keyboard.read_key()) not in ("q", END):
            if key == "s" and session.skipped:
                session.resume_skipped()
                return True
            if key == "u" and self._undo():
                return True
        return False

    def _show(self, entry: Entry) -> None:
        if entry.triple is None:
            return
        self._keyboard.forget()
        session = self._session
        texts = [read_block_text(session.root, block, self._texts) for block in entry.triple.blocks]
        numbers = compare_numbers(session.root, entry, self._texts)
        progress = f"{session.position} of {session.total}"
        self._print(render_triple(entry, texts, progress, self._view(), numbers=numbers, whole=self._whole))

    def _confirm(self, entry: Entry) -> None:
        self._record(entry, f"confirmed {entry.reference}", None)

    def _skip(self, entry: Entry) -> None:
        self._say(f"skipped {entry.id}")
        self._session.skip()

    def _flag(self, entry: Entry) -> None:
        """Ask for flag, category and note, and record them. If the person goes back, the triple is shown again."""
        flag = self._choose("What is wrong?", FLAGS, "Esc: nothing, go back")
        category = ESCAPE
        if flag not in (ESCAPE, END):
            category = self._choose("What is it about?", CATEGORIES, "Enter: none; Esc: go back", may_be_none=True)
        note = None
        if category not in (ESCAPE, END):
            note = self._keyboard.read_line(lambda: self._say("A note for the author (Enter: none; Ctrl-D: go back):"))
        if note is None:
            self._say("nothing was recorded")
            return
        chosen = None if category == ENTER else category
        self._record(entry, f"flagged {entry.reference} as {flag}", flag, chosen, note.strip() or None)

    def _choose(self, title: str, choices: Mapping[Any, str], otherwise: str, *, may_be_none: bool = False) -> str:
        """Return the chosen key of a mapping, or ESCAPE, END, or ENTER if that is possible."""
        self._print(render_choices(title, choices, otherwise, self._view()))
        names = list(choices)
        while True:
            key = self._keyboard.read_key()
            if key in (ESCAPE, END) or (key == ENTER and may_be_none):
                return key
            if key.isdecimal() and 1 <= int(key) <= len(names):
                self._say(str(names[int(key) - 1]))
                return str(names[int(key) - 1])
            if key == RESIZED:
                self._print(render_choices(title, choices, otherwise, self._view()))

    def _record(
        self, entry: Entry, done: str, flag: str | None, category: str | None = None, note: str | None = None
    ) -> None:
        try:
            before = self._session.record(entry, flag, category=category, note=note)
        except InvalidInput as error:
            self._complain(error)
            return
        self._tell(before)
        self._say(f"{done}; u takes it back")

    def _undo(self) -> bool:
        try:
            entry = self._session.undo()
        except InvalidInput as error:
            self._complain(error)
            return False
        self._say(f"took back the review of {entry.reference}")
        return True

    def _tell(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._print(render_outcome(outcome, self._view()))

    def _complain(self, error: InvalidInput) -> None:
        self._say(*(problem.render() for problem in error.problems))

    def _say(self, *lines: str) -> None:
        self._print(render_lines(lines, self._view()))

    def _print(self, text: str) -> None:
        emit(text, nl=False, color=self._view().color)
        results_stream().flush()

    def _view(self) -> View:
        width, height = find_size()
        color = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        return View(width, height, color, (results_stream().encoding or "").lower().startswith("utf"))
