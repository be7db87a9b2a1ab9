"""The blind reviews of a gold set, and every revision with its events, as agreement and quality count them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from msgspec import Struct

from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.schema import Event, Kind
from evalspec.curation.gold.states import AUTHORING, REVIEWING, Revision, find_writers

CONFIRMED, FLAGGED = "confirm", "flag"
VERDICTS = (CONFIRMED, FLAGGED)
"""The categories of agreement. What a flag says is wrong does not matter here."""


class RatedRevision(Struct, frozen=True, dict=True):
    """One revision of a triple with its events that count. `by`: who wrote it last. `written_at`: when it was made."""

    triple: str
    number: int
    by: str
    written_at: str
    content: Revision

    @cached_property
    def blind(self) -> Mapping[str, Event]:
        """The reviews, by person, whose author could not see the others."""
        return {who: review for who, review in self.content.reviews.items() if _explain_seen(review) is None}

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """The blind reviews by person, as one of `VERDICTS`."""
        return {who: FLAGGED if one.kind is Kind.FLAG else CONFIRMED for who, one in self.blind.items()}


def list_revisions(found: GoldSet) -> list[RatedRevision]:
    """Return all revisions of all triples of a set, by id and number, also those of triples that have ended."""
    return [one for entry in found.entries.values() for one in _list_revisions(entry, found.config.people)]


def count_left_out(revisions: Sequence[RatedRevision]) -> dict[str, int]:
    """Return the number of reviews that are not blind, by reason."""
    reviews = (review for one in revisions for review in one.content.reviews.values())
    return dict(Counter(why for review in reviews if (why := _explain_seen(review)) is not None))


def parse_time(at: str) -> datetime | None:
    """Return the time of an event in UTC, None if there is no such time. Without a zone, it is taken as UTC."""
    try:
        time = datetime.fromisoformat(at)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _explain_seen(review: Event) -> str | None:
    if review.is_imported:
        return "imported"
    return "written after other reviews could be seen" if review.is_informed else None


def _list_revisions(entry: TripleEntry, people: Collection[str]) -> Iterator[RatedRevision]:
    by_number: dict[int, list[Event]] = {}
    for one in entry.events:
        by_number.setdefault(one.event.revision, []).append(one.event)
    authoring = [one.event for one in entry.events if one.event.kind in AUTHORING]
    for number, events in sorted(by_number.items()):
        written = next((event for event in events if event.kind in AUTHORING), None)
        if written is not None:
            writers = find_writers(authoring, number, written.content_hash)
            last = next((one for one in reversed(authoring) if one.revision <= number and not one.is_computed), written)
            counting = [event for event in events if _counts(event, written, writers, people)]
            author = last.authors[0] if last.authors else last.by
            yield RatedRevision(entry.id, number, author, written.at, Revision(writers, counting))


def _counts(event: Event, written: Event, writers: Collection[str], people: Collection[str]) -> bool:
    """Return whether an event is about this content, by a known person, and no review of the person's own triple."""
    if event.kind in AUTHORING or event.content_hash != written.content_hash or event.by not in people:
        return False
    return event.kind not in REVIEWING or event.by not in writers
