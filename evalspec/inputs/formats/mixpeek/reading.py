"""Read Mixpeek's ground truth, with the place of each problem."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import Problem
from evalspec.base.jsonl import read_head, read_json_lines
from evalspec.inputs.datasets.base import DatasetDefaults, ReadingNotes, Source
from evalspec.inputs.datasets.json_document import keys_at, read_json_document
from evalspec.inputs.datasets.located import (
    LineOfFile,
    Located,
    SeenIds,
    parse_record,
    problem_at,
    render_ids,
)
from evalspec.inputs.formats.mixpeek import DOCUMENT_MARKS, INPUT
from evalspec.inputs.formats.mixpeek.schema import SETTINGS, MixpeekFile, MixpeekQuery
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Sample


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
        notes.defaults = DatasetDefaults(settings=file.model_dump(include=set(SETTINGS), exclude_none=True))
        _check_count(file, document, notes)
    queries = data.get("queries")
    for index, value in enumerate(queries if isinstance(queries, list) else ()):
        yield document, (index,) if place is None else ("queries", index), value


def _is_one_document(path: Path) -> bool:
    """Return whether the file is one document. False if it is JSON Lines, or cannot be read (reported later)."""
    head = read_head(path)
    return head.decode("utf-8-sig", "ignore").lstrip().startswith("[") or bool(keys_at(head) & DOCUMENT_MARKS)


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
    return Sample(query.query_id, query.question, qrels=qrels, metadata=INPUT.keep(query.query_input), line=line)
