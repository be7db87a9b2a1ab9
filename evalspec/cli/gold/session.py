"""The interactive form of `evalspec gold review`."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from evalspec.base.errors import ExitCode
from evalspec.cli.case_session import CaseSession, require_terminal
from evalspec.cli.gold.screen import KEYS, explain_keys, render_outcome, render_triple
from evalspec.cli.keyboard import END, ENTER, ESCAPE
from evalspec.cli.options import warn_all
from evalspec.cli.screen import Screen, find_screen
from evalspec.curation.gold.blocks import read_texts
from evalspec.curation.gold.disputes import check_numbers
from evalspec.curation.gold.gold_set import TripleEntry
from evalspec.curation.gold.passages import read_block_text
from evalspec.curation.gold.review_session import ReviewOutcome, ReviewSession
from evalspec.curation.gold.wording import CATEGORIES, FLAGS


def run_session(root: Path, by: str, first: str | None, corpus: Path | None) -> ExitCode:
    """Let a person review triples on a terminal.

    Raises:
        InvalidInput: There is no terminal, or nothing can be read.
        CommandFailed: Interrupted. All reviews are kept.
    """
    require_terminal("a review session", "without one: evalspec gold next --json, then evalspec gold review ID VERDICT")
    texts = None if corpus is None else read_texts(corpus)
    session = ReviewSession(root, by, first)
    warn_all(session.found.problems)
    again = ["evalspec", "gold", "review", "--set", str(root), "--as", by]
    return _TripleSession(session, texts).run(shlex.join([*again, *(["--corpus", str(corpus)] if corpus else [])]))


class _TripleSession(CaseSession[TripleEntry]):
    """A session that reviews triples. `texts`: a corpus by id."""

    decision, whole = "the review of", KEYS["b"]

    def __init__(self, session: ReviewSession, texts: Mapping[str, str] | None) -> None:
        super().__init__(session)
        self._session, self._texts = session, texts

    def name(self, case: TripleEntry) -> str:
        """Return id and revision."""
        return case.reference

    def list_keys(self, _case: TripleEntry) -> Mapping[str, str]:
        """Return the keys with their meanings."""
        return KEYS

    def render(self, case: TripleEntry, progress: str, screen: Screen, *, whole: bool) -> str:
        """Return a triple with the texts of its blocks, and the numbers that these do not say."""
        root, blocks = self._session.root, case.triple.blocks if case.triple else ()
        texts = [read_block_text(root, block, self._texts) for block in blocks]
        check = check_numbers(root, case, self._texts)
        numbers = [] if check.unknown is not None else check.render()
        return render_triple(case, texts, progress, screen, numbers=numbers, whole=whole)

    def explain(self, _case: TripleEntry) -> str:
        """Return what confirmations and flags mean."""
        return explain_keys()

    def answer(self, case: TripleEntry, meaning: str) -> bool:
        """Confirm a triple or flag it. If the person goes back, it is shown again."""
        if meaning == KEYS["c"]:
            self._record(case, f"confirmed {case.reference}", None)
        else:
            self._flag(case)
        return True

    def finish(self) -> None:
        """Print what became of the last triple."""
        self._report(self._session.settle())

    def _flag(self, entry: TripleEntry) -> None:
        """Ask for flag, category and note, and record them."""
        flag = self.choose("What is wrong?", FLAGS, "Esc: nothing, go back")
        category = ESCAPE
        if flag not in (ESCAPE, END):
            category = self.choose("What is it about?", CATEGORIES, "Enter: none; Esc: go back", may_be_none=True)
        note = None
        if category not in (ESCAPE, END):
            note = self.read_text("A note for the author (Enter: none; Ctrl-D: go back):")
        if note is None:
            self.say("nothing was recorded")
            return
        chosen = None if category == ENTER else category
        self._record(entry, f"flagged {entry.reference} as {flag}", flag, chosen, note or None)

    def _record(
        self, entry: TripleEntry, done: str, flag: str | None, category: str | None = None, note: str | None = None
    ) -> None:
        self._report(self._session.record(entry, flag, category=category, note=note))
        self.say(f"{done}; u takes it back")

    def _report(self, outcome: ReviewOutcome | None) -> None:
        if outcome is not None:
            self.show(render_outcome(outcome, find_screen()))
