"""Mixpeek's ground truth: queries with their relevant documents and, if graded, a score from 0 to 5 for each.

One JSON document as Mixpeek's API takes and gives it, the list of its queries alone, or one query a line.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evalspec.datasets.base import DATASETS, DatasetDefaults, DatasetFormat, ReadingNotes, Source
from evalspec.datasets.id_list import render_ids
from evalspec.datasets.json_document import keys_at, read_json_document
from evalspec.datasets.located import LineOfFile, Located, SeenIds, parse_record, problem_at
from evalspec.datasets.mixpeek_schema import OWN_KEY, SETTINGS, MixpeekFile, MixpeekQuery
from evalspec.datasets.mixpeek_writing import find_losses, write_mixpeek
from evalspec.errors import Problem
from evalspec.jsonl import open_unpacked, read_json_lines
from evalspec.manifest.yaml_source import Place
from evalspec.records import Sample
from evalspec.trust import require_file

_HEAD_BYTES = 65_536
_DOCUMENT_MARKS = {"queries", "dataset_name", "dataset_id"}
_QUERY_MARKS = {"query_id", "query_input", "relevant_documents"}


def read_mixpeek(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample a query; the settings of the dataset and everything wrong go to the notes."""
    seen = SeenIds("query_id", notes.problems)
    for located, place, value in _find_records(source, notes):
        query = parse_record(MixpeekQuery, value, located, place, notes.problems)
        if query is not None and seen.add(query.query_id, located, place):
            _check_relevance(query, located, place, notes)
            yield _to_sample(query, located.line(place))


def _find_records(source: Source, notes: ReadingNotes) -> Iterator[tuple[Located, Place, Any]]:
    """What should be a query each, with where it stands."""
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
        notes.defaults = DatasetDefaults(settings=file.model_dump(include=set(SETTINGS), exclude_none=True))
        _check_count(file, document, notes)
    queries = data.get("queries")
    for index, value in enumerate(queries if isinstance(queries, list) else ()):
        yield document, (index,) if place is None else ("queries", index), value


def _is_one_document(path: Path) -> bool:
    """Whether the file is one document rather than lines; one that cannot be read is told as lines are."""
    require_file(path)
    try:
        with open_unpacked(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return head.decode("utf-8-sig", "ignore").lstrip().startswith("[") or bool(keys_at(head) & _DOCUMENT_MARKS)


def _check_count(file: MixpeekFile, located: Located, notes: ReadingNotes) -> None:
    """The service says how many queries there are: a file cut short is found."""
    if file.query_count not in (None, len(file.queries)):
        message = f"query_count is {file.query_count}, and there are {len(file.queries)} queries"
        notes.problems.append(problem_at(located, ("query_count",), message, "fetch the dataset again"))


def _check_relevance(query: MixpeekQuery, located: Located, place: Place, notes: ReadingNotes) -> None:
    """The two lists of relevant documents must agree; what is only doubtful is a warning."""
    relevant, scores = query.relevant_documents, query.relevance_scores

    def note(target: list[Problem], key: str, names: Sequence[str], message: str, fix: str) -> None:
        if names:
            target.append(problem_at(located, (*place, key), message.format(render_ids(names)), fix))

    twice = [name for name, count in Counter(relevant).items() if count > 1]
    note(notes.warnings, "relevant_documents", twice, "more than once in this list: {}", "each counts once")
    if scores is None:
        return
    missing = [name for name in dict.fromkeys(relevant) if name not in scores]
    note(notes.problems, "relevance_scores", missing, "no score for {}", "score every relevant document")
    zero = [name for name in dict.fromkeys(relevant) if scores.get(name) == 0]
    fix = "take them out of relevant_documents, or score them 1 to 5"
    note(notes.problems, "relevance_scores", zero, "relevant and of score 0: {}", fix)
    extra = [name for name, score in scores.items() if score and name not in relevant]
    fix = "they count as relevant; a minGrade above their scores says otherwise"
    note(notes.warnings, "relevance_scores", extra, "scored and not in relevant_documents: {}", fix)


def _to_sample(query: MixpeekQuery, line: int) -> Sample:
    qrels = dict.fromkeys(query.relevant_documents, 1) if query.relevance_scores is None else query.relevance_scores
    plain = query.query_input == {"text": query.question}
    metadata = {} if plain else {OWN_KEY: {"query_input": query.query_input}}
    return Sample(query.query_id, query.question, qrels=qrels, metadata=metadata, line=line)


def _recognises(_path: Path, head: bytes) -> bool:
    return any(len(keys_at(head, place) & _QUERY_MARKS) >= 2 for place in ((), (0,), ("queries", 0)))


DATASETS.add(
    "mixpeek",
    DatasetFormat(
        name="mixpeek",
        summary="Mixpeek's ground truth: one JSON document, or one query a line",
        read=read_mixpeek,
        recognises=_recognises,
        find_losses=find_losses,
        write=write_mixpeek,
    ),
)
