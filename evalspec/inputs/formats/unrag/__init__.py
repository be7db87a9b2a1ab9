"""Unrag: its evaluation datasets, its formulas, the settings of single queries, and its reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evalspec.inputs.datasets.base import (
    CorpusForm,
    DatasetFormat,
    ForeignReport,
    ForeignRun,
    ReadingNotes,
    Source,
    when_used,
)
from evalspec.inputs.datasets.json_document import keys_at, read_json_document
from evalspec.inputs.formats.unrag.compat import AS_LISTED, COMPAT, LATENCY, OWN_KEY
from evalspec.model import AgentReply, Cause, Document, Exchange, Sample, Score, StoredExchange
from evalspec.model.base import Number, Record
from evalspec.model.fingerprints import Fingerprint

_METRICS = {
    "hitAtK": "Success",
    "recallAtK": "Recall",
    "precisionAtK": "Precision",
    "mrrAtK": "RR",
    "ndcgAtK": "nDCG",
}


class _Durations(Record, frozen=True):
    total_ms: Number | None = None


class _Stage(Record, frozen=True):
    """A ranking. `metrics`: values by Unrag's names; null if undefined."""

    source_ids: tuple[str, ...]
    metrics: Mapping[str, Number | None]
    durations_ms: _Durations | None = None


class _Relevant(Record, frozen=True):
    source_ids: tuple[str, ...]


class _Query(Record, frozen=True):
    id: str
    query: str
    top_k: Number
    relevant: _Relevant
    retrieved: _Stage
    reranked: _Stage | None = None


class _Dataset(Record, frozen=True):
    id: str


class _Results(Record, frozen=True):
    queries: tuple[_Query, ...]


class UnragReport(Record, frozen=True, kw_only=True):
    """The keys of a report that evalspec reads."""

    version: Literal["1"]
    dataset: _Dataset
    created_at: str = ""
    results: _Results


def build_run(report: UnragReport) -> ForeignRun:
    """Return the report as a run. The ranking of a query is the reranked one, if it has one."""
    queries = report.results.queries
    notes = []
    if len({query.top_k for query in queries}) > 1:
        notes.append("queries have different topK; each score is at the topK of its query")
    if any(query.reranked for query in queries):
        notes.append("scores are after reranking")
    exchanges = [_to_stored_exchange(query, report.dataset.id) for query in queries]
    return ForeignRun(report.dataset.id, exchanges, fingerprint=Fingerprint(started_at=report.created_at), notes=notes)


def _to_stored_exchange(query: _Query, dataset: str) -> StoredExchange:
    stage = query.reranked or query.retrieved
    known = {base: stage.metrics[key] for key, base in _METRICS.items() if key in stage.metrics}
    scores = {f"{base}@{query.top_k:g}": _to_score(value) for base, value in known.items()}
    total = _total_ms(query)
    missing = Score.not_applicable("the report has no duration", Cause.OTHER)
    scores[LATENCY] = missing if total is None else Score.scored(total)
    sample = Sample(query.id, query.query, qrels=dict.fromkeys(query.relevant.source_ids, 1))
    reply = AgentReply("", None, stage.source_ids, latency_ms=total)
    return StoredExchange(dataset, 1, Exchange(sample, reply), scores)


def _total_ms(query: _Query) -> float | None:
    """Return the time of retrieval and reranking together, as in Unrag's p95TotalMs. None if unknown."""
    stages = [stage.durations_ms for stage in (query.retrieved, query.reranked) if stage and stage.durations_ms]
    known = [durations.total_ms for durations in stages if durations.total_ms is not None]
    return sum(known) if known and len(known) == len(stages) else None


def _to_score(value: float | None) -> Score:
    return Score.failed("the report has no number") if value is None else Score.scored(value)


_read = when_used("evalspec.inputs.formats.unrag.reading", "read_unrag")


def _recognises(_path: Path, head: bytes) -> bool:
    keys = keys_at(head)
    return bool(keys & {"queries", "documents"}) and ("defaults" in keys or b'"sourceId' in head)


def _read_documents(path: Path, shown_as: str, notes: ReadingNotes) -> Sequence[Document] | None:
    """Return the documents of a dataset. Drops warnings, because they are about its queries."""
    read = ReadingNotes(notes.problems)
    for _ in _read(Source(path, shown_as), read):
        pass
    return read.documents


def _find_lines(path: Path, count: int) -> list[int]:
    document = read_json_document(path, "", [])
    return [document.line(("documents", index)) if document else 1 for index in range(count)]


def _refresh_metadata(
    _sample: Sample, metadata: dict[str, Any], _documents: Mapping[str, Document], is_moved: bool
) -> bool:
    """Remove the original list of relevant ids, because a new corpus has other ids."""
    own = metadata.get(OWN_KEY)
    if not is_moved or not isinstance(own, dict) or AS_LISTED not in own:
        return False
    metadata[OWN_KEY] = {key: value for key, value in own.items() if key != AS_LISTED}
    return True


def _is_report(document: Mapping[str, Any]) -> bool:
    results = document.get("results")
    return isinstance(results, dict) and "queries" in results and "config" in document


UNRAG = DatasetFormat(
    name="unrag",
    summary="Unrag's evaluation dataset, version 1: one JSON document",
    read=_read,
    recognises=_recognises,
    list_losses=when_used("evalspec.inputs.formats.unrag.writing", "list_losses"),
    write=when_used("evalspec.inputs.formats.unrag.writing", "write_unrag"),
    corpus=CorpusForm((), (".json",), _read_documents, _find_lines),
    refresh_metadata=_refresh_metadata,
    columns=("version", "id", "defaults", "documents", "queries"),
    settings_key=OWN_KEY,
    compat=COMPAT,
    report=ForeignReport("Unrag report", _is_report, UnragReport, build_run),
)
