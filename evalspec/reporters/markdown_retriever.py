"""What the Markdown report tells of asking a retriever."""

from collections.abc import Iterator, Sequence

from evalspec.records import DatasetResult, Diagnosis, QueryDiagnosis, StageLatency
from evalspec.reporters.diagnosis import (
    DOCUMENTS_SHOWN,
    describe_always,
    describe_found,
    describe_missing,
    describe_never,
    describe_unanswered,
    describe_whole,
    name_choice,
    name_intruders,
    title_always,
    title_never,
)
from evalspec.reporters.markdown_parts import cell, code, folded, table
from evalspec.reporters.retrieval import (
    RERANKING_TITLES,
    STAGE_TITLES,
    describe_settings,
    find_rerankings,
    reranking_cells,
    stage_cells,
)

_ROWS_SHOWN = 60
_MISSING_SHOWN = 10


def render_asked(dataset: DatasetResult) -> str:
    """Who was asked, and how; empty where it was no retriever."""
    return f"asked of {describe_settings(dataset.retriever, code)}\n\n" if dataset.retriever else ""


def render_rerankings(dataset: DatasetResult) -> str:
    """What reranking gained; empty where there was none."""
    rows = [[cell(found.metric), *reranking_cells(found)] for found in find_rerankings(dataset)]
    return _numbers("metric", RERANKING_TITLES, rows) if rows else ""


def render_stages(stages: Sequence[StageLatency]) -> str:
    """What the stages took."""
    return _numbers("stage", STAGE_TITLES, [[cell(stage.stage), *stage_cells(stage)] for stage in stages])


def render_missing(diagnosis: Diagnosis) -> str:
    """What is missing and what stands in its place, folded away."""
    rows = (_query_cells(diagnosed, diagnosis) for diagnosed in diagnosis.queries)
    text = f"{describe_whole(diagnosis)}\n\n"
    text += f"{describe_unanswered(diagnosis, _MISSING_SHOWN, code)}\n\n" if diagnosis.unanswered else ""
    text += table(("query", "", "missing", "pushed out by"), rows, _MISSING_SHOWN)
    for title, entries in _documents(diagnosis):
        text += table((title, ""), entries, _MISSING_SHOWN) if entries else ""
    return folded("What is missing", text)


def _query_cells(diagnosed: QueryDiagnosis, diagnosis: Diagnosis) -> list[str]:
    missing = [
        f"{name_choice(one, cell)} {describe_missing(one, diagnosed.searched, diagnosis.depth)}"
        for one in diagnosed.missing[:DOCUMENTS_SHOWN]
    ]
    rest = len(diagnosed.missing) - len(missing)
    missing += [f"and {rest:,} more"] if rest else []
    return [cell(diagnosed.query), describe_found(diagnosed), ", ".join(missing), name_intruders(diagnosed, cell)]


def _documents(diagnosis: Diagnosis) -> Iterator[tuple[str, list[list[str]]]]:
    """Documents that fail over all queries, as rows under a title."""
    yield title_never(diagnosis), [[cell(one.document), describe_never(one)] for one in diagnosis.never_retrieved]
    always = diagnosis.always_retrieved
    yield title_always(diagnosis), [[cell(one.document), describe_always(one, diagnosis.answered)] for one in always]


def _numbers(first: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table((first, *(f"{title}:" for title in titles)), rows, _ROWS_SHOWN)
