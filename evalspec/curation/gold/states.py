"""The state of a triple, computed from its events. docs/reference/gold-reference.md draws the states.

The state depends on which events a revision has, not on their order or their clocks. So reviews on two git branches
merge in either order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from evalspec.curation.gold.schema import DisputeOutcome, Event, Kind

CONFIRMATIONS = 2
"""Number of people besides the author who have to agree with a triple."""

ACCEPTING = frozenset({"consensus", "upheld", "adjudicated", "revised"})
"""Resolutions that accept a triple without events."""

AUTHORING = frozenset({Kind.ADD, Kind.REVISE})
REVIEWING = frozenset({Kind.CONFIRM, Kind.FLAG})
SETTLING = frozenset({Kind.RESOLVE, Kind.ADJUDICATE})


class State(StrEnum):
    """Whether a triple belongs to the set (`accepted`), and if not, why."""

    PENDING = "pending"
    DISPUTED = "disputed"
    ACCEPTED = "accepted"
    STALE = "stale"
    RETIRED = "retired"
    DROPPED = "dropped"
    REVOKED = "revoked"


class Fault(Struct, frozen=True):
    """An event that does not count, and why."""

    event: Event
    reason: str


class Revision(Struct, frozen=True, dict=True):
    """The events of one revision that count, in any order. `writers`: who wrote its text, up to this revision."""

    writers: frozenset[str] = frozenset()
    events: Sequence[Event] = ()

    def has(self, kind: Kind, verdict: DisputeOutcome | None = None) -> bool:
        """Return whether there is an event of a kind, with a verdict if one is given."""
        return any(event.kind is kind and verdict in (None, event.verdict) for event in self.events)

    def list_people(self, kind: Kind, verdict: DisputeOutcome | None = None) -> set[str]:
        """Return who did that."""
        return {event.by for event in self.events if event.kind is kind and verdict in (None, event.verdict)}

    @cached_property
    def reviews(self) -> Mapping[str, Event]:
        """The reviews by person. If somebody confirmed and flagged, the flag counts."""
        found = sorted((event for event in self.events if event.kind in REVIEWING), key=lambda event: event.kind)
        return {event.by: event for event in found}

    def list_flags(self) -> dict[str, list[Any]]:
        """Return the flags by person."""
        found: dict[str, set[Any]] = {}
        for event in self.events:
            if event.kind is Kind.FLAG:
                found.setdefault(event.by, set()).add(event.verdict)
        return {name: sorted(flags) for name, flags in sorted(found.items())}

    @cached_property
    def flaggers(self) -> set[str]:
        """The people whose review is a flag."""
        return {name for name, review in self.reviews.items() if review.kind is Kind.FLAG}

    @cached_property
    def settled(self) -> set[str]:
        """The flaggers all of whose flags are settled: they agreed with a writer to uphold, or a third person did.

        Each event names the flags that it is about, so that one from another branch stays open.
        """
        flags = {(event.by, event.verdict) for event in self.events if event.kind is Kind.FLAG}
        still_open = flags - self._list_upheld(Kind.ADJUDICATE, lambda *_: True)
        agreed = self._list_upheld(Kind.RESOLVE, lambda by, flagger: by == flagger)
        still_open -= agreed & self._list_upheld(Kind.RESOLVE, lambda by, _: by in self.writers)
        return self.flaggers - {name for name, _ in still_open}

    def _list_upheld(self, kind: Kind, counts: Callable[[str, str], bool]) -> set[tuple[str, Any]]:
        """Return the flags, as (person, flag), that events of a kind uphold the triple against."""
        return {
            (flagger, flag)
            for event in self.events
            if event.kind is kind and event.settles
            for flagger, flags in event.settles.items()
            if counts(event.by, flagger)
            for flag in flags
        }

    @cached_property
    def open_flags(self) -> set[str]:
        """The flaggers whose flag is not settled."""
        return self.flaggers - self.settled

    @cached_property
    def in_favour(self) -> set[str]:
        """The people besides the writers who agree with the triple."""
        agreeing = self.settled & self.list_people(Kind.RESOLVE, DisputeOutcome.UPHELD)
        return (
            (self.reviews.keys() - self.flaggers) | agreeing | self.list_people(Kind.ADJUDICATE, DisputeOutcome.UPHELD)
        )

    def decide(self) -> tuple[State, str | None]:
        """Return the state, and how it was reached if it is final."""
        return next((state, how) for state, how, applies in _RULES if applies(self))


_RULES: Sequence[tuple[State, str | None, Callable[[Revision], bool]]] = (
    (State.DROPPED, "adjudicated", lambda it: it.has(Kind.ADJUDICATE, DisputeOutcome.DROPPED)),
    (State.DROPPED, "split", lambda it: it.has(Kind.RESOLVE, DisputeOutcome.SPLIT)),
    (State.DROPPED, "dropped", lambda it: it.has(Kind.RESOLVE, DisputeOutcome.DROPPED)),
    (State.DROPPED, "two flags", lambda it: len(it.open_flags) > 1),
    (State.RETIRED, "retired", lambda it: it.has(Kind.RETIRE)),
    (State.STALE, None, lambda it: it.has(Kind.STALE)),
    (State.DISPUTED, None, lambda it: bool(it.open_flags)),
    (State.PENDING, None, lambda it: len(it.in_favour) < CONFIRMATIONS),
    (State.ACCEPTED, "adjudicated", lambda it: it.has(Kind.ADJUDICATE)),
    (State.ACCEPTED, "upheld", lambda it: bool(it.settled)),
    (State.ACCEPTED, "consensus", lambda _: True),
)
"""The first rule that applies decides. Endings come first, so that an ending on one branch outweighs a review on
another."""


_ENDINGS = frozenset(
    {
        (Kind.RETIRE, None),
        (Kind.RESOLVE, DisputeOutcome.DROPPED),
        (Kind.RESOLVE, DisputeOutcome.SPLIT),
        (Kind.ADJUDICATE, DisputeOutcome.DROPPED),
    }
)
"""The events by which a person ends a triple, in whichever revision."""


class ReviewStatus(Struct, frozen=True):
    """What the events say about a triple.

    `revision`: of the content; 0 if the content is of no revision. `author`: who added the triple. `resolution`: how an
    accepted or dropped triple came to be that, or why a triple is revoked. `current`: the events of the revision that
    count. `candidates`: the people who may still review it, None if that is unknown. `faults`: events that do not
    count.
    """

    state: State
    revision: int = 0
    author: str | None = None
    resolution: str | None = None
    current: Revision = field(default_factory=Revision)
    candidates: frozenset[str] | None = None
    faults: Sequence[Fault] = ()

    def describe(self) -> str:
        """Return the state, and how it was reached if that says more: `accepted (consensus)`, but `dropped`."""
        return str(self.state) if self.resolution in (None, self.state) else f"{self.state} ({self.resolution})"

    @property
    def reviewed_by(self) -> list[str]:
        """The reviewers of this revision, sorted."""
        return sorted(self.current.reviews)


def compute_review_status(events: Sequence[Event], content_hash: str, people: Collection[str]) -> ReviewStatus:
    """Return the review status of a triple. `events`: of all revisions, in any order. `people`: of set.yaml.

    Only events of the latest revision count, and only if they are about this content. Content of no revision has been
    reviewed by nobody, so it is pending. A revocation counts whatever the content is.
    """
    revoked = [event.revision for event in events if event.kind is Kind.REVOKE]
    if revoked:
        return ReviewStatus(State.REVOKED, max(revoked), resolution="revoked")
    written = [event for event in events if event.kind in AUTHORING]
    latest = max((event.revision for event in written), default=0)
    author = _find_author(written, content_hash)
    own = [event for event in written if _makes(event, latest, content_hash)]
    strangers = [
        Fault(event, f"'{event.by}' is not one of the people in set.yaml") for event in events if event.by not in people
    ]
    if not own:
        current = Revision(find_writers(written, latest + 1, content_hash))
        return ReviewStatus(State.PENDING, author=author, current=current, faults=strangers)
    writers = find_writers(written, latest, content_hash)
    asked = [event for event in events if event.revision == latest and event.kind not in AUTHORING]
    early = [Fault(event, f"there is no revision {event.revision}") for event in events if event.revision > latest]
    faults = [*strangers, *early, *_find_faults(asked, content_hash, writers)]
    excluded = {id(fault.event) for fault in faults}
    current = Revision(writers, [event for event in asked if id(event) not in excluded])
    state, resolution = _find_ending(events, written, latest, people) or current.decide()
    candidates = frozenset(people) - writers - current.reviews.keys()
    return ReviewStatus(state, latest, author, resolution, current, candidates, faults)


def _find_author(written: Sequence[Event], content_hash: str) -> str | None:
    """Return who added a triple. If two branches added one of this id, its content decides, not their clocks."""
    added = [event for event in written if event.kind is Kind.ADD]
    return min(added, key=lambda event: (event.content_hash != content_hash, event.by)).by if added else None


def _find_ending(
    events: Sequence[Event], written: Sequence[Event], latest: int, people: Collection[str]
) -> tuple[State, str | None] | None:
    """Return the end that somebody gave a triple before another branch revised it: it still counts."""
    ends = [event for event in events if event.revision < latest and (event.kind, event.verdict) in _ENDINGS]
    for number, content_hash in sorted({(event.revision, event.content_hash) for event in ends}):
        if any(_makes(event, number, content_hash) for event in written):
            writers = find_writers(written, number, content_hash)
            asked = [event for event in events if event.revision == number and event.kind not in AUTHORING]
            faults = {id(fault.event) for fault in _find_faults(asked, content_hash, writers)}
            counting = [event for event in asked if id(event) not in faults and event.by in people]
            ended = Revision(writers, [event for event in counting if (event.kind, event.verdict) in _ENDINGS])
            if ended.events:
                return ended.decide()
    return None


def find_writers(written: Iterable[Event], number: int, content_hash: str) -> frozenset[str]:
    """Return who wrote the text of a revision: its author, and everyone who revised it up to then.

    A text that was replaced may still be there in part, so its writer stays one. If two branches made the revision,
    those count whose content it has. Nobody wrote a computed revision, unless nothing else says who wrote the text.
    Who added a text that others had written before is a writer as well as they.
    """
    until = [event for event in written if event.revision < number or _makes(event, number, content_hash)]
    return _name_writers(event for event in until if not event.is_computed) or _name_writers(until)


def _name_writers(events: Iterable[Event]) -> frozenset[str]:
    return frozenset(name for event in events for name in (event.by, *(event.authors or ())))


def _makes(event: Event, number: int, content_hash: str) -> bool:
    return event.revision == number and event.content_hash == content_hash


def _find_faults(events: Sequence[Event], content_hash: str, writers: frozenset[str]) -> Iterator[Fault]:
    """Yield the events of one revision that break a rule of the protocol."""
    reviewers = {event.by for event in events if event.kind in REVIEWING}
    flaggers = {event.by for event in events if event.kind is Kind.FLAG}
    for event in events:
        if event.content_hash != content_hash:
            yield Fault(event, "its content_hash is not that of the revision")
        elif event.kind in REVIEWING and event.by in writers:
            yield Fault(event, "nobody reviews their own triple")
        elif event.kind in SETTLING and not flaggers:
            yield Fault(event, "nobody flagged this revision, so there is no dispute")
        elif event.kind is Kind.RESOLVE and event.by not in writers | flaggers:
            yield Fault(event, "only the author and the flagger settle a dispute; a third person adjudicates")
        elif event.kind is Kind.ADJUDICATE and event.by in writers | reviewers:
            yield Fault(event, "only a third person adjudicates, who neither wrote nor reviewed the triple")
