"""LlamaIndex: the labelled RAG dataset, and the pairs of queries and nodes for retrieval."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import DatasetFormat, ReadingNotes, Source
from evalspec.inputs.datasets.corpus import check_judged
from evalspec.inputs.datasets.json_document import JsonDocument, keys_at, read_json_document
from evalspec.inputs.datasets.located import problem_at
from evalspec.inputs.datasets.record_form import RecordForm, has_columns
from evalspec.inputs.datasets.record_writing import Writer, make_format
from evalspec.model import Document, Sample

_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("query",),
        "expected": ("reference_answer",),
        "reference_contexts": ("reference_contexts",),
        "context": ("predicted_contexts",),
        "response": ("predicted_answer",),
    },
    metadata=frozenset({"query_by", "reference_answer_by", "predicted_answer_by"}),
)
_PAIR_KEYS = frozenset({"queries", "corpus", "relevant_docs"})


LLAMAINDEX = make_format(
    "llamaindex",
    "LlamaIndex's labelled RAG dataset: query, reference_answer, reference_contexts",
    _FORM,
    has_columns({"query"}, {"reference_answer", "reference_contexts"}),
    Writer(
        _FORM,
        {"metadata": "*"},
        omits=("context",),
        complete=lambda record, _: {"reference_answer": "", **record},
        list_key="examples",
        suffix=".json",
    ),
)


def _is_pairs(_path: Path, head: bytes) -> bool:
    return keys_at(head) >= {"queries", "corpus"} and b'"relevant_docs"' in head


def _read_pairs(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    document = read_json_document(source.path, source.shown_as, notes.problems)
    if document is None:
        return
    bad = [key for key in sorted(_PAIR_KEYS) if not isinstance(_get(document, key), dict)]
    for key in bad:
        notes.problems.append(problem_at(document, (key,), "it is not a mapping by id", "write {id: …}"))
    if bad:
        return
    texts = {name: text for name, text in document.data["corpus"].items() if isinstance(text, str)}
    notes.documents = [Document(name, text) for name, text in texts.items()]
    judged: dict[str, None] = {}
    for name, question in document.data["queries"].items():
        relevant = document.data["relevant_docs"].get(name)
        place = ("queries", name)
        if not isinstance(question, str) or not question.strip():
            notes.problems.append(problem_at(document, place, "the query is not text", "write the question"))
        elif relevant is not None and not (isinstance(relevant, list) and all(isinstance(n, str) for n in relevant)):
            where = ("relevant_docs", name)
            notes.problems.append(problem_at(document, where, "it is not a list of ids", "write the ids of nodes"))
        else:
            judged |= dict.fromkeys(relevant or ())
            qrels = None if relevant is None else dict.fromkeys(relevant, 1)
            yield Sample(name, question, qrels=qrels, line=document.line(place))
    check_judged(judged, {document.id: document for document in notes.documents}, source.shown_as, notes)


def _get(document: JsonDocument, key: str) -> Any:
    return document.data.get(key) if isinstance(document.data, dict) else None


LLAMAINDEX_PAIRS = DatasetFormat(
    name="llamaindex-pairs",
    summary="LlamaIndex's pairs for retrieval: queries, corpus, relevant_docs",
    read=_read_pairs,
    recognises=_is_pairs,
)
