"""What the page shows of asking a retriever."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from evalspec.records import DatasetResult, Diagnosis, QueryDiagnosis
from evalspec.reporters.diagnosis import (
    describe_always,
    describe_found,
    describe_grade,
    describe_missing,
    describe_never,
    describe_unanswered,
    describe_whole,
    name_choice,
    title_always,
    title_never,
)
from evalspec.reporters.retrieval import (
    RERANKING_TITLES,
    STAGE_TITLES,
    describe_settings,
    find_rerankings,
    reranking_cells,
    stage_cells,
)

_LISTED = 100
"""Queries, and documents that fail over all of them; the reports for programs have all."""
_OF_A_QUERY = 20

Item = TypeVar("Item")


def describe_retrieval(dataset: DatasetResult) -> dict[str, Any]:
    """Data of JSON's types; texts of others are not made ready for a page yet."""
    rerankings = [[found.metric, *reranking_cells(found)] for found in find_rerankings(dataset)]
    stages = [[stage.stage, *stage_cells(stage)] for stage in dataset.stages]
    diagnosis = dataset.diagnosis
    return {
        "asked": describe_settings(dataset.retriever) if dataset.retriever else None,
        "rerankings": {"titles": ["metric", *RERANKING_TITLES], "rows": rerankings},
        "stages": {"titles": ["stage", *STAGE_TITLES], "rows": stages},
        "missing": _missing(diagnosis) if diagnosis and diagnosis.queries else None,
    }


def _missing(diagnosis: Diagnosis) -> dict[str, Any]:
    never, always = diagnosis.never_retrieved, diagnosis.always_retrieved
    return {
        "whole": describe_whole(diagnosis),
        "unanswered": describe_unanswered(diagnosis, _LISTED) if diagnosis.unanswered else None,
        "queries": _some(diagnosis.queries, _LISTED, lambda one: _query(one, diagnosis.depth)),
        "never": {
            "title": title_never(diagnosis),
            **_some(never, _LISTED, lambda one: [one.document, describe_never(one)]),
        },
        "always": {
            "title": title_always(diagnosis),
            **_some(always, _LISTED, lambda one: [one.document, describe_always(one, diagnosis.answered)]),
        },
    }


def _query(diagnosed: QueryDiagnosis, depth: int) -> dict[str, Any]:
    """Each document between what stands before and after its name."""
    return {
        "id": diagnosed.query,
        "found": describe_found(diagnosed),
        "missing": _some(
            diagnosed.missing,
            _OF_A_QUERY,
            lambda one: ["", name_choice(one), describe_missing(one, diagnosed.searched, depth)],
        ),
        "pushedOutBy": _some(
            diagnosed.pushed_out_by,
            _OF_A_QUERY,
            lambda one: [f"{one.rank:,}.", one.document, f"({describe_grade(one.grade)})"],
        ),
    }


def _some(items: Sequence[Item], most: int, describe: Callable[[Item], Any]) -> dict[str, Any]:
    """The first of a list, and how many more there are."""
    return {"items": [describe(item) for item in items[:most]], "more": max(len(items) - most, 0)}
