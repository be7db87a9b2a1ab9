"""Reader of Unrag's evaluation dataset, version 1: one JSON document with queries, and optionally their sources.

It is stricter than Unrag (unrag.md here lists the differences). Fields that only Unrag has keep their
names: those of queries and documents in `metadata["unrag"]`, those of the dataset in its settings.
"""

from collections.abc import Iterator
from typing import Any

from evalspec.inputs.datasets.base import DatasetDefaults, ReadingNotes, Source
from evalspec.inputs.datasets.json_document import JsonDocument, read_json_document
from evalspec.inputs.datasets.located import SeenIds, parse_record, problem_at
from evalspec.inputs.formats.unrag.compat import AS_LISTED, DEFAULT_TOP_K, LATENCY, OWN_KEY, RANKING_LIMITS
from evalspec.inputs.formats.unrag.schema import UnragDocument, UnragFile, UnragOverrides, UnragQuery
from evalspec.model import Document, Sample


def read_unrag(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per query. Documents, defaults and problems go to the notes."""
    document = read_json_document(source.path, source.shown_as, notes.problems)
    if document is None:
        return
    file = parse_record(UnragFile, document.data, document, (), notes.problems)
    if file is not None:
        notes.defaults = _to_defaults(file)
    given = _list_of(document, "documents")
    if given is not None:
        notes.documents = _read_documents(given, document, notes)
    known = {entry["sourceId"] for entry in given or () if isinstance(entry, dict) and _is_text(entry.get("sourceId"))}
    seen = SeenIds("id", notes.problems)
    for index, value in enumerate(_list_of(document, "queries") or ()):
        place = ("queries", index)
        query = parse_record(UnragQuery, value, document, place, notes.problems)
        if query is None or not seen.add(query.id, document, place):
            continue
        _check_relevant(query, known, document, index, notes)
        yield _to_sample(query, document.line(place))


def _list_of(document: JsonDocument, key: str) -> list[Any] | None:
    """Return the list under a key of the outermost object, or None. Other values have been reported already."""
    value = document.data.get(key) if isinstance(document.data, dict) else None
    return value if isinstance(value, list) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _to_defaults(file: UnragFile) -> DatasetDefaults:
    said = file.defaults.model_dump(by_alias=True, exclude_none=True)
    limits = said.pop("thresholds")
    top_k = said.pop("topK", None)
    thresholds: dict[str, tuple[float | None, float | None]] = {
        f"{RANKING_LIMITS[key]}@{top_k or DEFAULT_TOP_K}": (value, None) for key, value in limits["min"].items()
    }
    if "p95TotalMs" in limits["max"]:
        thresholds[LATENCY] = (None, limits["max"]["p95TotalMs"])
    described = {} if file.description is None else {"description": file.description}
    return DatasetDefaults((top_k,) if top_k else (), thresholds, {"id": file.id, **described, **said})


def _read_documents(given: list[Any], document: JsonDocument, notes: ReadingNotes) -> list[Document]:
    seen = SeenIds("sourceId", notes.problems)
    documents = []
    for index, value in enumerate(given):
        place = ("documents", index)
        entry = parse_record(UnragDocument, value, document, place, notes.problems)
        if entry is not None and seen.add(entry.source_id, document, place):
            own = entry.model_dump(by_alias=True, exclude_none=True, include={"loader_ref", "assets"})
            metadata = entry.metadata | ({OWN_KEY: own} if own else {})
            documents.append(Document(entry.source_id, entry.content or "", metadata=metadata))
    return documents


def _check_relevant(
    query: UnragQuery, known: set[str], document: JsonDocument, index: int, notes: ReadingNotes
) -> None:
    """Check that every relevant id is among the documents, if the file has any. Warn about repeated ids."""
    met: set[str] = set()
    for position, name in enumerate(query.relevant.source_ids):
        place = ("queries", index, "relevant", "sourceIds", position)
        if known and name not in known:
            message, fix = f"'{name}' is not among the documents of this file", "correct the id or add the document"
            notes.problems.append(problem_at(document, place, message, fix))
        if name in met:
            fix = "remove it; it counts once, but with compat: unrag each duplicate lowers recall"
            notes.warnings.append(problem_at(document, place, f"'{name}' is duplicated", fix))
        met.add(name)


def _to_sample(query: UnragQuery, line: int) -> Sample:
    own = query.model_dump(by_alias=True, exclude_none=True, include=set(UnragOverrides.model_fields))
    qrels = dict.fromkeys(query.relevant.source_ids, 1)
    if len(qrels) < len(query.relevant.source_ids):
        own[AS_LISTED] = query.relevant.source_ids
    return Sample(query.id, query.query, qrels=qrels, metadata={OWN_KEY: own} if own else {}, line=line)
