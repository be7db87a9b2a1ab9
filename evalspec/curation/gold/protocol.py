"""What people do with the triples of a gold set: add, revise, review, settle disputes, retire.

Each action adds one event file. Nothing is ever overwritten but the content of a triple, by a new revision.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.blocks import make_pin
from evalspec.curation.gold.disputes import refuse_upheld
from evalspec.curation.gold.event_files import make_event, write_event
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import TripleEntry, hash_content, read_config, read_entry
from evalspec.curation.gold.granting import admit, redact_note
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.layout import EVENTS, SET_FILE, TRIPLES
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.reviewers import OPEN, explain_no_review, is_blind
from evalspec.curation.gold.schema import (
    Category,
    DisputeOutcome,
    Event,
    Flag,
    GoldTriple,
    Kind,
    TripleMetadata,
    TripleSource,
)
from evalspec.curation.gold.states import AUTHORING, CONFIRMATIONS, ReviewStatus, State, compute_review_status
from evalspec.curation.gold.triple_files import has_triple, replace_triple
from evalspec.curation.gold.values import render_now, require_name

_LIVING = OPEN | {State.ACCEPTED, State.STALE}
_POSSIBLE: Mapping[Kind, Collection[State]] = {
    Kind.REVISE: _LIVING,
    Kind.ASSIGN: OPEN,
    Kind.CONFIRM: OPEN,
    Kind.FLAG: OPEN | {State.ACCEPTED},
    Kind.RESOLVE: {State.DISPUTED},
    Kind.ADJUDICATE: {State.DISPUTED},
    Kind.STALE: OPEN | {State.ACCEPTED},
    Kind.RETIRE: _LIVING,
    Kind.REVOKE: set(State) - {State.REVOKED},
}
"""By kind of event, the states in which a triple can have one."""
_DECIDED_BY_REVIEWS = OPEN | {State.ACCEPTED, State.DROPPED}


def add_triple(
    root: Path, name: str, triple: GoldTriple, by: str, at: str | None = None, *, authors: Sequence[str] = ()
) -> TripleEntry:
    """Add a triple to the set. It is pending until two other people confirm it.

    The terms of a customer's grant are redacted. `at`: when it was added, as ISO 8601; by default `added_at` of the
    triple, or now. `authors`: who
    wrote it before. Those of the set, and `added_by` of the triple, cannot confirm it either.

    Raises:
        InvalidInput: The id is taken or invalid, the person is unknown, a synthetic triple names an author who is not
            one of the people, or the customer has not granted permission.
    """
    config = read_config(root)
    require_person(config, by)
    author = triple.metadata.added_by
    if triple.metadata.source is TripleSource.SYNTHETIC and author is not None and author not in config.people:
        message = f"'{author}' is not one of the people in set.yaml, and a synthetic triple needs a human author"
        raise InvalidInput(Problem(message, "name who wrote it; a model goes into `generated_by`", field="added_by"))
    require_events(root)
    with hold(root):
        triple = admit(root, triple, name)
        refuse_taken(root, name, triple, by)
        others = [one for one in dict.fromkeys((*authors, author)) if one in config.people and one != by]
        head = {"kind": Kind.ADD, "revision": 1, "by": by, "at": at, "authors": others or None}
        return _write(root, root / TRIPLES / f"{name}.yaml", _sign(triple, by, at), head, name)


def find_added(root: Path, name: str, triple: GoldTriple, by: str) -> TripleEntry | None:
    """Return the entry of a triple that a person has added already with the same content, None if there is none."""
    if not has_triple(root / TRIPLES / f"{name}.yaml", name):
        return None
    entry, wanted = read_entry(root, name), hash_content(_sign(triple, by))
    added = any(one.event.kind is Kind.ADD and one.event.content_hash == wanted for one in entry.events)
    return entry if added else None


def _sign(triple: GoldTriple, by: str, at: str | None = None) -> GoldTriple:
    metadata = triple.metadata.model_copy(
        update={"added_by": by, "added_at": at or triple.metadata.added_at or render_now()}
    )
    return triple.model_copy(update={"metadata": metadata, "id": None})


def revise_triple(
    root: Path,
    name: str,
    triple: GoldTriple,
    by: str,
    *,
    replaces: str | None = None,
    note: str | None = None,
    at: str | None = None,
    is_computed: bool = False,
) -> TripleEntry:
    """Replace the content of a triple by a new revision, whose reviews start again.

    The author or the flagger of a disputed triple settles the dispute so. The terms of a customer's grant are redacted.

    `replaces`: the content hash of the revision that was edited, if the caller knows it. `is_computed`: by a command
    that moves pins, so that the person has written nothing.

    Raises:
        InvalidInput: The triple has ended or has another revision by now, the content is the same, the person is
            unknown, too few people could review it, or it would leave its customer or has not their permission.
    """
    config = read_config(root)
    require_person(config, by)
    require_events(root)
    with hold(root):
        triple, note = admit(root, triple, name), redact_note(root, note)
        entry = read_entry(root, name)
        recorded = _find_recorded(entry, config.people)
        for one in (entry, recorded):
            _refuse_state(one, Kind.REVISE)
        if replaces not in (None, entry.content_hash):
            message = "somebody has revised the triple meanwhile"
            raise InvalidInput(Problem(message, "look at the new revision, then revise that", show(entry.path)))
        _refuse_other_customer(entry, triple)
        if not is_computed:
            refuse_dead_end(entry, by, config.people, "revision")
        changed = _keep_authorship(entry, triple)
        if entry.review_status.revision and hash_content(changed) == entry.content_hash:
            message = "question, blocks and answer are unchanged, so there is nothing to review"
            raise InvalidInput(Problem(message, "edit other metadata in the file itself", show(entry.path)))
        latest = max((one.event.revision for one in entry.events), default=0)
        if recorded.state is State.DISPUTED:
            record(root, recorded, Kind.RESOLVE, by, verdict=DisputeOutcome.REVISED, note=note, at=at)
        head = {"kind": Kind.REVISE, "revision": latest + 1, "by": by, "at": at, "note": note}
        return _write(root, entry.path, changed, {**head, "is_computed": is_computed or None}, name)


def _find_recorded(entry: TripleEntry, people: Collection[str]) -> TripleEntry:
    """Return an entry as it was before its file was edited by hand, which settles no dispute and revives nothing."""
    written = [one.event for one in entry.events if one.event.kind in AUTHORING]
    if entry.review_status.revision or not written:
        return entry
    before = max(written, key=lambda event: event.revision).content_hash
    review_status = compute_review_status([one.event for one in entry.events], before, people)
    return replace(entry, review_status=review_status, content_hash=before)


def _keep_authorship(entry: TripleEntry, triple: GoldTriple) -> GoldTriple:
    before = TripleMetadata() if entry.triple is None else entry.triple.metadata
    kept = {"added_by": before.added_by, "added_at": before.added_at}
    return triple.model_copy(update={"metadata": triple.metadata.model_copy(update=kept), "id": None})


def _refuse_other_customer(entry: TripleEntry, triple: GoldTriple) -> None:
    others = entry.customers - {triple.metadata.customer}
    if others:
        message = f"the triple is a question of {' and '.join(sorted(others))}, and stays so in every revision"
        fix = f"keep `customer`, or add another triple: evalspec gold retire {entry.id}"
        raise InvalidInput(Problem(message, fix, show(entry.path), field="metadata.customer"))


def refuse_dead_end(entry: TripleEntry, by: str, people: Collection[str], what: str) -> None:
    """Refuse a revision or split that too few people could review, if a writer of the triple could make it.

    Raises:
        InvalidInput: Another writer would leave too few people besides those who have written it.
    """
    writers = entry.review_status.current.writers
    left = set(people) - writers
    if not writers & set(people) or by in writers or len(left) < CONFIRMATIONS or len(left - {by}) >= CONFIRMATIONS:
        return
    able = ", ".join(sorted(left - {by})) or "nobody"
    message = f"only {able} could review a {what} by {by}, and {CONFIRMATIONS} people have to"
    fix = f"let {' or '.join(sorted(writers & set(people)))} make it, or add a person to {SET_FILE}"
    raise InvalidInput(Problem(message, fix, show(entry.path)))


def _write(root: Path, path: Path, triple: GoldTriple, head: Mapping[str, Any], name: str) -> TripleEntry:
    """Write a content and its event. The event comes last: if it is missing, repeating the command records it."""
    replace_triple(path, name, triple)
    known = {"content_hash": hash_content(triple), "customer": triple.metadata.customer}
    write_event(root, name, make_event({**head, **known, "at": head["at"] or render_now()}))
    return read_entry(root, name)


def review(
    root: Path,
    name: str,
    by: str,
    verdict: Flag | str | None = None,
    *,
    category: Category | str | None = None,
    note: str | None = None,
    at: str | None = None,
    corpus: Mapping[str, str] | None = None,
) -> TripleEntry:
    """Confirm a triple, or flag it with what is wrong. A flag also takes back a confirmation of the same person.

    `verdict`: None to confirm. `category`: what a flag is about, which decides the rule of the dispute. `corpus`: the
    texts that the person saw by block; a pin to the same texts keeps the review.

    Raises:
        InvalidInput: The person wrote the triple or has reviewed it, or the triple is not open for reviews.
    """
    entry = read_entry(root, name)
    reviews = entry.review_status.current.reviews
    is_repeated = by in reviews and (verdict is None or reviews[by].kind is Kind.FLAG)
    if is_repeated and entry.state in _DECIDED_BY_REVIEWS:  # the state would show what others said
        message = f"{by} has reviewed revision {entry.review_status.revision} already ({reviews[by].kind})"
        raise InvalidInput(Problem(message, "revise the triple to have it reviewed again", show(entry.path)))
    _refuse_state(entry, Kind.CONFIRM if verdict is None else Kind.FLAG)
    if by in entry.review_status.current.list_people(Kind.ADJUDICATE):
        message = f"{by} adjudicated revision {entry.review_status.revision}, which a review would take back"
        raise InvalidInput(Problem(message, "let another person review it", show(entry.path)))
    seen = _can_see_others(entry) or None
    if verdict is None:
        texts = _pin_unpinned(entry, corpus or {}) or None
        return record(root, entry, Kind.CONFIRM, by, note=note, at=at, is_informed=seen, texts=texts)
    return record(root, entry, Kind.FLAG, by, verdict=verdict, category=category, note=note, at=at, is_informed=seen)


def _pin_unpinned(entry: TripleEntry, corpus: Mapping[str, str]) -> dict[str, str]:
    """Return the pins of the texts of a corpus that belong to unpinned blocks of a triple, by block."""
    blocks = entry.triple.blocks if entry.triple else ()
    names = [block.block_id for block in blocks if block.version is None and block.block_id in corpus]
    return {name: make_pin(corpus[name]) for name in names}


def _can_see_others(entry: TripleEntry) -> bool:
    """Return whether a reviewer may know what others said: two reviews are shown to everybody, and so are decisions."""
    current = entry.review_status.current
    settling = current.has(Kind.RESOLVE) or current.has(Kind.ADJUDICATE)
    return len(current.reviews) >= CONFIRMATIONS or settling


def resolve(
    root: Path,
    name: str,
    by: str,
    outcome: DisputeOutcome | str,
    *,
    category: Category | str | None = None,
    note: str | None = None,
    at: str | None = None,
    corpus: Mapping[str, str] | None = None,
) -> TripleEntry:
    """Settle a dispute. The author and the flagger have to agree to uphold a triple; each of them may drop it.

    A person who neither wrote nor reviewed the triple adjudicates: `upheld` or `dropped`. A numeric dispute is only
    upheld if the block says every number of the answer, or if a third person says in the note why the answer is right.

    `corpus`: texts by block, for blocks without a pinned text.

    Raises:
        InvalidInput: The triple is not disputed, the person may not settle it, or a number differs.
    """
    require_person(read_config(root), by)
    entry = read_entry(root, name)
    current = entry.review_status.current
    kind = Kind.RESOLVE if by in current.writers | current.reviews.keys() else Kind.ADJUDICATE
    if kind is Kind.ADJUDICATE:
        _refuse_adjudication(entry, by, outcome)
    if outcome == DisputeOutcome.UPHELD and entry.state is State.DISPUTED:
        refuse_upheld(root, entry, kind, category=category, note=note, corpus=corpus)
    flags = current.list_flags() if outcome == DisputeOutcome.UPHELD else None
    return record(root, entry, kind, by, verdict=outcome, category=category, note=note, at=at, settles=flags)


def _refuse_adjudication(entry: TripleEntry, by: str, outcome: DisputeOutcome | str) -> None:
    """Refuse to let a person adjudicate who should review. The reason is the same whatever others have said."""
    if outcome not in (DisputeOutcome.UPHELD, DisputeOutcome.DROPPED):
        raise InvalidInput(Problem("a third person upholds or drops a triple", "leave changes to its author"))
    if is_blind(entry, by):
        fix = f"review it: evalspec gold review {entry.id}"
        raise InvalidInput(Problem("a third person adjudicates only after two reviews", fix, show(entry.path)))


def retire(root: Path, name: str, by: str, *, note: str | None = None, at: str | None = None) -> TripleEntry:
    """Take a triple out of the set for good.

    Raises:
        InvalidInput: The triple has ended already.
    """
    return record(root, read_entry(root, name), Kind.RETIRE, by, note=note, at=at)


def assign(root: Path, names: Sequence[str], to: str, by: str, *, at: str | None = None) -> list[TripleEntry]:
    """Ask a person to review triples. `gold next` offers them first.

    Raises:
        InvalidInput: The person wrote or reviewed one of them, or one is not open for reviews. Nothing is assigned.
    """
    config = read_config(root)
    require_person(config, to)
    entries = [read_entry(root, name) for name in names]
    refused = [f"{entry.id}: {why}" for entry in entries if (why := explain_no_review(entry, to))]
    if refused:
        raise InvalidInput(Problem(why) for why in refused)
    return [record(root, entry, Kind.ASSIGN, by, to=to, at=at) for entry in entries]


def record(root: Path, entry: TripleEntry, kind: Kind, by: str, **more: Any) -> TripleEntry:
    """Add an event to a triple, and return the triple in its new state.

    Raises:
        InvalidInput: The protocol does not allow the event.
    """
    config = read_config(root)
    require_person(config, by)
    require_events(root)
    _refuse_state(entry, kind)
    at = more.pop("at", None) or render_now()
    more["note"] = redact_note(root, more.get("note"))
    head = {"kind": kind, "revision": entry.review_status.revision or 1, "content_hash": entry.content_hash}
    event = make_event({**head, "by": by, "at": at, **more})
    review_status = compute_review_status(
        [*(one.event for one in entry.events), event], entry.content_hash, config.people
    )
    _refuse_faulty(entry, event, review_status)
    write_event(root, entry.id, event)
    return read_entry(root, entry.id)


def require_events(root: Path) -> None:
    """Refuse to act on a set without events: the first one would end the review status of all other triples.

    Raises:
        InvalidInput: There are triples, but no events.
    """
    if (root / EVENTS).is_dir() or not any((root / TRIPLES).glob("*.y*ml")):
        return
    message = "the set has no events: its states come from `reviewed_by` and `resolution`"
    fix = (
        f"make a set with events: evalspec gold init NEW, then evalspec gold import {show(root / 'triples')} --set NEW"
    )
    raise InvalidInput(Problem(message, f"{fix} --keep-reviews", show(root)))


def _refuse_state(entry: TripleEntry, kind: Kind) -> None:
    if entry.state not in _POSSIBLE[kind]:
        possible = " or ".join(sorted(_POSSIBLE[kind]))
        message = f"cannot {kind} a triple that is {entry.state}; it has to be {possible}"
        if entry.state is State.REVOKED and entry.review_status.resolution != State.REVOKED:
            message = f"cannot {kind} a triple without permission: {entry.review_status.resolution}"
        raise InvalidInput(Problem(message, f"see: evalspec gold log {entry.id}", show(entry.path)))
    if not entry.review_status.revision and kind is not Kind.REVISE and kind is not Kind.REVOKE:
        message = "the content was edited by hand, so it has no revision"
        raise InvalidInput(Problem(message, f"record it: evalspec gold revise {entry.id}", show(entry.path)))


def _refuse_faulty(entry: TripleEntry, event: Event, review_status: ReviewStatus) -> None:
    for fault in review_status.faults:
        if fault.event is event:
            raise InvalidInput(Problem(fault.reason, f"see: evalspec gold log {entry.id}", show(entry.path)))


def refuse_taken(root: Path, name: str, triple: GoldTriple, by: str) -> None:
    """Refuse an id for a new triple. A file with the same content but no event is of a command that was interrupted.

    Raises:
        InvalidInput: The id cannot be a file name, or is taken.
    """
    require_name(name, "id")
    known = {one.casefold(): one for one in _list_ids(root)}
    has_events = any((root / EVENTS / name).glob("*"))
    is_unfinished = not has_events and has_triple(root / TRIPLES / f"{name}.yaml", name)
    if is_unfinished and read_entry(root, name).content_hash == hash_content(_sign(triple, by)):
        return
    if name.casefold() in known:
        message = f"the id '{known[name.casefold()]}' is taken"
        raise InvalidInput(Problem(message, "choose another id", field="id"))


def _list_ids(root: Path) -> set[str]:
    """Return all ids that are in use. An import does this for every triple, and pathlib takes thirty times as long."""
    names = _list_names(root / TRIPLES)
    ids = {name.rpartition(".")[0] for name in names if name.endswith((".yaml", ".yml"))}
    return ids | set(_list_names(root / EVENTS))


def _list_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [entry.name for entry in found]
    except FileNotFoundError:
        return []
