"""A review session: one person goes through the triples that need their review, and can take the last one back.

What others said about a triple is hidden until one's own review can no longer be taken back.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.case_queue import CaseQueue
from evalspec.curation.gold.gold_set import EventFile, TripleEntry, read_entry, read_set
from evalspec.curation.gold.protocol import require_events, review
from evalspec.curation.gold.retraction import ask_git, retract
from evalspec.curation.gold.reviewers import describe_missing, explain_no_review, list_reviewable
from evalspec.curation.gold.schema import Category, Event, Flag, Kind
from evalspec.curation.gold.states import State


class Reviewed(Struct, frozen=True):
    """A review that was recorded. `path`, `content`: its event file. `entry`: the triple after the review."""

    event: Event
    path: Path
    content: bytes
    entry: TripleEntry


class ReviewOutcome(Struct, frozen=True):
    """What became of a triple after a review. `said`: what the people in the dispute said, one line each."""

    reference: str
    state: State
    summary: str
    said: Sequence[str] = ()


class ReviewSession(CaseQueue[str, TripleEntry, Reviewed]):
    """The triples that a person can review, one after the other. `found`: the set as it was when the session began."""

    noun, past = "review", "reviewed"

    def __init__(self, root: Path, by: str, first: str | None = None, texts: Mapping[str, str] | None = None) -> None:
        """`first`: the id of the triple to begin with; then the usual order. `texts`: a corpus by id, which is shown.

        Raises:
            InvalidInput: There is no such triple, the person cannot review it, or the set has no events.
        """
        require_events(root)
        self.root, self.by, self.found, self.texts = root, by, read_set(root), texts
        waiting = [entry.id for entry in list_reviewable(self.found, by)]
        if first is not None:
            _require_reviewable(self.found.find(first), by)
            waiting = [first, *(name for name in waiting if name != first)]
        reviewed = sum(by in entry.review_status.current.reviews for entry in self.found.entries.values())
        super().__init__(waiting, earlier=reviewed)

    def count_decisions(self) -> Mapping[str, int]:
        """Return the number of confirmations and flags of this session."""
        kinds = [done.event.kind for _, done in self._done]
        return {"confirmed": kinds.count(Kind.CONFIRM), "flagged": kinds.count(Kind.FLAG)}

    def _read(self, key: str) -> TripleEntry | None:
        entry = read_entry(self.root, key)
        return entry if explain_no_review(entry, self.by) is None else None

    def record(
        self,
        shown: TripleEntry,
        verdict: Flag | str | None = None,
        *,
        category: str | None = None,
        note: str | None = None,
    ) -> ReviewOutcome | None:
        """Record a review of the current triple, and return what became of the one before. `verdict`: None to confirm.

        Raises:
            InvalidInput: The content is not the shown one any more, or the protocol does not allow the review.
        """
        name = shown.id
        if read_entry(self.root, name).content_hash != shown.content_hash:
            message = f"'{name}' was changed after it was shown, so nothing was recorded"
            raise InvalidInput(Problem(message, "read it again"))
        chosen = None if category is None else Category(category)
        entry = review(self.root, name, self.by, verdict, category=chosen, note=note, corpus=self.texts)
        own = entry.review_status.current.reviews[self.by]
        path = next(one.path for one in entry.events if one.event == own)
        before = self.settle()
        self._add(name, Reviewed(own, path, path.read_bytes(), entry))
        return before

    def settle(self) -> ReviewOutcome | None:
        """Return what became of the last reviewed triple. Its review cannot be taken back any more."""
        reviewed, self._last = self._last, None
        return None if reviewed is None else describe_outcome(reviewed.entry)

    def _withdraw(self, done: Reviewed) -> TripleEntry:
        return retract(self.root, done.entry.id, EventFile(done.event, done.path), done.content, ask_git)


def describe_outcome(entry: TripleEntry) -> ReviewOutcome:
    """Return what became of a triple, for people who have reviewed it. For a disputed one, who should talk."""
    review_status = entry.review_status
    summary = ": ".join(filter(None, [review_status.describe(), describe_missing(entry)]))
    said = []
    if entry.state in (State.DISPUTED, State.DROPPED):
        said = [_render_review(event) for _, event in sorted(review_status.current.reviews.items())]
    return ReviewOutcome(entry.reference, entry.state, summary, said)


def _render_review(event: Event) -> str:
    if event.kind is Kind.CONFIRM:
        return f"{event.by} confirmed it"
    about = f" ({event.category})" if event.category else ""
    note = f": {event.note}" if event.note else ""
    return f"{event.by} flagged it as {event.verdict}{about}{note}"


def _require_reviewable(entry: TripleEntry, by: str) -> None:
    why = explain_no_review(entry, by)
    if why is not None:
        raise InvalidInput(Problem(f"{by} cannot review '{entry.id}': {why}", f"see: evalspec gold log {entry.id}"))
