"""Unrag's report of an evaluation, version 1."""

from collections.abc import Mapping
from typing import Any

from evalspec.datasets.base import ForeignRun
from evalspec.formats.unrag.schema import LATENCY
from evalspec.records import AgentReply, Cause, Exchange, Sample, Score, Transcript
from evalspec.reporters.checked_json import each, mapping, number, optional, refuse, take, text

_METRICS = {
    "hitAtK": "Success",
    "recallAtK": "Recall",
    "precisionAtK": "Precision",
    "mrrAtK": "RR",
    "ndcgAtK": "nDCG",
}


def parse_report(document: Mapping[str, Any]) -> ForeignRun:
    """The final stage of each query, which is the reranked one where there is one.

    Raises:
        Malformed: it is not what Unrag writes.
    """
    take(document, "version", _version_one)
    name = take(document, "dataset", lambda dataset: take(dataset, "id", text))
    queries = take(document, "results", lambda results: take(results, "queries", each(mapping)))
    parse = each(lambda query: _to_transcript(query, name))
    transcripts = take(document, "results", lambda results: take(results, "queries", parse))
    notes = []
    if len({take(query, "topK", number) for query in queries}) > 1:
        notes.append("its queries have several topK, and each score is at its own")
    if any("reranked" in query for query in queries):
        notes.append("the scores are those after reranking")
    return ForeignRun(name, transcripts, fingerprint={"startedAt": document.get("createdAt")}, notes=notes)


def _version_one(value: Any) -> str:
    return "1" if value == "1" else refuse('"1"', value)


def _to_transcript(query: Mapping[str, Any], dataset: str) -> Transcript:
    stage = take(query, "reranked" if query.get("reranked") else "retrieved", mapping)
    cutoff = take(query, "topK", number)
    given = take(stage, "metrics", mapping)
    scores = {f"{base}@{cutoff:g}": _given(given[key]) for key, base in _METRICS.items() if key in given}
    total = _total_ms(query)
    missing = Score.not_applicable("the report has no duration", Cause.OTHER)
    scores[LATENCY] = missing if total is None else Score.scored(total)
    relevant = take(take(query, "relevant", mapping), "sourceIds", each(text))
    sample = Sample(take(query, "id", text), take(query, "query", text), qrels=dict.fromkeys(relevant, 1))
    ranking = take(stage, "sourceIds", each(text))
    return Transcript(dataset, 1, Exchange(sample, AgentReply("", None, ranking, latency_ms=total)), scores)


def _total_ms(query: Mapping[str, Any]) -> float | None:
    """Retrieval and reranking together, as Unrag's own p95TotalMs has it."""
    parts = [
        take(take(query[stage], "durationsMs", mapping), "totalMs", optional(number), None)
        for stage in ("retrieved", "reranked")
        if query.get(stage) and "durationsMs" in query[stage]
    ]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _given(value: Any) -> Score:
    return Score.failed("the report has no number") if value is None else Score.scored(number(value))
