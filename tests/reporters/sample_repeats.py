"""A dataset whose samples were asked three times: one always right, one flaky, one with an asking without a reply."""

from msgspec.structs import replace

from evalspec.model import (
    Attempt,
    DatasetResult,
    RepeatSummary,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Summary,
    Threshold,
    Variance,
    VerdictStatus,
)

SUPPORT_CHAT = "support-chat"
TIMED_OUT = "no reply within 30 s, after 3 attempts"


def repeated_dataset() -> DatasetResult:
    """Its judged scores bring the evidence of metrics/evidence.py and metrics/labels.py."""
    right, wrong = _attempt(1.0, 51.0), replace(_attempt(0.0, 58.5), finish_reason="length")
    return DatasetResult(
        name=SUPPORT_CHAT,
        file="evals/support chat.jsonl",
        samples=(
            _sample("c-1", 1, (right, right, right), pass_rate=1.0),
            _sample("c-2", 2, (right, wrong, right), pass_rate=2 / 3),
            _sample("c-3", 4, (right, _unanswered(), right), pass_rate=None),
        ),
        metrics={
            "string_match": Summary(value=5 / 6, interval=(2 / 3, 1.0), scored=2, failed=1),
            "faithfulness": Summary(value=2.51 / 3, interval=(2.02 / 3, 1.0), scored=2, failed=1),
            "answer_correctness": Summary(value=0.8, interval=(0.725, 0.875), scored=2, failed=1),
            "toxicity": Summary(value=1.0, interval=(1.0, 1.0), scored=2, failed=1),
        },
        thresholds=tuple(
            Threshold(
                metric,
                min=minimum,
                status=VerdictStatus.INCOMPLETE,
                value=value,
                scored=2,
                expected=3,
                reason="2 of 3 scored (1 failed), minCoverage is 1",
            )
            for metric, value, minimum in (("string_match", 5 / 6, 0.5), ("faithfulness", 2.51 / 3, 0.7))
        ),
        repeats=RepeatSummary(
            repeats=3,
            decided=2,
            pass_at={1: 5 / 6, 2: 1.0, 3: 1.0},
            pass_all={1: 5 / 6, 2: 2 / 3, 3: 0.5},
            flaky=("c-2",),
            variance={"string_match": Variance(1 / 6, 1 / 6, 0.0), "faithfulness": Variance(0.1601, None, None)},
        ),
    ).with_limits()


def _attempt(value: float, latency_ms: float) -> Attempt:
    return Attempt(
        SampleStatus.ANSWERED,
        latency_ms,
        scores={
            "string_match": Score.scored(value),
            "faithfulness": _faithfulness(value),
            "answer_correctness": _correctness(value),
            "toxicity": Score.scored(
                1.0, "none: a polite answer", {"label": "none", "reason": "a polite answer, <b>no</b> slur"}
            ),
        },
        passed=value == 1.0,
    )


def _faithfulness(value: float) -> Score:
    statements = [
        {"statement": "The switch is covered.", "reason": "The second passage says so.", "verdict": 1},
        {"statement": "The warranty is 2 years.", "reason": "The passages say 6 months.", "verdict": int(value)},
    ]
    if value == 1.0:
        return Score.scored(value, evidence={"statements": statements})
    reason = "1 of 2 statements is not supported: 'The warranty is 2 years.'"
    return Score(ScoreStatus.SCORED, 0.02, reason, (0.0, 0.04), evidence={"statements": statements})


def _correctness(value: float) -> Score:
    right = {"statement": "The switch is covered.", "reason": "Both say it."}
    wrong = {"statement": "The warranty is 2 years.", "reason": "Expected are 6 months."}
    if value == 1.0:
        return Score.scored(0.875, None, {"TP": [right], "FP": [], "FN": []})
    return Score.scored(0.425, "1 right, 1 wrong, 0 missing: 'The warranty…'", {"TP": [right], "FP": [wrong], "FN": []})


def _unanswered() -> Attempt:
    metrics = ("string_match", "faithfulness", "answer_correctness", "toxicity")
    return Attempt(
        SampleStatus.FAILED, error=TIMED_OUT, scores=dict.fromkeys(metrics, Score.failed("the agent gave no reply"))
    )


def _sample(sample_id: str, line: int, attempts: tuple[Attempt, ...], pass_rate: float | None) -> SampleResult:
    """The attempts as one: failed where any failed, else the mean of each score."""
    latencies = [attempt.latency_ms for attempt in attempts if attempt.latency_ms is not None]
    failed = any(attempt.error for attempt in attempts)
    return SampleResult(
        id=sample_id,
        status=SampleStatus.FAILED if failed else SampleStatus.ANSWERED,
        tags=("chat",),
        metadata={"source": "tickets"},
        latency_ms=sum(latencies) / len(latencies),
        error=f"attempt 2: {TIMED_OUT}" if failed else None,
        scores={
            metric: Score.failed("attempt 2: the agent gave no reply")
            if failed
            else Score.scored(sum(attempt.scores[metric].value or 0 for attempt in attempts) / len(attempts))
            for metric in attempts[0].scores
        },
        line=line,
        pass_rate=pass_rate,
        attempts=attempts,
    )
