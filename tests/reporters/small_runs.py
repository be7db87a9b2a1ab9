"""Runs made for one test: a dataset of one metric, and one in which every text is the same."""

from evalspec.records import (
    AgentReply,
    AlwaysRetrieved,
    Attempt,
    DatasetResult,
    Diagnosis,
    Direction,
    Exchange,
    Intruder,
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
    SearchTrace,
    SliceResult,
    StageLatency,
    Summary,
    Threshold,
    ThresholdOutcome,
    Transcript,
    Variance,
    Verdict,
    VerdictStatus,
)

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def run_of(
    *values: float, status: VerdictStatus = FAIL, gated: VerdictStatus | None = None, slice: str | None = None, **limit
) -> Run:
    """Samples s-0, s-1, … at lines 1, 2, … of d.jsonl, of which the first has the tag `first`; one limit on `m`."""
    samples = tuple(
        SampleResult(
            f"s-{number}",
            SampleStatus.ANSWERED,
            tags=("first",) if number == 0 else (),
            latency_ms=10.0,
            scores={"m": Score.scored(value)},
            line=number + 1,
        )
        for number, value in enumerate(values)
    )
    mean = sum(values) / len(values)
    outcome = ThresholdOutcome(Threshold("m", slice=slice, **limit), status, mean, len(values), len(values), "why")
    dataset = DatasetResult(
        "d",
        {"m": Direction.HIGHER},
        samples,
        {"m": Summary("m", "mean", mean, None, len(values))},
        (outcome,),
        file="d.jsonl",
    )
    verdict = Verdict(gated or status, ("why",))
    return Run("r", verdict, {FAIL: 1, INCOMPLETE: 3}.get(verdict.status, 0), (dataset,))


def run_full_of(text: str) -> Run:
    """A failed run in which every name, id and reason is this text."""
    failed, scored = Score.failed(text), Score.scored(0.1, text, {"statement": text})
    samples = (
        SampleResult(text, SampleStatus.ANSWERED, (text,), {text: text}, 5.0, None, {text: scored}, 1),
        SampleResult(text + "2", SampleStatus.FAILED, (text,), {text: text}, None, text, {text: failed}, 2),
        SampleResult(
            text + "3",
            SampleStatus.ANSWERED,
            scores={text: scored},
            attempts=(
                Attempt(SampleStatus.ANSWERED, 5.0, scores={text: scored}, passed=False),
                Attempt(SampleStatus.FAILED, error=text, scores={text: failed}),
            ),
        ),
    )
    summary = Summary(text, "mean", 0.1, None, 2, failed=1)
    outcomes = (
        ThresholdOutcome(Threshold(text, min=0.5), FAIL, 0.1, 2, 3, text),
        ThresholdOutcome(Threshold(text, min=0.5, slice=text), INCOMPLETE, None, 0, 1, text),
    )
    dataset = DatasetResult(
        text,
        {text: Direction.HIGHER},
        samples,
        {text: summary},
        outcomes,
        (SliceResult(text, 2, {text: summary}),),
        text,
        RepeatSummary(2, 1, {1: 0.5, 2: 1.0}, {1: 0.5, 2: 0.0}, (text,), {text: Variance(0.1, 0.1, None)}),
    )
    regressions = (RegressionOutcome(text, text, FAIL, 0.5, 0.1, -0.4, (-0.5, -0.3), 0.01, 2, text),)
    fingerprint = {"agent": {"name": text}}
    return Run(text, Verdict(FAIL, (text,)), 1, (dataset,), (text,), fingerprint, regressions=regressions)


def retrieval_full_of(text: str) -> Run:
    """The same of a run of which everything was asked of a retriever that reranks."""
    metrics = (text, f"retrieved.{text}", f"gain.{text}")
    dataset = DatasetResult(
        text,
        dict.fromkeys(metrics, Direction.HIGHER),
        (
            SampleResult(
                text,
                SampleStatus.ANSWERED,
                scores=dict.fromkeys(metrics, Score.scored(0.1)),
                trace=SearchTrace({text: 1.0}, {text: 1}),
            ),
        ),
        {metric: Summary(metric, "mean", 0.1, None, 1) for metric in metrics},
        (),
        retriever=RetrieverSettings(
            text, text, 10, 30, text, 100, 2, dict.fromkeys(("mode", "topK", "rerankTopK", "scopePrefix"), text)
        ),
        stages=(StageLatency(text, 1, 1.0, 1.0, 1.0),),
        diagnosis=Diagnosis(
            10,
            100,
            1,
            (text,),
            (
                QueryDiagnosis(
                    text, (MissingDocument(text, 1, None, (text,)),), (Intruder(text, 1, None),), wanted=1, searched=9
                ),
            ),
            (NeverRetrieved(text, (text,), 3, 1.0),),
            (AlwaysRetrieved(text, 1.0, 1),),
        ),
    )
    return Run(text, Verdict(NOT_GATED), 0, (dataset,))


def transcripts_full_of(text: str) -> list[Transcript]:
    """The texts of run_full_of."""
    scored = {text: Score.scored(0.1, text, {"statement": text})}
    reply = AgentReply(text, (text,), (text,))

    def sample(suffix: str) -> Sample:
        return Sample(text + suffix, (Message("user", text),), (text,), (text,), (text,), {text: 1}, (text,))

    return [
        Transcript(text, 1, Exchange(sample(""), reply), scored),
        Transcript(text, 1, Exchange(sample("2"), error=text), {}),
        Transcript(text, 1, Exchange(sample("3"), reply), scored),
        Transcript(text, 2, Exchange(sample("3"), error=text), {}),
    ]
