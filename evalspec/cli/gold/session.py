"""The interactive form of `evalspec gold review`."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from evalspec.base.errors import ExitCode, InvalidInput
from evalspec.cli.dialog import Dialog, require_terminal
from evalspec.cli.gold.screen import render_help, render_outcome, render_triple
from evalspec.cli.keyboard import END, ENTER, ESCAPE, RESIZED
from evalspec.cli.options import warn_all
from evalspec.cli.screen import find_screen
from evalspec.cli.streams import notify
from evalspec.curation.gold.blocks import read_texts
from evalspec.curation.gold.disputes import check_numbers
from evalspec.curation.gold.gold_set import Entry
from evalspec.curation.gold.passages import read_block_text
from evalspec.curation.gold.review_session import Outcome, ReviewSession
from evalspec.curation.gold.wording import CATEGORIES, FLAGS


def run_session(root: Path, by: str, first: str | None, corpus: Path | None, again: str) -> ExitCode:
    """Let a person review triples on a terminal. `again`: the command that continues.

    Raises:
        InvalidInput: There is no terminal, or nothing can be read.
        CommandFailed: Interrupted. All reviews are kept.
    """
    require_terminal("a review session", "without one: evalspec gold next --json, then evalspec gold review ID VERDICT")
    texts = None if corpus is None else read_texts(corpus)
    session = ReviewSession(root, by, first)
    warn_all(session.problems)
    _Terminal(session, texts).converse("every review is kept", again)
    if session.remaining:
        notify(f"{session.remaining} left; to resume: {again}")
    return ExitCode.OK


def describe_again(root: Path, by: str, corpus: Path | None) -> str:
    """Return the command that continues a session."""
    command = ["evalspec", "gold", "review", "--set", str(root), "--as", by]
    return shlex.join([*command, *(["--corpus", str(corpus)] if corpus else [])])


def compare_numbers(root: Path, entry: Entry, corpus: Mapping[str, str] | None) -> list[str]:
    """Return what the answer says in numbers and its block does not, a line each."""
    check = check_numbers(root, entry, corpus)
    return [] if check.unknown is not None else check.render()


class _Terminal(Dialog):
    """A session on a terminal. `texts`: a corpus by id."""

    def __init__(self, session: ReviewSession, texts: Mapping[str, str] | None) -> None:
        self._session, self._texts = session, texts
        self._whole = False

    def run(self) -> None:
        """Go through the triples until the person quits, or none is left."""
        if self._session.current is None:
            self.say("nothing to review")
            return
        while (entry := self._open()) is not None or self.wait_at_the_end(self._session):
            self._whole = False
            if entry is not None and not self._handle(entry):
                return

    def end(self) -> None:
        """Print what became of the last triple, and the number of reviews."""
        self._tell(self._session.settle())
        session = self._session
        if session.confirmed or session.flagged or session.skipped:
            self.say(f"{session.confirmed} confirmed, {session.flagged} flagged, {session.skipped} skipped")

    def _open(self) -> Entry | None:
        while True:
            try:
                return self._session.open()
            except InvalidInput as error:
                self.complain(error)

    def _handle(self, entry: Entry) -> bool:
        """Show a triple until the person has decided. Return whether the session continues."""
        decisions = {"c": self._confirm, "f": self._flag, "s": self._skip}
        self._show(entry)
        while (key := self.keyboard.read_key()) not in ("q", END):
            if key in decisions:
                decisions[key](entry)
                return True
            if key == "u":
                if self.undo():
                    return True
            elif key in ("b", RESIZED):
                self._whole = self._whole or key == "b"
                self._show(entry)
            elif key == "?":
                self.show(render_help(find_screen()))
            elif key not in (ENTER, ESCAPE):
                self.say("unknown key; ? shows help")
        return False

    def _show(self, entry: Entry) -> None:
        if entry.triple is None:
            return
        self.keyboard.forget()
        session = self._session
        texts = [read_block_text(session.root, block, self._texts) for block in entry.triple.blocks]
        numbers = compare_numbers(session.root, entry, self._texts)
        progress = f"{session.position} of {session.total}"
        self.show(render_triple(entry, texts, progress, find_screen(), numbers=numbers, whole=self._whole))

    def _confirm(self, entry: Entry) -> None:
        self._record(entry, f"confirmed {entry.reference}", None)

    def _skip(self, entry: Entry) -> None:
        self.say(f"skipped {entry.id}")
        self._session.skip()

    def _flag(self, entry: Entry) -> None:
        """Ask for flag, category and note, and record them. If the person goes back, the triple is shown again."""
        flag = self.choose("What is wrong?", FLAGS, "Esc: nothing, go back")
        category = ESCAPE
        if flag not in (ESCAPE, END):
            category = self.choose("What is it about?", CATEGORIES, "Enter: none; Esc: go back", may_be_none=True)
        note = None
        if category not in (ESCAPE, END):
            note = self.read_note("A note for the author (Enter: none; Ctrl-D: go back):")
        if note is None:
            self.say("nothing was recorded")
            return
        chosen = None if category == ENTER else category
        self._record(entry, f"flagged {entry.reference} as {flag}", flag, chosen, note or None)

    def _record(
        self, entry: Entry, done: str, flag: str | None, category: str | None = None, note: str | None = None
    ) -> None:
        try:
            before = self._session.record(entry, flag, category=category, note=note)
        except InvalidInput as error:
            self.complain(error)
            return
        self._tell(before)
        self.say(f"{done}; u takes it back")

    def undo(self) -> bool:
        """Take back the last review. Return whether that was possible."""
        try:
            entry = self._session.undo()
        except InvalidInput as error:
            self.complain(error)
            return False
        self.say(f"took back the review of {entry.reference}")
        return True

    def _tell(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.show(render_outcome(outcome, find_screen()))
