"""A session on a terminal: one case after the other, lines that scroll, and single keys as answers.

What is particular to a kind of case (how it is shown, what is asked) is in a subclass.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.cli.failure import CommandFailed, ended_like_ctrl_c
from evalspec.cli.keyboard import END, ENTER, ESCAPE, RESIZED, Keyboard
from evalspec.cli.screen import (
    Screen,
    build_excerpt,
    build_title,
    find_screen,
    find_size,
    render_choices,
    render_keys,
    render_lines,
    render_parts,
)
from evalspec.cli.streams import emit, notify, results_stream
from evalspec.curation.case_queue import CaseQueue

Case = TypeVar("Case")

SKIP, UNDO, HELP, QUIT = "skip", "undo", "help", "quit"
"""Meanings of keys in every session."""


def require_terminal(what: str, fix: str) -> None:
    """Check that a person can read the results and press keys. `what`: needs it. `fix`: what to do without one.

    Raises:
        InvalidInput: There is no terminal.
    """
    if not (sys.stdin.isatty() and results_stream().isatty()):
        raise InvalidInput(Problem(f"{what} needs a terminal", fix))


class CaseView(Struct, frozen=True):
    """What a person reads of a case. `texts`: a heading and a marked text each; a low screen shows a part of them.

    `head`, `tail`: the lines above and below them, which are shown in full.
    """

    title: str
    head: list[Any]
    texts: list[tuple[Any, Any]]
    tail: list[Any]

    def render(self, progress: str, keys: Mapping[str, str], whole: str | None, screen: Screen) -> str:
        """Return it with the keys. `whole`: the key that shows the texts in full; None: they are."""
        parts = [*build_title(self.title, progress, screen), *self.head]
        room = screen.count_text_lines([*parts, *self.tail], len(self.texts)) if whole else None
        for heading, text in self.texts:
            parts += [heading, *build_excerpt(text, room, screen, whole or ""), ""]
        return render_parts([*parts, *self.tail, render_keys(keys)], screen)


class CaseSession(ABC, Generic[Case]):
    """The base of sessions on a terminal. `decision`: what undo takes back. `whole`: the meaning of the key for it."""

    decision: ClassVar[str]
    whole: ClassVar[str]
    keyboard: Keyboard

    def __init__(self, queue: CaseQueue[Any, Case, Any]) -> None:
        self._cases = queue
        self._begun: Any = None
        self._whole = False

    @abstractmethod
    def name(self, case: Case) -> str:
        """Return what messages call a case."""

    @abstractmethod
    def list_keys(self, case: Case) -> Mapping[str, str]:
        """Return the keys with their meanings."""

    @abstractmethod
    def describe(self, case: Case, screen: Screen) -> CaseView:
        """Return a case for a person, without what others say about it."""

    @abstractmethod
    def explain(self, case: Case) -> str:
        """Return the help for a case."""

    @abstractmethod
    def answer(self, case: Case, meaning: str) -> bool:
        """Do what a key of this kind of case means. Return whether to show the next case, or this one again.

        Raises:
            InvalidInput: The decision is refused.
        """

    def begin(self) -> None:
        """Forget what the person did on the case before."""
        self._whole = False

    def finish(self) -> None:
        """Print what is known at the end of the session."""

    def run(self, again: str) -> ExitCode:
        """Go through the cases until the person quits, or none is left. `again`: the command that continues.

        Raises:
            CommandFailed: Interrupted. All decisions are kept.
        """
        try:
            with ended_like_ctrl_c(), Keyboard(sys.stdin, find_size) as self.keyboard:
                self._go_through()
        except KeyboardInterrupt:
            self._end()
            lines = [f"interrupted; every {self._cases.noun} is kept", f"to resume: {again}"]
            raise CommandFailed(ExitCode.INTERRUPTED, lines) from None
        self._end()
        if self._cases.remaining:
            notify(f"{self._cases.remaining} left; to resume: {again}")
        return ExitCode.OK

    def say(self, *lines: str) -> None:
        """Print lines, which may contain untrusted text."""
        self.show(render_lines(lines, find_screen()))

    def show(self, text: str) -> None:
        """Print laid out text."""
        emit(text, nl=False, color=find_screen().color)
        results_stream().flush()

    def read_text(self, prompt: str) -> str | None:
        """Ask for a line of text. Empty for none; None if the person goes back."""
        text = self.keyboard.read_line(lambda: self.say(prompt))
        return None if text is None else text.strip()

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
            else:
                self.say(f"unknown key; press a number up to {len(names)}")

    def _go_through(self) -> None:
        cases = self._cases
        if cases.current is None:
            earlier = f", {cases.total} {cases.past} already" if cases.total else ""
            self.say(f"nothing to {cases.noun}{earlier}")
        while (case := self._open()) is not None or self._wait_at_the_end():
            if cases.current != self._begun:
                self._begun = cases.current
                self.begin()
            if case is not None and not self._handle(case):
                return

    def _open(self) -> Case | None:
        while True:
            try:
                return self._cases.open()
            except InvalidInput as error:
                self._complain(error)

    def _handle(self, case: Case) -> bool:
        """Show a case until the person has decided. Return whether the session continues."""
        keys = self.list_keys(case)
        self._show(case)
        while (key := self.keyboard.read_key()) != END and (meaning := keys.get(key, key)) != QUIT:
            if meaning in (self.whole, RESIZED):
                self._whole = self._whole or meaning == self.whole
                self._show(case)
            elif meaning == HELP:
                lines = ["", *self.explain(case).split("\n"), "", render_keys(keys)]
                self.show(render_parts(lines, find_screen()))
            elif key not in keys:
                self.say(*([] if key in (ENTER, ESCAPE) else ["unknown key; ? shows help"]))
            elif self._act(case, meaning):
                return True
        return False

    def _act(self, case: Case, meaning: str) -> bool:
        """Do what a key means. Return whether another case is to be shown, or this one again."""
        if meaning == UNDO:
            return self._undo()
        if meaning == SKIP:
            self.say(f"skipped {self.name(case)}")
            self._cases.skip()
            self._begun = None
            return True
        try:
            return self.answer(case, meaning)
        except InvalidInput as error:
            self._complain(error)
            return True

    def _undo(self) -> bool:
        """Take the last decision back. Return whether that was possible."""
        try:
            case = self._cases.undo()
        except InvalidInput as error:
            self._complain(error)
            return False
        self.say(f"took back {self.decision} {self.name(case)}")
        return True

    def _wait_at_the_end(self) -> bool:
        """Offer what is left to do. Return whether there is another case to show."""
        cases = self._cases
        choices = [f"[s] back to {cases.skipped} skipped"] if cases.skipped else []
        choices += ["[u] undo"] if cases.last is not None else []
        if not choices:
            return False
        self.say("", "That was the last one.", ", ".join([*choices, "[q] quit"]))
        while (key := self.keyboard.read_key()) not in ("q", END):
            if key == "s" and cases.skipped:
                cases.resume_skipped()
                return True
            if key == "u" and self._undo():
                return True
        return False

    def _end(self) -> None:
        self.finish()
        counts = {**self._cases.count_decisions(), "skipped": self._cases.skipped}
        if any(counts.values()):
            self.say(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))

    def _show(self, case: Case) -> None:
        self.keyboard.forget()
        screen, keys = find_screen(), self.list_keys(case)
        whole = None if self._whole else next(key for key, meaning in keys.items() if meaning == self.whole)
        progress = f"{self._cases.position} of {self._cases.total}"
        self.show(self.describe(case, screen).render(progress, keys, whole, screen))

    def _complain(self, error: InvalidInput) -> None:
        self.say(*(problem.render() for problem in error.problems))
