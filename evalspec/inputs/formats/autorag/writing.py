"""Write a dataset as AutoRAG's `qa.parquet` and `corpus.parquet`, and list what they cannot represent."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import DatasetContent, Written, list_relevant
from evalspec.inputs.datasets.located import refuse_empty
from evalspec.inputs.datasets.losses import (
    BLANK_IDS,
    BLANK_QUESTIONS,
    GRADES,
    NATIVE_ONLY,
    UNJUDGED,
    Loss,
    list_default_losses,
    list_sample_losses,
)
from evalspec.inputs.datasets.parquet_table import find_times, infer_types, make_struct, without_nulls, write_rows
from evalspec.inputs.formats.autorag.schema import (
    CORPUS_COLUMNS,
    CORPUS_FILE,
    METADATA_COLUMN,
    OWN_COLUMNS,
    PASSAGES,
    QA_COLUMNS,
    QA_FILE,
    TIME,
    Groups,
    nest_metadata,
    passages_of,
)
from evalspec.model import Document, Sample

_QA_NAMES = frozenset(column.name for column in QA_COLUMNS) | {PASSAGES}
_CORPUS_NAMES = frozenset(column.name for column in CORPUS_COLUMNS)


def list_losses(content: DatasetContent) -> list[str]:
    """Return what these files cannot represent."""
    documents = {document.id: document for document in content.documents or ()}
    in_corpus = None if content.documents is None else {name for name, d in documents.items() if d.text.strip()}
    losses = list_sample_losses(
        content.samples,
        (
            *NATIVE_ONLY,
            BLANK_IDS,
            BLANK_QUESTIONS,
            UNJUDGED,
            Loss("relevant documents whose id is blank", lambda s: any(not name.strip() for name in s.qrels or ())),
            Loss("answers that are blank", lambda s: any(not answer.strip() for answer in s.references)),
            GRADES,
            Loss(
                "relevant documents without text in the corpus",
                lambda s: _groups(s) != _groups(s, in_corpus),
            ),
            Loss("metadata.passages, which comes from the corpus", lambda s: _has_foreign_passages(s, documents)),
        ),
    )
    titled = sum(bool(document.title) for document in documents.values())
    if titled:
        losses.append(f"the titles of {titled} documents")
    losses += _metadata_losses("sample", content.samples, _QA_NAMES)
    losses += _metadata_losses("document", list(documents.values()), _CORPUS_NAMES)
    return losses + list_default_losses(content)


def write_autorag(content: DatasetContent, path: Path) -> Written:
    """Write the folder `path` with qa.parquet and, if there are documents, corpus.parquet."""
    path.mkdir()
    documents = content.documents
    in_corpus = None if documents is None else {document.id for document in documents if document.text.strip()}
    types = _infer_types(content.samples, _QA_NAMES)
    rows = (_to_row(sample, in_corpus) | _kept(sample, types) for sample in content.samples if _is_written(sample))
    count = write_rows(rows, QA_COLUMNS, types, path / QA_FILE)
    refuse_empty(count, path)
    if documents is not None:
        _write_corpus(documents, path / CORPUS_FILE)
    return Written(count, len(documents or ()))


def _write_corpus(documents: Sequence[Document], path: Path) -> None:
    """Write the corpus. AutoRAG requires the column metadata, and in it a time as a time."""
    types = _infer_types(documents, _CORPUS_NAMES)
    inner = {key: found for key, found in types.items() if key not in OWN_COLUMNS}
    times = find_times(TIME, (document.metadata for document in documents)) if TIME in inner else None
    if times is not None:
        inner[TIME] = times

    def to_row(document: Document) -> dict[str, Any]:
        kept = _kept(document, types)
        if times is not None and TIME in kept:
            kept[TIME] = datetime.fromisoformat(kept[TIME])
        return {"doc_id": document.id, "contents": document.text} | nest_metadata(kept)

    columns = {key: types[key] for key in OWN_COLUMNS if key in types} | {METADATA_COLUMN: make_struct(inner)}
    write_rows(map(to_row, documents), CORPUS_COLUMNS, columns, path)


def _is_written(sample: Sample) -> bool:
    return bool(sample.id.strip() and sample.question.strip())


def _to_row(sample: Sample, in_corpus: set[str] | None) -> dict[str, Any]:
    return {
        "qid": sample.id,
        "query": sample.question,
        "retrieval_gt": [list(group) for group in _groups(sample, in_corpus)] or [[]],
        "generation_gt": [answer for answer in sample.references if answer.strip()],
    }


def _groups(sample: Sample, in_corpus: set[str] | None = None) -> Groups:
    """Return the AND/OR groups of a sample, limited to documents in the corpus."""
    groups = sample.groups
    if groups is None:
        groups = tuple((document,) for document in list_relevant(sample))
    kept = (
        tuple(name for name in group if name.strip() and (in_corpus is None or name in in_corpus)) for group in groups
    )
    return tuple(group for group in kept if group)


def _has_foreign_passages(sample: Sample, documents: Mapping[str, Document]) -> bool:
    said = sample.metadata.get(PASSAGES)
    return said is not None and said != passages_of(list(sample.qrels or ()), documents)


def _metadata_losses(kind: str, things: Sequence[Sample | Document], reserved: frozenset[str]) -> Iterator[str]:
    kept = _infer_types(things, reserved).keys() | {PASSAGES}
    lost = sorted({key for thing in things for key in thing.metadata} - kept)
    if lost:
        yield f"the {kind} metadata {', '.join(lost)} (reserved name, or Parquet has no type for all values)"
    nulls = sum(without_nulls(thing.metadata) != thing.metadata for thing in things)
    if nulls:
        yield f"the nulls in the metadata of {nulls} {kind}s"


def _infer_types(things: Sequence[Sample | Document], reserved: frozenset[str]) -> dict[str, Any]:
    """Return the type of each metadata key whose values fit into one column."""

    def read() -> Iterator[Mapping[str, Any]]:
        for thing in things:
            yield {key: without_nulls(value) for key, value in thing.metadata.items() if key not in reserved}

    return infer_types(read)


def _kept(thing: Sample | Document, types: Mapping[str, Any]) -> dict[str, Any]:
    return {key: without_nulls(value) for key, value in thing.metadata.items() if key in types}
