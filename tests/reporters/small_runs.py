"""Runs made for one test: a dataset of one metric, and one in which every text is the same."""

from typing import Any

from msgspec.structs import replace

from evalspec.model import (
    AgentReply,
    AgentTurn,
    AlwaysRetrieved,
    Attempt,
    DatasetResult,
    Diagnosis,
    Distractor,
    Exchange,
    Message,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    RegressionOutcome,
    RepeatSummary,
    RetrieverSettings,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    SliceResult,
    StageLatency,
    StoredExchange,
    Summary,
    Threshold,
    ToolCall,
    Variance,
    VerdictStatus,
)
from evalspec.model.fingerprints import RetrieverMode
from fingerprints import as_fingerprint

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def run_of(
    *values: float,
    status: VerdictStatus = FAIL,
    gated: VerdictStatus | None = None,
    slice: str | None = None,
    **limit: Any,
) -> Run:
    """Samples s-0, s-1, … at lines 1, 2, … of d.jsonl, of which the first has the tag `first`; one limit on `m`."""
    samples = tuple(
        SampleResult(
            id=f"s-{number}",
            status=SampleStatus.ANSWERED,
            tags=("first",) if number == 0 else (),
            latency_ms=10.0,
            scores={"m": Score.scored(value)},
            line=number + 1,
        )
        for number, value in enumerate(values)
    )
    mean = sum(values) / len(values)
    outcome = Threshold(
        "m", slice=slice, **limit, status=status, value=mean, scored=len(values), expected=len(values), reason="why"
    )
    dataset = DatasetResult(
        name="d",
        samples=samples,
        metrics={"m": Summary(value=mean, scored=len(values))},
        thresholds=(outcome,),
        file="d.jsonl",
    ).with_limits()
    verdict = gated or status
    exit_code = {FAIL: 1, INCOMPLETE: 3}.get(verdict, 0)
    return Run(id="r", verdict=verdict, reasons=("why",), exit_code=exit_code, datasets=(dataset,))


def run_full_of(text: str) -> Run:
    """A failed run in which every name, id and reason is this text."""
    failed, scored = Score.failed(text), Score.scored(0.1, text, {"statement": text})
    samples = (
        SampleResult(
            id=text,
            status=SampleStatus.ANSWERED,
            tags=(text,),
            metadata={text: text},
            latency_ms=5.0,
            error=None,
            scores={text: scored},
            line=1,
        ),
        SampleResult(
            id=text + "2",
            status=SampleStatus.FAILED,
            tags=(text,),
            metadata={text: text},
            latency_ms=None,
            error=text,
            scores={text: failed},
            line=2,
        ),
        SampleResult(
            id=text + "3",
            status=SampleStatus.ANSWERED,
            scores={text: scored},
            attempts=(
                Attempt(SampleStatus.ANSWERED, 5.0, scores={text: scored}, passed=False),
                Attempt(SampleStatus.FAILED, error=text, scores={text: failed}),
            ),
        ),
    )
    summary = Summary(value=0.1, scored=2, failed=1)
    outcomes = (
        Threshold(text, min=0.5, status=FAIL, value=0.1, scored=2, expected=3, reason=text),
        Threshold(text, min=0.5, slice=text, status=INCOMPLETE, value=None, scored=0, expected=1, reason=text),
    )
    dataset = DatasetResult(
        name=text,
        samples=samples,
        metrics={text: summary},
        thresholds=outcomes,
        slices=(SliceResult(name=text, selected=2, metrics={text: summary}),),
        file=text,
        repeats=RepeatSummary(2, 1, {1: 0.5, 2: 1.0}, {1: 0.5, 2: 0.0}, (text,), {text: Variance(0.1, 0.1, None)}),
    ).with_limits()
    regressions = (RegressionOutcome(text, text, FAIL, 0.5, 0.1, -0.4, (-0.5, -0.3), 0.01, 2, text),)
    fingerprint = as_fingerprint({"agent": {"name": text}})
    return Run(
        id=text,
        verdict=FAIL,
        reasons=(text,),
        exit_code=1,
        datasets=(dataset,),
        notes=(text,),
        fingerprint=fingerprint,
        regressions=regressions,
    )


def retrieval_full_of(text: str) -> Run:
    """The same of a run of which everything was asked of a retriever that reranks."""
    metrics = (text, f"retrieved.{text}", f"gain.{text}")
    dataset = DatasetResult(
        name=text,
        samples=(
            SampleResult(
                id=text,
                status=SampleStatus.ANSWERED,
                scores=dict.fromkeys(metrics, Score.scored(0.1)),
                timings_ms={text: 1.0},
                oddities={text: 1},
            ),
        ),
        metrics={metric: Summary(value=0.1, scored=1) for metric in metrics},
        thresholds=(),
        retriever=RetrieverSettings(
            text,
            RetrieverMode.RERANK,
            10,
            30,
            text,
            100,
            2,
            dict.fromkeys(("mode", "topK", "rerankTopK", "scopePrefix"), text),
        ),
        stages=(StageLatency(text, 1, 1.0, 1.0, 1.0),),
        diagnosis=Diagnosis(
            10,
            100,
            1,
            (text,),
            (
                QueryDiagnosis(
                    query=text,
                    missing=(MissingDocument(text, 1, None, (text,)),),
                    pushed_out_by=(Distractor(text, 1, None),),
                    wanted=1,
                    searched=9,
                ),
            ),
            (NeverRetrieved(text, (text,), 3, 1.0),),
            (AlwaysRetrieved(text, 1.0, 1),),
        ),
    ).with_limits()
    return Run(id=text, verdict=NOT_GATED, exit_code=0, datasets=(dataset,))


def exchanges_full_of(text: str) -> list[StoredExchange]:
    """The texts of run_full_of."""
    scored = {text: Score.scored(0.1, text, {"statement": text})}
    calls = (ToolCall(text, {}, text, text, text), ToolCall(text, problem=text))
    reply = AgentReply(text, (text,), (text,), calls)
    talk = replace(reply, turns=(AgentTurn(text, reply), AgentTurn(text, replace(reply, tool_calls=None))))

    def sample(suffix: str) -> Sample:
        return Sample(text + suffix, (Message("user", text),), (text,), (text,), (text,), {text: 1}, (text,))

    return [
        StoredExchange(text, 1, Exchange(sample(""), reply), scored),
        StoredExchange(text, 1, Exchange(sample("2"), error=text), {}),
        StoredExchange(text, 1, Exchange(sample("3"), talk), scored),
        StoredExchange(text, 2, Exchange(sample("3"), error=text), {}),
    ]
