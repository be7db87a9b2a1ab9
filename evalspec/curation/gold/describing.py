"""Triples and events as documents, for `--json` and for pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.curation.gold.disputes import check_numbers
from evalspec.curation.gold.files import to_plain
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.passages import read_block_text
from evalspec.curation.gold.reviewers import describe_missing
from evalspec.curation.gold.schema import Event
from evalspec.curation.gold.states import State
from evalspec.curation.gold.viewer import EVERYTHING, Viewer

_HIDDEN = "hidden until you have reviewed the triple"
_WITHHELD = "hidden while you can take your review back"


def describe_content(entry: TripleEntry) -> dict[str, Any]:
    """Return what a reviewer sees: id, revision and content, nothing that another reviewer said.

    A triple without permission is shown without its content.
    """
    content = {} if entry.triple is None or entry.state is State.REVOKED else to_plain(entry.triple)
    return {"id": entry.id, "revision": entry.review_status.revision, **content}


def describe_for_review(root: Path, entry: TripleEntry, corpus: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what a reviewer sees, with the texts of the blocks and the numbers that the answer says otherwise.

    `corpus`: texts by block, for blocks without a pinned text.
    """
    texts = [read_block_text(root, block, corpus) for block in (entry.triple.blocks if entry.triple else ())]
    blocks = [
        {"block_id": one.block.block_id, **({"text": one.text} if one.text else {"why": one.why})} for one in texts
    ]
    numbers = {"numbers": list(check_numbers(root, entry, corpus).render())} if entry.triple else {}
    return {**describe_content(entry), "texts": blocks, **numbers}


def describe_entry(entry: TripleEntry, viewer: Viewer = EVERYTHING) -> dict[str, Any]:
    """Return the content of a triple and its review status, which is hidden from somebody whose review is blind."""
    review_status = entry.review_status
    if viewer.is_blind(entry):
        hidden = {"state": viewer.show_state(entry), "resolution": None, "author": review_status.author}
        following = _WITHHELD if entry.id in viewer.withheld else f"your review, {viewer.person}"
        # who wrote it is no secret, but whether people have confirmed it is
        is_stress = entry.triple is not None and entry.triple.metadata.generated_by is not None
        return {**describe_content(entry), **hidden, "isStress": is_stress, "next": following}
    return {
        **describe_content(entry),
        "state": review_status.state,
        "resolution": review_status.resolution,
        "author": review_status.author,
        "reviewedBy": review_status.reviewed_by,
        "openFlags": {
            name: review_status.current.reviews[name].verdict for name in sorted(review_status.current.open_flags)
        },
        "isStress": entry.is_stress,
        "next": describe_missing(entry),
    }


def describe_history(entry: TripleEntry, viewer: Viewer = EVERYTHING) -> list[dict[str, Any]]:
    """Return the events of a triple in the order of revisions.

    Reviews are hidden from somebody whose own is blind, and the notes of a triple without permission from everybody.
    """
    return [_describe_event(one.event, entry, viewer) for one in entry.events]


def _describe_event(event: Event, entry: TripleEntry, viewer: Viewer) -> dict[str, Any]:
    if viewer.hides(event, entry):
        why = _WITHHELD if entry.id in viewer.withheld else _HIDDEN
        return {"kind": "review", "revision": event.revision, "at": event.at, "note": why}
    left_out = {"note"} if entry.state is State.REVOKED else set()
    return {key: value for key, value in to_plain(event).items() if key not in left_out}


def describe_set(found: GoldSet, viewer: Viewer = EVERYTHING) -> Mapping[str, Any]:
    """Return name, location and number of triples in each state, as they may be seen."""
    return {
        "name": found.config.name,
        "folder": str(found.root),
        "demonstration": found.config.demonstration,
        "triples": len(found.entries),
        "states": viewer.count_states(found),
        "stress": sum(entry.is_stress for entry in viewer.hide_reviews(found).entries.values()),
    }
