"""Reports of other tools as runs: of what they do not tell nothing is made up, and a note says what is missing."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evalspec.compare.comparison import NamedRun
from evalspec.datasets.located import content_id
from evalspec.errors import InvalidInput, Problem
from evalspec.outline import MetricOutline
from evalspec.records import (
    AgentReply,
    Cause,
    DatasetResult,
    Direction,
    Exchange,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Transcript,
    Verdict,
    VerdictStatus,
)
from evalspec.reporters.checked_json import (
    Malformed,
    count,
    each,
    flag,
    malformed,
    mapping,
    number,
    optional,
    refuse,
    take,
    text,
)
from evalspec.summary import summarise

UNRAG, AGENTSPEC = "Unrag report", "AgentSpec report"

_UNRAG_METRICS = {
    "hitAtK": "Success",
    "recallAtK": "Recall",
    "precisionAtK": "Precision",
    "mrrAtK": "RR",
    "ndcgAtK": "nDCG",
}
_LATENCY = "latency_p95"
_NO_HASH = "tells no content of its dataset: samples are compared by their ids alone"


def is_unrag(document: Mapping[str, Any]) -> bool:
    """Whether it has the shape of an Unrag report."""
    results = document.get("results")
    return isinstance(results, dict) and "queries" in results and "config" in document


def is_agentspec(document: Mapping[str, Any]) -> bool:
    """Whether it has the shape of what `agentspec evaluate --json` prints."""
    return {"dataset", "totalSamples", "metrics"} <= document.keys() and "schemaVersion" not in document


def build_unrag(document: Mapping[str, Any], shown_as: str) -> NamedRun:
    """An Unrag report (version 1): its final stage, which is the reranked one where there is one.

    Raises:
        InvalidInput: it is not what Unrag writes, or two of its queries have one id.
    """
    try:
        take(document, "version", _version_one)
        name = take(document, "dataset", lambda dataset: take(dataset, "id", text))
        queries = take(document, "results", lambda results: take(results, "queries", each(mapping)))
        parse = each(lambda query: _unrag_query(query, name))
        transcripts = take(document, "results", lambda results: take(results, "queries", parse))
    except Malformed as error:
        raise malformed(error, shown_as) from error
    notes = [f"{UNRAG}: {_NO_HASH}"]
    if len({take(query, "topK", number) for query in queries}) > 1:
        notes.append(f"{UNRAG}: its queries have several topK, and each score is at its own")
    if any("reranked" in query for query in queries):
        notes.append(f"{UNRAG}: the scores are those after reranking")
    created = {"startedAt": document.get("createdAt")}
    return _named(shown_as, UNRAG, name, transcripts, created, notes, {_LATENCY: "p95"})


def _version_one(value: Any) -> str:
    return "1" if value == "1" else refuse('"1"', value)


def _unrag_query(query: Mapping[str, Any], dataset: str) -> Transcript:
    stage = take(query, "reranked" if query.get("reranked") else "retrieved", mapping)
    cutoff = take(query, "topK", number)
    given = take(stage, "metrics", mapping)
    scores = {f"{base}@{cutoff:g}": _given(given[key]) for key, base in _UNRAG_METRICS.items() if key in given}
    total = _total_ms(query)
    scores[_LATENCY] = _absent("the report has no duration") if total is None else Score.scored(total)
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


def _absent(reason: str) -> Score:
    return Score.not_applicable(reason, Cause.OTHER)


def _given(value: Any) -> Score:
    return Score.failed("the report has no number") if value is None else Score.scored(number(value))


def build_agentspec(document: Mapping[str, Any], shown_as: str) -> NamedRun:
    """What `agentspec evaluate --json` printed. Its pass_rate is string_match: the answer holds the expected text.

    A sample has no id there; it gets the one that evalspec gives to a line without an id.

    Raises:
        InvalidInput: it is not what AgentSpec writes.
    """
    notes = [f"{AGENTSPEC}: {_NO_HASH}", f"{AGENTSPEC}: an id is a hash of input and expected"]
    try:
        name = take(document, "dataset", text)
        transcripts = take(document, "samples", each(lambda sample: _agentspec_sample(sample, name)), None)
        if transcripts is None:
            rate = take(take(document, "metrics", mapping), "pass_rate", number)
            total = take(document, "totalSamples", count)
            return _without_samples(shown_as, name, rate, total)
    except Malformed as error:
        raise malformed(error, shown_as) from error
    return _named(shown_as, AGENTSPEC, name, transcripts, {}, notes, {_LATENCY: "p95"})


def _agentspec_sample(fields: Mapping[str, Any], dataset: str) -> Transcript:
    question, expected = take(fields, "input", text), take(fields, "expected", text)
    latency = take(fields, "latencyMs", optional(number), None)
    error = take(fields, "error", optional(text), None)
    answer = take(fields, "actual", optional(text), None)
    name = content_id({"input": question, "expected": expected, "context": None})
    sample = Sample(name, question, (expected,))
    if answer is None:
        exchange = Exchange(sample, error=error or "no reply")
        failed = Score.failed(f"no reply: {exchange.error}")
        return Transcript(dataset, 1, exchange, {"string_match": failed, _LATENCY: _absent("no reply")})
    scores = {"string_match": Score.scored(take(fields, "pass", flag))}
    scores[_LATENCY] = _absent("no latency") if latency is None else Score.scored(latency)
    return Transcript(dataset, 1, Exchange(sample, AgentReply(answer, latency_ms=latency)), scores)


def _without_samples(shown_as: str, name: str, rate: float, total: int) -> NamedRun:
    summary = Summary("string_match", "mean", rate, None, total)
    dataset = DatasetResult(name, {"string_match": Direction.HIGHER}, (), {"string_match": summary}, ())
    run = Run(shown_as, Verdict(VerdictStatus.NOT_GATED), 0, (dataset,), has_texts=False)
    return NamedRun(shown_as, run, AGENTSPEC, (f"{AGENTSPEC}: no scores of single samples, so nothing can be tested",))


def _named(
    shown_as: str,
    kind: str,
    name: str,
    transcripts: Sequence[Transcript],
    fingerprint: Mapping[str, Any],
    notes: Sequence[str],
    statistics: Mapping[str, str],
) -> NamedRun:
    ids = Counter(transcript.exchange.sample.id for transcript in transcripts)
    twice = next((found for found, times in ids.items() if times > 1), None)
    if twice is not None:
        message = f"the sample '{twice}' stands in it {ids[twice]} times, so that it cannot be paired"
        raise InvalidInput(Problem(message, "give each sample an id of its own and run it again", shown_as))
    metrics = dict.fromkeys(metric for transcript in transcripts for metric in transcript.scores)
    samples = tuple(_result(transcript, metrics) for transcript in transcripts)
    outlines = [
        MetricOutline(metric, statistics.get(metric, "mean"), Direction.LOWER, (0.0, None))
        if metric == _LATENCY
        else MetricOutline(metric, statistics.get(metric, "mean"), Direction.HIGHER, (0.0, 1.0))
        for metric in metrics
    ]
    direction = {outline.name: outline.direction for outline in outlines}
    dataset = DatasetResult(name, direction, samples, summarise(samples, outlines), ())
    run = Run(shown_as, Verdict(VerdictStatus.NOT_GATED), 0, (dataset,), fingerprint=fingerprint)

    def read(wanted: Collection[tuple[str, str]]) -> Iterator[Transcript]:
        return (found for found in transcripts if (found.dataset, found.exchange.sample.id) in wanted)

    return NamedRun(shown_as, run, kind, tuple(notes), texts=read)


def _result(transcript: Transcript, metrics: Mapping[str, None]) -> SampleResult:
    exchange = transcript.exchange
    missing = _absent("not in the report")
    return SampleResult(
        exchange.sample.id,
        SampleStatus.ANSWERED if exchange.reply else SampleStatus.FAILED,
        latency_ms=exchange.reply.latency_ms if exchange.reply else None,
        error=exchange.error,
        scores={metric: transcript.scores.get(metric, missing) for metric in metrics},
    )
