"""What somebody may see of the reviews of a gold set. Reviews are blind until one's own cannot be taken back."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.retraction import find_last_reviews
from evalspec.curation.gold.reviewers import SHOWN_STATES, TO_REVIEW, is_blind, wants_reviews
from evalspec.curation.gold.schema import Event
from evalspec.curation.gold.states import REVIEWING, SETTLING, compute_review_status

REVIEWED = "reviewed by you"
"""What a person sees in place of a triple's state while their review of it can be taken back."""
SEEN_STATES = (*SHOWN_STATES, REVIEWED)

_SAID = REVIEWING | SETTLING


class Viewer(Struct, frozen=True):
    """Who looks at a set. `person`: which of its people; None: somebody else, who sees everything.

    `withheld`: the triples whose review the person can take back. `is_public`: for readers whom nobody knows, such as
    those of a report; any of them may still have to review.
    """

    person: str | None = None
    withheld: frozenset[str] = frozenset()
    is_public: bool = False

    def is_blind(self, entry: TripleEntry) -> bool:
        """Return whether the reviews of others are hidden."""
        if self.is_public:
            return wants_reviews(entry)
        return entry.id in self.withheld or is_blind(entry, self.person)

    def show_state(self, entry: TripleEntry) -> str:
        """Return the state of a triple, as it may be seen."""
        if entry.id in self.withheld:
            return REVIEWED
        return TO_REVIEW if self.is_blind(entry) else str(entry.state)

    def hides(self, event: Event, entry: TripleEntry) -> bool:
        """Return whether an event is hidden: a review by somebody else, or what it led to."""
        is_current = event.kind in _SAID and event.revision == entry.review_status.revision
        return is_current and event.by != self.person and self.is_blind(entry)

    def count_states(self, found: GoldSet) -> Mapping[str, int]:
        """Return the number of triples in each state, as it may be seen."""
        states = Counter(self.show_state(entry) for entry in found.entries.values())
        return {state: states[state] for state in SEEN_STATES if states[state]}

    def hide_reviews(self, found: GoldSet) -> GoldSet:
        """Return a set as if the hidden events did not exist."""
        return replace(found, entries={id: self._hide(entry, found) for id, entry in found.entries.items()})

    def count_hidden(self, found: GoldSet) -> int:
        """Return the number of triples that have hidden events."""
        return sum(any(self.hides(one.event, entry) for one in entry.events) for entry in found.entries.values())

    def _hide(self, entry: TripleEntry, found: GoldSet) -> TripleEntry:
        events = [one for one in entry.events if not self.hides(one.event, entry)]
        if len(events) == len(entry.events):
            return entry
        review_status = compute_review_status([one.event for one in events], entry.content_hash, found.config.people)
        return replace(entry, events=events, review_status=review_status)


EVERYTHING = Viewer()
PUBLIC = Viewer(is_public=True)


def find_viewer(found: GoldSet, person: str | None) -> Viewer:
    """Return what a person may see of a set now. None: somebody who is not one of its people."""
    if person is None:
        return EVERYTHING
    return Viewer(person, frozenset(one.entry.id for one in find_last_reviews(found, person) if one.is_open))
