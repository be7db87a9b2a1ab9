"""Unrag's report of an evaluation, version 1."""

from collections.abc import Mapping
from typing import Literal

from evalspec.inputs.datasets.base import ForeignRun
from evalspec.inputs.formats.unrag.compat import LATENCY
from evalspec.model import AgentReply, Cause, Exchange, Sample, Score, StoredExchange
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
