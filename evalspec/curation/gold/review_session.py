"""A review session: one person goes through the triples that need their review, and can take the last one back.

Progress is computed from events, so a session continues where the last one ended. What others said about a triple is
hidden until one's own review can no longer be taken back.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import Entry, EventFile, read_entry, read_set
from evalspec.curation.gold.protocol import review
from evalspec.curation.gold.reviewers import describe_missing, explain_no_review, list_reviewable
from evalspec.curation.gold.schema import Category, Event, Flag, Kind
from evalspec.curation.gold.states import State
from evalspec.curation.gold.taking_back import ask_git, take_back
from evalspec.curation.work_queue import WorkQueue

_SECONDS = 10


class Reviewed(Struct, frozen=True):
    """A review that was recorded. `path`, `content`: its event file. `entry`: the triple after the review."""

    event: Event
    path: Path
    content: bytes
    entry: Entry


class Outcome(Struct, frozen=True):
    """What became of a triple after a review. `said`: what the people in the dispute said, one line each."""

    reference: str
    state: State
    summary: str
    said: Sequence[str] = ()


class ReviewSession(WorkQueue[str, Reviewed]):
    """The triples that a person can review, one after the other. Nothing is kept but the event files of the reviews.

    `problems`: what is wrong with files of the set. `confirmed`, `flagged`: reviews of this session.
    """

    def __init__(self, root: Path, by: str, first: str | None = None) -> None:
        """`first`: the id of the triple to begin with; then the usual order.

        Raises:
            InvalidInput: There is no such triple, or the person cannot review it.
        """
        found = read_set(root)
        if found.entries and not found.has_events:
            fix = "add them to a set with events: evalspec gold add --file FILE"
            raise InvalidInput(Problem("these triples have no events, so reviews cannot be recorded", fix, show(root)))
        self.root, self.by, self.problems = root, by, found.problems
        waiting = [entry.id for entry in list_reviewable(found, by)]
        if first is not None:
            _require_reviewable(found.find(first), by)
            waiting = [first, *(name for name in waiting if name != first)]
        super().__init__(waiting, sum(by in entry.standing.current.reviews for entry in found.entries.values()))

    @property
    def current(self) -> str | None:
        """The id of the triple to review; None at the end."""
        return self._waiting[0] if self._waiting else None

    @property
    def confirmed(self) -> int:
        """The number of confirmations of this session."""
        return self._count(Kind.CONFIRM)

    @property
    def flagged(self) -> int:
        """The number of flags of this session."""
        return self._count(Kind.FLAG)

    @property
    def last(self) -> Reviewed | None:
        """The review that can be taken back."""
        return self._last

    def _count(self, kind: Kind) -> int:
        return sum(done.event.kind is kind for done in self._done)

    def open(self) -> Entry | None:
        """Return the current triple as it is now, None at the end. Triples that need no review any more are left out.

        Raises:
            InvalidInput: Its files are invalid. The triple is left out.
        """
        while self._waiting:
            try:
                entry = read_entry(self.root, self._waiting[0])
            except InvalidInput:
                self._waiting.popleft()
                raise
            if explain_no_review(entry, self.by) is None:
                return entry
            self._waiting.popleft()
        return None

    def record(
        self, shown: Entry, verdict: Flag | str | None = None, *, category: str | None = None, note: str | None = None
    ) -> Outcome | None:
        """Record a review of the current triple, and return what became of the one before. `verdict`: None to confirm.

        Raises:
            InvalidInput: The content is not the shown one any more, or the protocol does not allow the review.
        """
        name = shown.id
        if read_entry(self.root, name).content_hash != shown.content_hash:
            message = f"'{name}' was changed after it was shown, so nothing was recorded"
            raise InvalidInput(Problem(message, "read it again"))
        chosen = None if category is None else Category(category)
        entry = review(self.root, name, self.by, verdict, category=chosen, note=note)
        own = entry.standing.current.reviews[self.by]
        path = next(one.path for one in entry.events if one.event == own)
        before = self.settle()
        self._add(name, Reviewed(own, path, path.read_bytes(), entry))
        return before

    def undo(self) -> Entry:
        """Take the last review back: delete its event file. The triple is the current one again.

        Raises:
            InvalidInput: There is no such review, its file was changed or is known to git, or others relied on it.
        """
        if self._last is None:
            raise InvalidInput(Problem("there is no review of this session to take back"))
        reviewed = self._last
        file = EventFile(reviewed.event, reviewed.path)
        entry = take_back(self.root, reviewed.entry.id, file, reviewed.content, ask_git)
        self._take_back(entry.id)
        return entry

    def settle(self) -> Outcome | None:
        """Return what became of the last reviewed triple. Its review cannot be taken back any more."""
        reviewed, self._last = self._last, None
        return None if reviewed is None else describe_outcome(reviewed.entry)


def describe_outcome(entry: Entry) -> Outcome:
    """Return what became of a triple, for people who have reviewed it. For a disputed one, who should talk."""
    standing = entry.standing
    summary = ": ".join(filter(None, [standing.describe(), describe_missing(entry)]))
    said = []
    if entry.state in (State.DISPUTED, State.DROPPED):
        said = [_render_review(event) for _, event in sorted(standing.current.reviews.items())]
    return Outcome(entry.reference, entry.state, summary, said)


def _render_review(event: Event) -> str:
    if event.kind is Kind.CONFIRM:
        return f"{event.by} confirmed it"
    about = f" ({event.category})" if event.category else ""
    note = f": {event.note}" if event.note else ""
    return f"{event.by} flagged it as {event.verdict}{about}{note}"


def _require_reviewable(entry: Entry, by: str) -> None:
    why = explain_no_review(entry, by)
    if why is not None:
        raise InvalidInput(Problem(f"{by} cannot review '{entry.id}': {why}", f"see: evalspec gold log {entry.id}"))
