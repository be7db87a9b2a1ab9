"""Triples and events as documents, for `--json` and for pages."""

from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from evalspec.gold.disputes import check_numbers
from evalspec.gold.files import to_plain
from evalspec.gold.gold_set import Entry, GoldSet
from evalspec.gold.passages import read_block_text
from evalspec.gold.reviewers import SHOWN_STATES, TO_REVIEW, describe_missing, is_blind, show_state
from evalspec.gold.schema import Event
from evalspec.gold.states import REVIEWING, State

_HIDDEN = "hidden until you have reviewed the triple"


def describe_content(entry: Entry) -> dict[str, Any]:
    """Return what a reviewer sees: id, revision and content, nothing that another reviewer said.

    A triple without permission is shown without its content.
    """
    content = {} if entry.triple is None or entry.state is State.REVOKED else to_plain(entry.triple)
    return {"id": entry.id, "revision": entry.standing.revision, **content}


def describe_for_review(root: Path, entry: Entry, corpus: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what a reviewer sees, with the texts of the blocks and the numbers that the answer says otherwise.

    `corpus`: texts by block, for blocks without a pinned text.
    """
    texts = [read_block_text(root, block, corpus) for block in (entry.triple.blocks if entry.triple else ())]
    blocks = [
        {"block_id": one.block.block_id, **({"text": one.text} if one.text else {"why": one.why})} for one in texts
    ]
    numbers = {"numbers": list(check_numbers(root, entry, corpus).render())} if entry.triple else {}
    return {**describe_content(entry), "texts": blocks, **numbers}


def describe_entry(entry: Entry, viewer: str | None = None) -> dict[str, Any]:
    """Return the content of a triple and its standing. `viewer`: sees no standing while their own review is wanted."""
    standing = entry.standing
    if is_blind(entry, viewer):
        hidden = {"state": TO_REVIEW, "resolution": None, "author": standing.author, "isStress": entry.is_stress}
        return {**describe_content(entry), **hidden, "next": f"your review, {viewer}"}
    return {
        **describe_content(entry),
        "state": standing.state,
        "resolution": standing.resolution,
        "author": standing.author,
        "reviewedBy": standing.reviewed_by,
        "openFlags": {name: standing.current.reviews[name].verdict for name in sorted(standing.current.open_flags)},
        "isStress": entry.is_stress,
        "next": describe_missing(entry),
    }


def describe_history(entry: Entry, viewer: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a triple in the order of revisions.

    Reviews are hidden from a blind viewer, and the notes of a triple without permission from everybody.
    """
    blind, left_out = is_blind(entry, viewer), {"note"} if entry.state is State.REVOKED else set()
    return [
        _hide(one.event) if blind and _is_current_review(one.event, entry) else _describe_event(one.event, left_out)
        for one in entry.events
    ]


def _describe_event(event: Event, left_out: Container[str]) -> dict[str, Any]:
    return {key: value for key, value in to_plain(event).items() if key not in left_out}


def _is_current_review(event: Event, entry: Entry) -> bool:
    return event.kind in REVIEWING and event.revision == entry.standing.revision


def _hide(event: Event) -> dict[str, Any]:
    return {"kind": "review", "revision": event.revision, "at": event.at, "note": _HIDDEN}


def describe_set(found: GoldSet, viewer: str | None = None) -> Mapping[str, Any]:
    """Return name, location and number of triples in each state, as a viewer may see them."""
    states = Counter(show_state(entry, viewer) for entry in found.entries.values())
    return {
        "name": found.config.name,
        "folder": str(found.root),
        "demonstration": found.config.demonstration,
        "triples": len(found.entries),
        "states": {state: states[state] for state in SHOWN_STATES if states[state]},
        "stress": sum(entry.is_stress for entry in found.entries.values()),
    }
