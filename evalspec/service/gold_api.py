"""Routes of gold sets. Every decision is made by `evalspec.curation.gold`; the reviewer is the user of the token."""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from msgspec import Meta
from msgspec.structs import asdict
from pydantic import BaseModel, Field, StringConstraints

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.authoring import revise_words
from evalspec.curation.gold.describing import describe_entry, describe_for_review, describe_history, describe_set
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, open_set, read_set
from evalspec.curation.gold.protocol import resolve, review
from evalspec.curation.gold.reviewers import list_reviewable
from evalspec.curation.gold.schema import Category, Flag
from evalspec.curation.gold.viewer import SEEN_STATES, Viewer
from evalspec.model import Curation
from evalspec.service.access import Access, Reading, Reviewing
from evalspec.service.bounds import Version
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.documents import body_config, document_type, render_document, show_example
from evalspec.service.gold_people import (
    find_caller_viewer,
    find_project_set,
    find_project_triple,
    list_project_sets,
    require_caller_person,
    require_no_withheld,
    require_reviewed,
)
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.places import hide_folder, hide_folder_within
from evalspec.service.problems import conflict
from evalspec.service.settings import Project

ROUTER = APIRouter(prefix="/v1/gold", tags=["gold"], route_class=JsonRoute)

_MADE: dict[str, Any] = {"status_code": HTTPStatus.CREATED, "response_model_exclude_unset": True}
_CONFIRM = "confirm"
MOST_WORDS = 20_000
"""The longest question, answer or claim that is written by the service, in characters."""

Note = Annotated[str | None, Field(max_length=5000)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MOST_WORDS)]
ReviewVerdict = Literal["confirm", "question_unrealistic", "wrong_block", "not_entailed", "overstated", "understated"]


_SET: dict[str, Any] = {
    "name": "help",
    "title": "Questions about the help pages",
    "folder": "evals/gold/help",
    "demonstration": False,
    "triples": 3,
    "states": {"to review": 2, "accepted": 1},
    "stress": 0,
    "problems": [],
}
_CONTENT: dict[str, Any] = {
    "id": "refund",
    "revision": 1,
    "question": "When is a refund paid?",
    "expected_block": {"block_id": "terms-17"},
    "expected_answer": "Within 14 days.",
    "claims": None,
    "metadata": {"domain": "billing"},
}
_TRIPLE: dict[str, Any] = {
    **_CONTENT,
    "state": "accepted",
    "resolution": "consensus",
    "author": "ada",
    "reviewedBy": ["ben", "cleo"],
    "openFlags": {},
    "isStress": False,
    "next": "",
}
_REVIEWED: dict[str, Any] = {
    **_CONTENT,
    "texts": [{"block_id": "terms-17", "text": "Refunds are paid within 14 days.", "why": None}],
    "numbers": [],
}
_EVENT: dict[str, Any] = {"kind": "add", "revision": 1, "by": "ada", "at": "2026-11-21T06:15:00Z"}


class GoldSetAnswer(BaseModel):
    """A gold set. `name`: of its folder, by which the API knows it. `states`: number of triples by state."""

    name: str
    title: str
    folder: str
    demonstration: bool
    triples: int
    states: dict[str, int]
    stress: int = Field(description="Triples that a model wrote and too few people have confirmed.")
    problems: list[str] = Field(description="What is wrong with files of the set.")


class GoldSets(BaseModel):
    """The gold sets of a project. `problems`: of sets that cannot be read."""

    model_config = show_example({"sets": [_SET], "problems": []})
    sets: list[GoldSetAnswer]
    problems: list[str]


class TripleContent(BaseModel):
    """What a triple says. A triple without permission has no content."""

    id: str
    revision: int
    question: str | None = None
    expected_block: Any = None
    expected_answer: str | None = None
    claims: list[str] | None = None
    metadata: dict[str, Any] | None = None


class BlockTextAnswer(BaseModel):
    """The text of a block, or why it is unknown."""

    block_id: str
    text: str | None = None
    why: str | None = None


class ReviewedTriple(TripleContent):
    """A triple as reviewers see it, without what others said about it."""

    texts: list[BlockTextAnswer]
    numbers: list[str] = Field([], description="Numbers of the answer that the block does not say.")


class NextTriple(BaseModel):
    """The next triple to review. null: nothing is waiting."""

    model_config = show_example({"waiting": 2, "triple": _REVIEWED})
    waiting: int
    triple: ReviewedTriple | None


class TripleAnswer(TripleContent):
    """A triple with its state, as the caller may see it: `to review` and `reviewed by you` hide what others said."""

    model_config = show_example(_TRIPLE)
    state: str
    resolution: str | None
    author: str | None
    reviewed_by: list[str] | None = Field(None, alias="reviewedBy", description="Missing: hidden from the caller.")
    open_flags: dict[str, str] | None = Field(None, alias="openFlags")
    is_stress: bool = Field(alias="isStress")
    next: str = Field(description="What the triple needs next.")


class TriplePage(BaseModel):
    """A page of triples, in the order of their ids."""

    model_config = show_example({"triples": [_TRIPLE], "next_cursor": None})
    triples: list[TripleAnswer]
    next_cursor: NextCursor


class WholeTriple(TripleAnswer):
    """A triple with the texts of its blocks and its history."""

    model_config = show_example({**_TRIPLE, **_REVIEWED, "history": [_EVENT]})
    texts: list[BlockTextAnswer]
    numbers: list[str] = []
    history: list[dict[str, Any]]


class SeenCuration(Curation, frozen=True, kw_only=True):
    """Agreement and quality of a gold set, as the caller may see them."""

    hidden: Annotated[int, Meta(description="Triples that are counted without reviews that the caller may not see.")]


_STATS = SeenCuration(name="help", hidden=0)


class ReviewRequest(BaseModel):
    """A confirmation, or a flag with what is wrong. `revision`: the one that was shown."""

    model_config = body_config({"revision": 1, "verdict": "overstated", "category": "numeric"}, strict=False)
    revision: Version = Field(strict=True)
    verdict: ReviewVerdict
    category: Category | None = Field(None, description="What a flag is about; it decides the rule of the dispute.")
    note: Note = None


class ResolutionRequest(BaseModel):
    """How a dispute ends."""

    model_config = body_config({"outcome": "upheld"}, strict=False)
    outcome: Literal["upheld", "dropped"]
    category: Category | None = None
    note: Note = None


class RevisionRequest(BaseModel):
    """New words of a triple; what is missing stays. `revision`: the one that was shown."""

    model_config = body_config(
        {"revision": 1, "expected_answer": "Within 14 days.", "note": "It said 15."}, strict=False
    )
    revision: Version = Field(strict=True)
    question: Words | None = None
    expected_answer: Words | None = None
    claims: list[Words] | None = Field(None, max_length=200, description="An empty list removes them.")
    note: Note = None


@ROUTER.get("", summary="List gold sets")
def list_gold_sets(access: Reading) -> GoldSets:
    """Return the gold sets of the project with the number of triples in each state."""
    sets, problems = [], []
    for root in list_project_sets(access.project):
        try:
            found = read_set(root)
            sets.append(_describe_gold_set(access.project, found, find_caller_viewer(found, access)))
        except InvalidInput as error:
            problems.append(hide_folder(str(error), access.project.folder))
    return GoldSets(sets=sets, problems=problems)


@ROUTER.get("/{name}/triples", response_model_exclude_unset=True, summary="List triples")
def list_triples(
    name: str,
    access: Reading,
    state: Annotated[list[str] | None, Query(description=f"{', '.join(SEEN_STATES)}; repeatable.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> TriplePage:
    """Return triples in the order of their ids."""
    root = find_project_set(access.project, name)
    found, place = read_set(root), decode_cursor(cursor, str)
    viewer = find_caller_viewer(found, access)
    entries = [
        entry
        for id, entry in sorted(found.entries.items())
        if (place is None or id > place[0]) and (not state or viewer.show_state(entry) in state)
    ]
    shown, following = cut_page(entries, limit, lambda entry: (entry.id,))
    return TriplePage(triples=[_describe_triple(entry, viewer) for entry in shown], next_cursor=following)


@ROUTER.get("/{name}/next", response_model_exclude_unset=True, summary="Show the next triple to review")
def get_next_triple(name: str, access: Reviewing) -> NextTriple:
    """Return the next triple that the caller can review, without what others said about it."""
    root = find_project_set(access.project, name)
    waiting = list_reviewable(read_set(root), require_caller_person(access, root))
    shown = _describe_reviewed_triple(access.project, root, waiting[0]) if waiting else None
    return NextTriple(waiting=len(waiting), triple=shown)


@ROUTER.get(
    "/{name}/stats",
    response_model=document_type(SeenCuration, _STATS),
    summary="Show agreement and quality",
)
def get_stats(name: str, access: Reading) -> Response:
    """Return agreement, flag rates, disputes and coverage of a set, without reviews that the caller may not see."""
    from evalspec.curation.gold.curation import compute_curation

    found = open_set(find_project_set(access.project, name))
    viewer = find_caller_viewer(found, access)
    return render_document(SeenCuration(**asdict(compute_curation(found, viewer)), hidden=viewer.count_hidden(found)))


@ROUTER.get("/{name}/triples/{triple_id}", response_model_exclude_unset=True, summary="Show a triple")
def get_triple(name: str, triple_id: str, access: Reading) -> WholeTriple:
    """Return a triple with texts and history.

    Reviews of others are hidden from a caller whose own review is wanted, or can be taken back.
    """
    root = find_project_set(access.project, name)
    entry = find_project_triple(root, triple_id)
    return _describe_whole_triple(access.project, root, entry, find_caller_viewer(read_set(root), access))


@ROUTER.post("/{name}/triples/{triple_id}/reviews", **_MADE, summary="Review a triple")
def review_triple(name: str, triple_id: str, asked: ReviewRequest, access: Reviewing) -> TripleAnswer:
    """Confirm a triple, or flag it. Two confirmations accept it, one flag makes it disputed.

    What became of the triple is hidden for ten minutes, in which the pages let the caller take the review back.
    """
    root = find_project_set(access.project, name)
    person = require_caller_person(access, root)
    entry = _find_revision(root, triple_id, asked.revision)
    flag = None if asked.verdict == _CONFIRM else Flag(asked.verdict)
    return _describe(access, root, review(root, entry.id, person, flag, category=asked.category, note=asked.note))


@ROUTER.post("/{name}/triples/{triple_id}/resolution", **_MADE, summary="Settle a dispute")
def resolve_triple(name: str, triple_id: str, asked: ResolutionRequest, access: Reviewing) -> TripleAnswer:
    """Uphold or drop a disputed triple: author and flagger agree, or a third person adjudicates."""
    root = find_project_set(access.project, name)
    person = require_caller_person(access, root)
    entry = find_project_triple(root, triple_id)
    require_no_withheld(entry, find_caller_viewer(read_set(root), access))
    settled = resolve(root, entry.id, person, asked.outcome, category=asked.category, note=asked.note)
    return _describe(access, root, settled)


@ROUTER.post("/{name}/triples/{triple_id}/revisions", **_MADE, summary="Revise a triple")
def revise_triple(name: str, triple_id: str, asked: RevisionRequest, access: Reviewing) -> TripleAnswer:
    """Replace question, answer or claims by a new revision, whose reviews start again.

    The author or the flagger of a disputed triple settles the dispute so. Others have to review the triple first.
    """
    root = find_project_set(access.project, name)
    person = require_caller_person(access, root)
    entry = _find_revision(root, triple_id, asked.revision)
    require_reviewed(entry, find_caller_viewer(read_set(root), access))
    words = {key: value for key in ("question", "expected_answer") if (value := getattr(asked, key)) is not None}
    if asked.claims is not None:
        words["claims"] = asked.claims or None
    revised = revise_words(root, entry.id, person, words, replaces=entry.content_hash, note=asked.note)
    return _describe(access, root, revised)


def _find_revision(root: Path, id: str, revision: int) -> TripleEntry:
    """Return a triple if the caller has seen its current revision.

    Raises:
        ApiProblem: 404: There is none. 409: It has another revision by now.
    """
    entry = find_project_triple(root, id)
    if entry.review_status.revision != revision:
        raise conflict(f"the triple has revision {entry.review_status.revision} by now; look at it first")
    return entry


def _describe(access: Access, root: Path, entry: TripleEntry) -> TripleAnswer:
    return _describe_triple(entry, find_caller_viewer(read_set(root), access))


def _describe_gold_set(project: Project, found: GoldSet, viewer: Viewer) -> GoldSetAnswer:
    described = describe_set(found, viewer)
    problems = [hide_folder(problem.render(), project.folder) for problem in found.problems]
    folder = str(found.root.relative_to(project.folder))
    own = {"name": found.root.name, "title": described["name"], "folder": folder, "problems": problems}
    return GoldSetAnswer.model_validate({**described, **own})


def _describe_triple(entry: TripleEntry, viewer: Viewer) -> TripleAnswer:
    return TripleAnswer.model_validate(describe_entry(entry, viewer))


def _describe_reviewed_triple(project: Project, root: Path, entry: TripleEntry) -> ReviewedTriple:
    return ReviewedTriple.model_validate(hide_folder_within(describe_for_review(root, entry), project.folder))


def _describe_whole_triple(project: Project, root: Path, entry: TripleEntry, viewer: Viewer) -> WholeTriple:
    texts = hide_folder_within(describe_for_review(root, entry), project.folder)
    return WholeTriple.model_validate(
        {**describe_entry(entry, viewer), **texts, "history": describe_history(entry, viewer)}
    )
