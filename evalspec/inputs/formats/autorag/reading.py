"""Reader of AutoRAG's dataset: `qa.parquet` (questions, answers, AND/OR ground truth), `corpus.parquet` (passages).

Stricter than AutoRAG: numeric ids are errors, flat lists of several ids need `retrievalGt1d`, and every id that is
missing from the corpus is reported. Texts are unchanged. AutoRAG normalises them to NFC and spells emoji out.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.parquet_table import read_table
from evalspec.inputs.formats.autorag.schema import (
    CORPUS_COLUMNS,
    CORPUS_FILE,
    PASSAGES,
    QA_COLUMNS,
    QA_FILE,
    Groups,
    Row,
    check_documents,
    check_empty_documents,
    check_qa,
    check_references,
    flatten_metadata,
    passages_of,
)
from evalspec.model import Document, Sample


def read_autorag(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per row of qa.parquet. `source.path` is that file or its folder.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    qa, shown_as = source.path, source.shown_as
    if qa.is_dir():
        qa, shown_as = qa / QA_FILE, f"{shown_as}/{QA_FILE}"
    rows = read_table(qa, shown_as, QA_COLUMNS, notes.problems)
    corpus, corpus_shown_as = _locate_corpus(source, qa, shown_as)
    if corpus is not None:
        notes.documents = read_documents(corpus, corpus_shown_as, notes)
    if rows is None:
        return
    notes.files.extend([corpus] if corpus else [])
    if corpus is None:
        message = f"there is no {CORPUS_FILE} beside it, so the ids of retrieval_gt are not checked"
        notes.warnings.append(Problem(message, "specify the corpus", shown_as))
    found = list(check_qa(rows, source.retrieval_gt_1d, shown_as))
    notes.problems.extend(found)
    if found:
        return
    groups = [_parse_groups(row["retrieval_gt"], source.retrieval_gt_1d) for row in rows]
    documents = {document.id: document for document in notes.documents or ()}
    if notes.documents is not None:
        notes.problems.extend(check_references(groups, documents, shown_as, corpus_shown_as))
    for number, (row, needed) in enumerate(zip(rows, groups, strict=True), 1):
        yield _to_sample(row, needed, documents, number)


def _locate_corpus(source: Source, qa: Path, shown_as: str) -> tuple[Path | None, str]:
    if source.corpus is not None:
        return source.corpus, source.corpus_shown_as
    beside = qa.with_name(CORPUS_FILE)
    return (beside, shown_as.removesuffix(qa.name) + CORPUS_FILE) if beside.exists() else (None, "")


def read_documents(path: Path, shown_as: str, notes: ReadingNotes) -> list[Document] | None:
    """Return the documents of corpus.parquet, or None if it cannot be read. Problems go to the notes.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    rows = read_table(path, shown_as, CORPUS_COLUMNS, notes.problems)
    if rows is None:
        return None
    notes.problems.extend(check_documents(rows, shown_as))
    documents = [
        Document(
            id=row["doc_id"] or "",
            text=row["contents"] or "",
            metadata=flatten_metadata(row),
        )
        for row in rows
    ]
    notes.warnings.extend(check_empty_documents(documents, shown_as))
    return documents


def _parse_groups(needed: Any, retrieval_gt_1d: str | None) -> Groups:
    """Return ground truth as groups: AND over groups, OR within a group. Empty without ground truth."""
    if isinstance(needed, str):
        return ((needed,),)
    if any(isinstance(group, list) for group in needed):
        return tuple(tuple(dict.fromkeys(group)) for group in needed if group)
    distinct = tuple(dict.fromkeys(needed))
    if retrieval_gt_1d == "and":
        return tuple((document,) for document in distinct)
    return (distinct,) if distinct else ()


def _to_sample(row: Row, groups: Groups, documents: Mapping[str, Document], number: int) -> Sample:
    qrels = {document: 1 for group in groups for document in group}
    answers = row["generation_gt"]
    metadata = {key: value for key, value in row.items() if all(key != column.name for column in QA_COLUMNS)}
    passages = passages_of(list(qrels), documents)
    return Sample(
        id=row["qid"],
        user_input=row["query"],
        references=tuple(answer for answer in ([answers] if isinstance(answers, str) else answers) if answer.strip()),
        qrels=qrels,
        groups=groups if _say_more(groups, qrels) else None,
        metadata=metadata | ({PASSAGES: passages} if passages else {}),
        line=number,
    )


def _say_more(groups: Groups, qrels: Mapping[str, int]) -> bool:
    """Return whether the groups say more than that all documents of `qrels` are needed."""
    return len(groups) != len(qrels) or any(len(group) > 1 for group in groups)
