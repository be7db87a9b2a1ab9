"""Who may review a triple, who sees what others said, and what a triple needs next."""

from evalspec.base.plural import counted
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.layout import SET_FILE
from evalspec.curation.gold.schema import DisputeOutcome, Kind
from evalspec.curation.gold.states import CONFIRMATIONS, State

OPEN = frozenset({State.PENDING, State.DISPUTED})
"""The states in which reviews are wanted."""
TO_REVIEW = "to review"
"""What people see in place of the state of a triple that they should review."""
SHOWN_STATES = (TO_REVIEW, *map(str, State))


def explain_no_review(entry: TripleEntry, by: str) -> str | None:
    """Return why a person cannot review a triple now, None if they can."""
    current = entry.review_status.current
    if by in current.writers:
        return "nobody reviews their own triple"
    if by in current.reviews:  # before the state, which says what others said
        return f"{by} has reviewed it"
    if entry.state not in OPEN:
        return f"the triple is {entry.state}"
    if not entry.review_status.revision:
        return "the content was edited by hand, so it has no revision to review"
    if by in current.list_people(Kind.ADJUDICATE):
        return f"{by} adjudicated it"
    return None


def explain_unresolvable(entry: TripleEntry, by: str) -> str | None:
    """Return why a person cannot settle a dispute now, None if they can: as writer, flagger, or a third person."""
    current = entry.review_status.current
    if entry.state is not State.DISPUTED:
        return f"the triple is {entry.state}"
    if by in current.writers | current.flaggers:
        return None
    if by in current.reviews:
        return "only the author and the flagger settle it, or a third person who has not reviewed it"
    return "a third person adjudicates only after two reviews" if is_blind(entry, by) else None


def wants_reviews(entry: TripleEntry) -> bool:
    """Return whether a triple has fewer reviews than it needs, so that those it has are hidden from reviewers."""
    return entry.state in OPEN and len(entry.review_status.current.reviews) < CONFIRMATIONS


def is_blind(entry: TripleEntry, person: str | None) -> bool:
    """Return whether a person may not see the reviews of others, because their own is still wanted."""
    return person is not None and wants_reviews(entry) and explain_no_review(entry, person) is None


def list_assigned(entry: TripleEntry) -> set[str]:
    """Return the people who were asked to review the current revision of a triple."""
    return {event.to for event in entry.review_status.current.events if event.to is not None}


def list_reviewable(found: GoldSet, by: str) -> list[TripleEntry]:
    """Return the triples that a person can review: assigned ones first, then those with the fewest missing reviews."""

    def rank(entry: TripleEntry) -> tuple[bool, int, str]:
        return by not in list_assigned(entry), -len(entry.review_status.current.reviews), entry.id

    open_entries = (entry for entry in found.entries.values() if explain_no_review(entry, by) is None)
    wanted = [entry for entry in open_entries if len(entry.review_status.current.reviews) < CONFIRMATIONS]
    return sorted(wanted, key=rank)


def describe_missing(entry: TripleEntry) -> str:
    """Return what a triple needs next, in words."""
    current = entry.review_status.current
    if entry.state is State.PENDING and not entry.review_status.revision:
        return "record the edited content as a revision"
    if entry.state is State.PENDING:
        missing = CONFIRMATIONS - len(current.in_favour)
        return f"{counted(missing, 'more confirmation')}{_describe_dead_end(entry)}"
    if entry.state is State.STALE:
        return "its block changed: gold pin if the answer is still right, or gold revise, carry or retire"
    if entry.state is State.DISPUTED:
        writers, flaggers = sorted(current.writers), " and ".join(sorted(current.open_flags))
        upheld = " and ".join(sorted(current.list_people(Kind.RESOLVE, DisputeOutcome.UPHELD)))
        done = f"; {upheld} upheld it" if upheld else ""
        if len(writers) == 1:
            return f"to be settled by {writers[0]} and {flaggers}{done}"
        return f"to be settled by {flaggers} and either {' or '.join(writers)}{done}"
    return ""


def is_dead_end(entry: TripleEntry) -> bool:
    """Return whether a pending triple needs more reviews than there are people who may review it."""
    current, candidates = entry.review_status.current, entry.review_status.candidates
    if entry.state is not State.PENDING or candidates is None:
        return False
    return CONFIRMATIONS - len(current.in_favour) > len(candidates)


def _describe_dead_end(entry: TripleEntry) -> str:
    if not is_dead_end(entry):
        return ""
    able = " and ".join(sorted(entry.review_status.candidates or ()))
    who = f"only {able} can give one" if able else "nobody can give one"
    return f", but {who}: add people to {SET_FILE}"
