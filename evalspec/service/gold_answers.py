"""Answers about gold sets: the documents of `evalspec gold --json`, with snake_case names."""

from pathlib import Path
from typing import Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evalspec.curation.gold.describing import describe_entry, describe_for_review, describe_history, describe_set
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.viewer import Viewer
from evalspec.service.cursors import NextCursor
from evalspec.service.places import hide_folder, hide_folder_within
from evalspec.service.settings import Project

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
    "reviewed_by": ["ben", "cleo"],
    "open_flags": {},
    "is_stress": False,
    "next": "",
}
_REVIEWED: dict[str, Any] = {
    **_CONTENT,
    "texts": [{"block_id": "terms-17", "text": "Refunds are paid within 14 days.", "why": None}],
    "numbers": [],
}
_EVENT: dict[str, Any] = {"kind": "add", "revision": 1, "by": "ada", "at": "2026-11-21T06:15:00Z"}


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=to_camel), validate_by_name=True)


class GoldSetAnswer(_Part):
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

    model_config = ConfigDict(json_schema_extra={"examples": [{"sets": [_SET], "problems": []}]})
    sets: list[GoldSetAnswer]
    problems: list[str]


class TripleContent(_Part):
    """What a triple says. A triple without permission has no content."""

    id: str
    revision: int
    question: str | None = None
    expected_block: Any = None
    expected_answer: str | None = None
    claims: list[str] | None = None
    metadata: dict[str, Any] | None = None


class BlockText(_Part):
    """The text of a block, or why it is unknown."""

    block_id: str
    text: str | None = None
    why: str | None = None


class ReviewedTriple(TripleContent):
    """A triple as reviewers see it, without what others said about it."""

    texts: list[BlockText]
    numbers: list[str] = Field([], description="Numbers of the answer that the block does not say.")


class NextTriple(BaseModel):
    """The next triple to review. null: nothing is waiting."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"waiting": 2, "triple": _REVIEWED}]})
    waiting: int
    triple: ReviewedTriple | None


class TripleAnswer(TripleContent):
    """A triple with its state, as the caller may see it: `to review` and `reviewed by you` hide what others said."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TRIPLE]})
    state: str
    resolution: str | None
    author: str | None
    reviewed_by: list[str] | None = Field(None, description="null: hidden from the caller.")
    open_flags: dict[str, str] | None = None
    is_stress: bool
    next: str = Field(description="What the triple needs next.")


class TriplePage(BaseModel):
    """A page of triples, in the order of their ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"triples": [_TRIPLE], "next_cursor": None}]})
    triples: list[TripleAnswer]
    next_cursor: NextCursor


class WholeTriple(TripleAnswer):
    """A triple with the texts of its blocks and its history."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_TRIPLE, **_REVIEWED, "history": [_EVENT]}]})
    texts: list[BlockText]
    numbers: list[str] = []
    history: list[dict[str, Any]]


def describe_gold_set(project: Project, found: GoldSet, viewer: Viewer) -> GoldSetAnswer:
    """Return a gold set as a viewer may see it."""
    described = describe_set(found, viewer)
    problems = [hide_folder(problem.render(), project.folder) for problem in found.problems]
    folder = str(found.root.relative_to(project.folder))
    known = {key: described[key] for key in ("demonstration", "triples", "states", "stress")}
    return GoldSetAnswer(name=found.root.name, title=str(described["name"]), folder=folder, problems=problems, **known)


def describe_triple(entry: TripleEntry, viewer: Viewer) -> TripleAnswer:
    """Return a triple as a viewer may see it."""
    return TripleAnswer.model_validate(describe_entry(entry, viewer))


def describe_reviewed_triple(project: Project, root: Path, entry: TripleEntry) -> ReviewedTriple:
    """Return a triple with the texts of its blocks, as a reviewer may see it."""
    return ReviewedTriple.model_validate(hide_folder_within(describe_for_review(root, entry), project.folder))


def describe_whole_triple(project: Project, root: Path, entry: TripleEntry, viewer: Viewer) -> WholeTriple:
    """Return a triple with texts and history as a viewer may see it."""
    texts = hide_folder_within(describe_for_review(root, entry), project.folder)
    return WholeTriple.model_validate(
        {**describe_entry(entry, viewer), **texts, "history": describe_history(entry, viewer)}
    )
