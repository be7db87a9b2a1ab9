"""A run whose datasets were asked of retrievers: one that reranks and misses things, one that misses nothing."""

from evalspec.model import (
    AgentReply,
    AlwaysRetrieved,
    Attempt,
    Cause,
    DatasetResult,
    Diagnosis,
    Direction,
    Distractor,
    Exchange,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RepeatSummary,
    RetrieverSettings,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    SearchTrace,
    StageLatency,
    StoredExchange,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.model.fingerprints import RetrieverMode
from fingerprints import as_fingerprint

RETRIEVAL_REPORTS = ("retrieval.json", "retrieval.md", "retrieval.csv", "retrieval.jsonl")
"""Those of which a file is kept and compared."""

HOSTILE_QUERY = "<script>alert(1)</script> \x1b[31mq|3\u202e `x`"
HOSTILE_DOCUMENT = "docs/<img src=x onerror=alert(2)>\x1b]0;owned\x07 [red]| @team"
VALUES = {
    "q-1": {"nDCG@10": (0.8, 1.0), "Recall@10": (1.0, 1.0)},
    "q-2": {"nDCG@10": (0.75, 0.5), "Recall@10": (0.5, 0.5)},
    HOSTILE_QUERY: {"nDCG@10": (0.354, 0.387), "Recall@10": (0.0, 1 / 3)},
}
"""Of each query before and after reranking."""


def retrieval_run() -> Run:
    """Broken is the limit on what reranking gains."""
    return Run(
        id="20261121T071500Z-4e5f6a7b",
        verdict=VerdictStatus.FAIL,
        reasons=("faq: gain.nDCG@10: -0.006 is below 0",),
        exit_code=1,
        datasets=(_faq(), _quotes()),
        notes=("faq: 2 hits with a duplicate id, in 1 query; the first rank counts",),
        fingerprint=as_fingerprint({"agent": {"name": "support-bot"}}),
    )


def retrieval_exchanges() -> list[StoredExchange]:
    """A ranking for each query of the first dataset that has an answer; no texts of the second are kept."""
    return [
        StoredExchange("faq", 1, _exchange(sample), sample.scores)
        for sample in _faq().samples
        if sample.status is SampleStatus.ANSWERED
    ]


def _exchange(sample: SampleResult) -> Exchange:
    ranking = ("faq-1", HOSTILE_DOCUMENT)
    reply = AgentReply("", None, ranking, candidate_ids=ranking[::-1], trace=SearchTrace())
    return Exchange(Sample(sample.id, "How long can I return a lamp?", qrels={"faq-1": 2, "faq-9": 1}), reply)


def _faq() -> DatasetResult:
    summaries = {
        "nDCG@10": _summary("nDCG@10", 0.629, (0.312, 0.946)),
        "retrieved.nDCG@10": _summary("retrieved.nDCG@10", 0.635, (0.371, 0.898)),
        "gain.nDCG@10": _summary("gain.nDCG@10", -0.006, (-0.264, 0.252)),
        "Recall@10": _summary("Recall@10", 11 / 18, (0.2, 1.0)),
        "retrieved.Recall@10": _summary("retrieved.Recall@10", 0.5, (0.0, 1.0)),
        "gain.Recall@10": _summary("gain.Recall@10", 1 / 9, None),
        "rerank.latency_p95": Summary(
            direction=Direction.LOWER, statistic="p95", value=80.2, scored=3, not_applicable_causes={Cause.OTHER: 1}
        ),
    }
    return DatasetResult(
        name="faq",
        file="evals/faq.json",
        samples=(
            *(_answered(name, number) for number, name in enumerate(VALUES, 1)),
            SampleResult(
                id="q-4",
                status=SampleStatus.FAILED,
                error="the store does not answer",
                scores=dict.fromkeys(summaries, Score.failed("no reply")),
                line=4,
            ),
        ),
        metrics=summaries,
        thresholds=(
            Threshold(
                "gain.nDCG@10",
                min=0.0,
                status=VerdictStatus.FAIL,
                value=-0.006,
                scored=3,
                expected=4,
                reason="-0.006 is below 0",
            ),
            Threshold("rerank.latency_p95", max=100, status=VerdictStatus.PASS, value=80.2, scored=3, expected=3),
        ),
        retriever=RetrieverSettings(
            "bm25",
            RetrieverMode.RERANK,
            top_k=10,
            rerank_top_k=30,
            scope_prefix="eval:faq:",
            depth=100,
            min_grade=1,
            origins={"mode": "dataset", "topK": "--top-k", "rerankTopK": "default", "scopePrefix": "dataset file"},
        ),
        stages=(
            StageLatency("embed", 3, 4.25, 6.0, 6.5),
            StageLatency("retrieve", 3, 12.0, 15.5, 16.0),
            StageLatency("rerank", 3, 61.0, 80.2, 81.9),
            StageLatency("total", 3, 77.4, 1234.5, 1301.25),
        ),
        diagnosis=_diagnosis(),
    ).with_limits()


def _summary(metric: str, value: float, interval: tuple[float, float] | None) -> Summary:
    return Summary(value=value, interval=interval, scored=3, failed=1, median=value)


def _answered(name: str, number: int) -> SampleResult:
    scores: dict[str, Score] = {}
    for metric, (retrieved, reranked) in VALUES[name].items():
        values = {"": reranked, "retrieved.": retrieved, "gain.": reranked - retrieved}
        scores |= {f"{prefix}{metric}": Score.scored(value) for prefix, value in values.items()}
    return SampleResult(
        id=name,
        status=SampleStatus.ANSWERED,
        latency_ms=77.4 + number,
        scores=scores | {"rerank.latency_p95": Score.scored(60.0 + number)},
        line=number,
        timings_ms={"embed": 4.25, "retrieve": 12.0, "rerank": 60.0 + number},
        oddities={"duplicates": 2} if number == 1 else {},
    )


def _diagnosis() -> Diagnosis:
    """One query that lacks a group, found deeper down, and one that lacks what is nowhere."""
    noise = Distractor("faq-7", 1, 0)
    hostile = Distractor(HOSTILE_DOCUMENT, 2, None)
    return Diagnosis(
        cutoff=10,
        depth=100,
        answered=3,
        unanswered=("q-4",),
        queries=(
            QueryDiagnosis(
                query=HOSTILE_QUERY,
                missing=(
                    MissingDocument(HOSTILE_DOCUMENT, 2, 14, ("faq-3", "faq-4", "faq-5", "faq-6")),
                    MissingDocument("faq-9", 1, None),
                ),
                pushed_out_by=(noise, *(Distractor(f"x-{rank}", rank, None) for rank in range(2, 9))),
                wanted=3,
                searched=100,
            ),
            QueryDiagnosis(
                query="q-2",
                missing=(MissingDocument("faq-9", 1, None),),
                pushed_out_by=(noise, hostile),
                wanted=2,
                searched=42,
            ),
        ),
        never_retrieved=(NeverRetrieved("faq-9", (HOSTILE_QUERY, "q-2"), None, 5 / 6),),
        always_retrieved=(AlwaysRetrieved("faq-7", 1.0, 2),),
    )


def _quotes() -> DatasetResult:
    """Every query asked twice of a retriever that does not rerank, and finds all."""
    asked = tuple(
        Attempt(
            SampleStatus.ANSWERED,
            took,
            scores={"nDCG@10": Score.scored(1.0)},
            timings_ms={"retrieve": took},
            oddities={"fewer": 1},
        )
        for took in (3.5, 4.5)
    )
    return DatasetResult(
        name="quotes",
        file="evals/quotes.jsonl",
        samples=(
            SampleResult(
                id="z-1",
                status=SampleStatus.ANSWERED,
                latency_ms=4.0,
                scores={"nDCG@10": Score.scored(1.0)},
                line=1,
                attempts=asked,
            ),
        ),
        metrics={"nDCG@10": Summary(value=1.0, scored=1, median=1.0)},
        thresholds=(),
        repeats=RepeatSummary(2, 0, {}, {}, (), {}),
        retriever=RetrieverSettings(
            "qdrant [eu]", RetrieverMode.RETRIEVE, top_k=10, min_grade=2, origins={"topK": "metrics"}
        ),
        stages=(StageLatency("retrieve", 2, 4.0, 4.45, 4.49),),
        diagnosis=Diagnosis(10, 10, 1, (), (), (), ()),
    ).with_limits()
