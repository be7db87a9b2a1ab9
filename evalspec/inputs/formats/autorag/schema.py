"""Columns of AutoRAG's files, their readers, and checks of their rows. The line of a problem is the row, from 1."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.located import render_ids
from evalspec.inputs.datasets.parquet_table import TextColumn, read_table
from evalspec.model import Document, Sample
from evalspec.model.conventions import FlatIds

QA_COLUMNS = (
    TextColumn("qid"),
    TextColumn("query"),
    TextColumn("retrieval_gt", (0, 1, 2)),
    TextColumn("generation_gt", (0, 1)),
)
CORPUS_COLUMNS = (TextColumn("doc_id"), TextColumn("contents"))
QA_FILE, CORPUS_FILE = "qa.parquet", "corpus.parquet"
PASSAGES = "passages"
"""The metadata key for the sources of the relevant passages of a sample."""
OWN_COLUMNS = ("path", "start_end_idx")
"""Columns of the corpus that are metadata of their own. All other metadata is in the column `metadata`."""
METADATA_COLUMN = "metadata"
TIME = "last_modified_datetime"
"""The key of the metadata that AutoRAG needs as a time."""
_SOURCES = frozenset({*OWN_COLUMNS, TIME, "prev_id", "next_id", "page"})
"""Metadata that AutoRAG's parsers and chunkers write about the source of a passage."""

Row = Mapping[str, Any]
Groups = tuple[tuple[str, ...], ...]


def check_qa(rows: Sequence[Row], retrieval_gt_1d: FlatIds | None, shown_as: str) -> Iterator[Problem]:
    """Yield problems of qa.parquet that need no other file."""
    if not rows:
        yield Problem("there are no rows", "write one per question", shown_as)
    if any(PASSAGES in row for row in rows):
        fix = "rename the column; reports show the passages of retrieval_gt under this name"
        yield Problem("this name is reserved", fix, shown_as, field=PASSAGES)
    for number, row in enumerate(rows, 1):
        for field, what, fix in _qa_row_problems(row):
            yield Problem(what, fix, shown_as, number, field)
    yield from _find_twins([row["qid"] for row in rows], "qid", shown_as)
    flat = [number for number, row in enumerate(rows, 1) if _is_flat(row["retrieval_gt"])]
    if flat and retrieval_gt_1d is None:
        yield Problem(
            "a flat list of several ids is ambiguous: AutoRAG's documentation says that all are needed, its code "
            f"accepts any of them ({len(flat)} of {len(rows)} rows)",
            "set retrievalGt1d: and (all) or retrievalGt1d: or (any), or compat: autorag (all); for convert, pass "
            "--retrieval-gt-1d",
            shown_as,
            flat[0],
            "retrieval_gt",
        )


def check_documents(rows: Sequence[Row], shown_as: str) -> Iterator[Problem]:
    """Yield problems of corpus.parquet that need no other file."""
    for number, row in enumerate(rows, 1):
        if not (row["doc_id"] or "").strip():
            yield Problem("empty", "each document needs an id", shown_as, number, "doc_id")
    yield from _find_twins([row["doc_id"] for row in rows], "doc_id", shown_as)


def check_references(
    groups: Sequence[Groups], documents: Mapping[str, Document], shown_as: str, corpus_shown_as: str
) -> Iterator[Problem]:
    """Yield problems with ids of retrieval_gt: not in the corpus, or the document has no text."""
    rows: dict[str, int] = {}
    for number, needed in enumerate(groups, 1):
        for document in (document for group in needed for document in group):
            rows.setdefault(document, number)
    missing = [document for document in rows if document not in documents]
    if missing and len(missing) == len(rows):
        has = f"the corpus has '{next(iter(documents))}'" if documents else "the corpus is empty"
        message = f"no id of retrieval_gt is in {corpus_shown_as}: retrieval_gt has '{missing[0]}', {has}"
        yield Problem(message, "use the ids of doc_id, or specify the right corpus", shown_as, field="retrieval_gt")
        return
    fix = f"add them to {corpus_shown_as} or remove them from retrieval_gt"
    for what, ids in (
        (f"not in {corpus_shown_as}", missing),
        ("without contents", [d for d in rows if d in documents and not documents[d].text.strip()]),
    ):
        if ids:
            named = render_ids(f"'{document}' (row {rows[document]})" for document in ids)
            message = f"{len(ids)} of {len(rows)} ids {what}: {named}"
            yield Problem(message, fix, shown_as, field="retrieval_gt")


def check_empty_documents(documents: Sequence[Document], shown_as: str) -> Iterator[Problem]:
    """Yield a warning for documents without text, which AutoRAG would drop."""
    empty = [document.id for document in documents if not document.text.strip()]
    if empty:
        message = f"empty in {len(empty)} of {len(documents)} documents: {render_ids(map(repr, empty))}"
        yield Problem(message, "AutoRAG drops them from the corpus", shown_as, field="contents")


def _qa_row_problems(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yield (field, message, fix) for each problem of one row."""
    for name in ("qid", "query"):
        if not (row[name] or "").strip():
            yield name, "empty", "each row needs its own"
    answers = row["generation_gt"]
    if answers is None or (isinstance(answers, list) and None in answers):
        yield "generation_gt", "null", "write [] if no answer is known"
    needed = row["retrieval_gt"]
    if needed is None:
        yield "retrieval_gt", "null", "write [[]] if no document is relevant"
        return
    groups = needed if any(isinstance(group, list) for group in needed) else [needed]
    if len(groups) > 1 and not all(groups):
        yield "retrieval_gt", "a group is empty, so nothing can satisfy it", "remove the group"
    ids = [document for group in groups for document in ([group] if isinstance(group, str) else group or ())]
    if any(not (document or "").strip() for document in ids):
        yield "retrieval_gt", "an id is empty", "write [[]] if no document is relevant"


def _is_flat(needed: Any) -> bool:
    return isinstance(needed, list) and all(isinstance(document, str) for document in needed) and len(set(needed)) > 1


def _find_twins(ids: Sequence[str | None], field: str, shown_as: str) -> Iterator[Problem]:
    rows: dict[str, list[int]] = {}
    for number, name in enumerate(ids, 1):
        if name:
            rows.setdefault(name, []).append(number)
    twins = {name: numbers for name, numbers in rows.items() if len(numbers) > 1}
    if twins:
        named = render_ids(f"'{name}' (rows {render_ids(map(str, numbers))})" for name, numbers in twins.items())
        yield Problem(
            f"{len(twins)} of {len(rows)} ids are duplicated: {named}", "make ids unique", shown_as, field=field
        )


def passages_of(ids: Sequence[str], documents: Mapping[str, Document]) -> dict[str, dict[str, Any]]:
    """Return the sources of passages that are in the corpus: {id: {path, start_end_idx, metadata}}."""
    known = {name: documents[name].metadata for name in ids if name in documents}
    return {name: nest_metadata(said) for name, said in known.items() if not _SOURCES.isdisjoint(said)}


def nest_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document as the columns of the corpus."""
    columns = {key: metadata[key] for key in OWN_COLUMNS if key in metadata}
    inner = {key: value for key, value in metadata.items() if key not in OWN_COLUMNS}
    return columns | ({METADATA_COLUMN: inner} if inner else {})


def flatten_metadata(row: Row) -> dict[str, Any]:
    """Return the columns of a row of the corpus as the metadata of its document."""
    inner = row.get(METADATA_COLUMN)
    columns = {column.name for column in CORPUS_COLUMNS} | ({METADATA_COLUMN} if isinstance(inner, Mapping) else set())
    rest = {key: value for key, value in row.items() if key not in columns}
    return {**inner, **rest} if isinstance(inner, Mapping) else rest


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


def _parse_groups(needed: Any, retrieval_gt_1d: FlatIds | None) -> Groups:
    """Return ground truth as groups: AND over groups, OR within a group. Empty without ground truth."""
    if isinstance(needed, str):
        return ((needed,),)
    if any(isinstance(group, list) for group in needed):
        return tuple(tuple(dict.fromkeys(group)) for group in needed if group)
    distinct = tuple(dict.fromkeys(needed))
    if retrieval_gt_1d is FlatIds.ALL:
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
