"""Mixpeek: its ground truth, and the API of its retrievers.

The ground truth has queries with their relevant documents and, if graded, a score from 0 to 5 for each. The file is a
JSON document of Mixpeek's API, the list of its queries alone, or JSON Lines with one query per line.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt, StrictStr, field_validator

from evalspec.datasets.base import (
    DatasetContent,
    DatasetDefaults,
    DatasetFormat,
    ReadingNotes,
    SearchPreset,
    Source,
    Written,
    list_relevant,
)
from evalspec.datasets.json_document import keys_at, read_json_document, write_json_document
from evalspec.datasets.located import (
    Accepted,
    LineOfFile,
    Located,
    SeenIds,
    explain_refusal,
    parse_record,
    problem_at,
    refuse_empty,
    render_ids,
)
from evalspec.datasets.losses import (
    ANSWERS,
    GROUPS,
    NATIVE_ONLY,
    UNJUDGED,
    Loss,
    list_document_losses,
    list_sample_losses,
)
from evalspec.errors import Problem
from evalspec.jsonl import open_unpacked, read_json_lines
from evalspec.manifest.yaml_source import Place
from evalspec.model import Sample
from evalspec.trust import require_file

_OWN_KEY = "mixpeek"
"""The metadata key for a `query_input` that contains more than the question."""

_HIGHEST_SCORE = 5
_QUESTION_KEYS = ("text", "query")
"""The first is from Mixpeek's SDK documentation, the second from its guide."""

Text = Annotated[StrictStr, Field(min_length=1)]
_HEAD_BYTES = 65_536
_DOCUMENT_MARKS = {"queries", "dataset_name", "dataset_id"}
_QUERY_MARKS = {"query_id", "query_input", "relevant_documents"}


class MixpeekQuery(BaseModel):
    """One query of Mixpeek's API. `query_input` may also be the question as a string."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    query_id: Text
    query_input: dict[str, JsonValue]
    relevant_documents: list[Text]
    relevance_scores: dict[Text, Annotated[StrictInt, Field(ge=0, le=_HIGHEST_SCORE)]] | None = None

    @field_validator("query_input", mode="before")
    @classmethod
    def _holds_a_question(cls, value: Any) -> Any:
        given = {"text": value} if isinstance(value, str) else value
        if isinstance(given, dict) and _find_question(given) is None:
            raise ValueError('it has no question; write {"text": "…"}')
        return given

    @property
    def question(self) -> str:
        """The question as text."""
        return _find_question(self.query_input) or ""


class MixpeekFile(BaseModel):
    """The document: the keys of its author, and the keys that Mixpeek adds."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    dataset_name: StrictStr | None = None
    description: StrictStr | None = None
    metadata: dict[str, JsonValue] | None = None
    dataset_id: StrictStr | None = None
    created_at: StrictStr | None = None
    updated_at: StrictStr | None = None
    namespace_id: StrictStr | None = None
    internal_id: StrictStr | None = None
    query_count: StrictInt | None = None
    queries: list[Any] = Field(min_length=1)


_SETTINGS = frozenset(MixpeekFile.model_fields) - {"queries", "query_count"}
"""The keys of the document that become settings of the dataset."""


def _find_question(query_input: Mapping[str, Any]) -> str | None:
    """Return the question in a `query_input`, or None."""
    found = (query_input.get(key) for key in _QUESTION_KEYS)
    return next((text for text in found if isinstance(text, str) and text), None)


def read_mixpeek(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per query. Settings of the dataset and problems go to the notes."""
    seen = SeenIds("query_id", notes.problems)
    for located, place, value in _find_records(source, notes):
        query = parse_record(MixpeekQuery, value, located, place, notes.problems)
        if query is not None and seen.add(query.query_id, located, place):
            _check_relevance(query, located, place, notes)
            yield _to_sample(query, located.line(place))


def _find_records(source: Source, notes: ReadingNotes) -> Iterator[tuple[Located, Place, Any]]:
    """Yield each candidate for a query with its place."""
    if not _is_one_document(source.path):
        for number, value in read_json_lines(source.path, source.shown_as, notes.problems):
            yield LineOfFile(source.shown_as, number), (), value
        return
    document = read_json_document(source.path, source.shown_as, notes.problems)
    if document is None:
        return
    data, place = (document.data, ()) if isinstance(document.data, dict) else ({"queries": document.data}, None)
    file = parse_record(MixpeekFile, data, document, (), notes.problems)
    if file is not None:
        notes.defaults = DatasetDefaults(settings=file.model_dump(include=set(_SETTINGS), exclude_none=True))
        _check_count(file, document, notes)
    queries = data.get("queries")
    for index, value in enumerate(queries if isinstance(queries, list) else ()):
        yield document, (index,) if place is None else ("queries", index), value


def _is_one_document(path: Path) -> bool:
    """Return whether the file is one document. False if it is JSON Lines, or cannot be read (reported later)."""
    require_file(path)
    try:
        with open_unpacked(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return head.decode("utf-8-sig", "ignore").lstrip().startswith("[") or bool(keys_at(head) & _DOCUMENT_MARKS)


def _check_count(file: MixpeekFile, located: Located, notes: ReadingNotes) -> None:
    """Check the number of queries that Mixpeek states, to detect truncated files."""
    if file.query_count not in (None, len(file.queries)):
        message = f"query_count is {file.query_count}, but there are {len(file.queries)} queries"
        notes.problems.append(problem_at(located, ("query_count",), message, "fetch the dataset again"))


def _check_relevance(query: MixpeekQuery, located: Located, place: Place, notes: ReadingNotes) -> None:
    """Check that relevant_documents and relevance_scores agree. Doubtful values are warnings."""
    relevant, scores = query.relevant_documents, query.relevance_scores

    def note(target: list[Problem], key: str, names: Sequence[str], message: str, fix: str) -> None:
        if names:
            target.append(problem_at(located, (*place, key), message.format(render_ids(names)), fix))

    twice = [name for name, count in Counter(relevant).items() if count > 1]
    note(notes.warnings, "relevant_documents", twice, "duplicate ids: {}", "each counts once")
    if scores is None:
        return
    missing = [name for name in dict.fromkeys(relevant) if name not in scores]
    note(notes.problems, "relevance_scores", missing, "no score for {}", "score every relevant document")
    zero = [name for name in dict.fromkeys(relevant) if scores.get(name) == 0]
    fix = "remove them from relevant_documents, or score them 1 to 5"
    note(notes.problems, "relevance_scores", zero, "relevant, but with score 0: {}", fix)
    extra = [name for name, score in scores.items() if score and name not in relevant]
    fix = "they count as relevant unless minGrade is above their scores"
    note(notes.warnings, "relevance_scores", extra, "scored, but not in relevant_documents: {}", fix)


def _to_sample(query: MixpeekQuery, line: int) -> Sample:
    qrels = dict.fromkeys(query.relevant_documents, 1) if query.relevance_scores is None else query.relevance_scores
    plain = query.query_input == {"text": query.question}
    metadata = {} if plain else {_OWN_KEY: {"query_input": query.query_input}}
    return Sample(query.query_id, query.question, qrels=qrels, metadata=metadata, line=line)


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    losses = _build_settings(content)[1]
    losses += list_document_losses(content) + list_sample_losses(content.samples, _SAMPLE_LOSSES)
    return losses + _list_queries(content).list_losses()


def write_mixpeek(content: DatasetContent, path: Path) -> Written:
    """Write one document of Mixpeek's API. The default dataset_name is the name of the file.

    Raises:
        InvalidInput: No sample can be written.
    """
    settings = _build_settings(content)[0]
    queries = _list_queries(content)
    write_json_document({"dataset_name": path.stem} | settings, {"queries": queries}, path)
    refuse_empty(queries.count, path)
    return Written(queries.count)


def _list_queries(content: DatasetContent) -> Accepted:
    return Accepted(MixpeekQuery, lambda: map(_to_record, content.samples), "samples")


def _build_settings(content: DatasetContent) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that the format can represent, and a description of those that it cannot."""
    defaults = content.defaults
    settings = {key: value for key, value in defaults.settings.items() if _is_setting(key, value)}
    losses = [f"the setting {key}" for key in defaults.settings if key not in settings]
    losses += ["the dataset's own cut-offs"] if defaults.k else []
    losses += ["the dataset's own thresholds"] if defaults.thresholds else []
    return settings, losses


def _is_setting(key: str, value: Any) -> bool:
    return (
        key in _SETTINGS and value is not None and explain_refusal(MixpeekFile, {key: value, "queries": [{}]}) is None
    )


def _to_record(sample: Sample) -> dict[str, Any]:
    qrels = sample.qrels or {}
    record: dict[str, Any] = {
        "query_id": sample.id,
        "query_input": _own_input(sample) or {"text": sample.question},
        "relevant_documents": list_relevant(sample),
    }
    graded = any(grade != 1 for grade in qrels.values()) and not _has_other_grades(sample)
    return record | ({"relevance_scores": dict(qrels)} if graded else {})


def _own_input(sample: Sample) -> Mapping[str, Any] | None:
    """Return the `query_input` that the reader kept, if it still contains the question. Else None."""
    own = sample.metadata.get(_OWN_KEY)
    given = own.get("query_input") if isinstance(own, dict) and own.keys() == {"query_input"} else None
    return given if isinstance(given, dict) and _find_question(given) == sample.question else None


def _has_other_grades(sample: Sample) -> bool:
    return any(not 0 <= grade <= _HIGHEST_SCORE for grade in (sample.qrels or {}).values())


def _has_foreign_metadata(sample: Sample) -> bool:
    return bool(sample.metadata.keys() - {_OWN_KEY}) or (_OWN_KEY in sample.metadata and _own_input(sample) is None)


_SAMPLE_LOSSES = (
    ANSWERS,
    *NATIVE_ONLY,
    UNJUDGED,
    GROUPS,
    Loss(f"all grades of a sample, because one is outside 0 to {_HIGHEST_SCORE}", _has_other_grades),
    Loss("metadata that is not Mixpeek's own", _has_foreign_metadata),
)


def _recognises(_path: Path, head: bytes) -> bool:
    return any(len(keys_at(head, place) & _QUERY_MARKS) >= 2 for place in ((), (0,), ("queries", 0)))


MIXPEEK = DatasetFormat(
    name="mixpeek",
    summary="Mixpeek's ground truth: one JSON document, or one query a line",
    read=read_mixpeek,
    recognises=_recognises,
    list_losses=list_losses,
    write=write_mixpeek,
    # The keys of `inputs` depend on the input schema of the retriever. `query` and `top_k` are the usual ones.
    # The field with the text of a document depends on the collection.
    preset=SearchPreset(
        {
            "request": {
                "inputs": {"query": "{{query}}", "top_k": "{{topK}}"},
                "pagination": {"method": "offset", "page_size": "{{topK}}", "page_number": 1},
            },
            "response": {"ids": "$.documents[*].document_id", "scores": "$.documents[*].score"},
        },
        needed_path="the path of the retriever, as in /v1/retrievers/RETRIEVER_ID/execute",
    ),
)
