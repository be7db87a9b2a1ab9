"""One Run that holds everything a reporter must be able to say of an agent, and the texts of its samples.

`python tests/reporters/sample_run.py` rewrites the golden files from it; read the difference before you commit it.
"""

import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from evalspec.model import (
    Cause,
    DatasetResult,
    Direction,
    JudgeUsage,
    RegressionOutcome,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    SliceResult,
    StoredExchange,
    Summary,
    Threshold,
    VerdictStatus,
)
from fingerprints import as_fingerprint
from reporters.sample_repeats import repeated_dataset
from reporters.sample_texts import exchange_of

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_REPORTS = ("report.json", "report.junit.xml", "report.md", "report.csv", "report.jsonl", "report.sarif")
"""Those of which a file is kept and compared; a form that has no text is read back instead."""

LONG_ID = "a-very-long-identifier-of-a-sample-0003"
HOSTILE_ID = "\x1b[2Jq\n7 [red]x[/red] \u202egnp.\u0007\x9b31m"
HOSTILE_REASON = 'line one\r\nline two \x1b]0;owned\x07 [bold]"quoted"[/] \ud800 half a pair'
NO_JUDGE = "no judge (--no-judge)"

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def sample_run() -> Run:
    """Four datasets: one with every kind of threshold and score, one that is fine, one without any threshold, and one
    whose samples were asked three times."""
    run = _run_with_evidence()
    return replace(run, datasets=tuple(map(_without_evidence, run.datasets)))


def _without_evidence(dataset: DatasetResult) -> DatasetResult:
    def bare(asking: Any) -> Any:
        return replace(asking, scores={metric: score.without_evidence() for metric, score in asking.scores.items()})

    samples = (replace(bare(sample), attempts=tuple(map(bare, sample.attempts))) for sample in dataset.samples)
    return replace(dataset, samples=tuple(samples))


def _run_with_evidence() -> Run:
    return Run(
        id="20261121T061500Z-0a1b2c3d",
        verdict=FAIL,
        reasons=(
            "rag-quality: Recall@5 [advanced]: 0.25 is below 0.9",
            "rag-quality: string_match: 0.7996 is below 0.8",
            "rag-quality: latency_p95: 2143 is above 2000",
            "rag-quality: string_match: 0.0504 worse than the baseline, maxDrop is 0.02",
            "rag-quality: 2 samples fail that passed in the baseline, newFailures is 0",
            "undecided: rag-quality: context_recall: 4 of 6 scored (2 failed), minCoverage is 1",
            "undecided: rag-quality: 1 of 6 samples have no reply, maxErrorRate is 0",
            "undecided: support-chat: string_match: 2 of 3 scored (1 failed), minCoverage is 1",
            "undecided: support-chat: faithfulness: 2 of 3 scored (1 failed), minCoverage is 1",
            "undecided: support-chat: 1 of 3 samples have no reply, maxErrorRate is 0",
            "undecided: support-chat: faithfulness: 2 pairs are too few to tell",
        ),
        partial=True,
        exit_code=1,
        datasets=(_rag_quality(), _accuracy(), _open_ended(), repeated_dataset()),
        regressions=_regressions(),
        notes=("local embeddings score paraphrases lower than hosted ones do",),
        judge_usage={"faithfulness": JudgeUsage(12, 1, 12_345, 678), "bias": JudgeUsage(5, 0, 0, 0, uncounted=5)},
        fingerprint=as_fingerprint(
            {
                "agent": {"name": "support-bot"},
                "selection": {"seed": 7},
                "judge": {"model": "gpt-4o-mini", "parameters": {"temperature": 0.0}},
            }
        ),
    )


def sample_exchanges() -> list[StoredExchange]:
    """The texts of every asking of every sample of sample_run(), in the order of its samples."""
    return [
        StoredExchange(dataset.name, number, exchange_of(dataset.name, sample, attempt), attempt.scores)
        for dataset in _run_with_evidence().datasets
        for sample in dataset.samples
        for number, attempt in enumerate(list[Any](sample.attempts or (sample,)), 1)
    ]


def _regressions() -> tuple[RegressionOutcome, ...]:
    return (
        RegressionOutcome(
            "rag-quality",
            "string_match",
            FAIL,
            baseline=0.85,
            candidate=0.7996,
            delta=-0.0504,
            interval=(-0.09, -0.01),
            p_value=0.012,
            pairs=5,
            reason="0.0504 worse than the baseline, maxDrop is 0.02",
        ),
        RegressionOutcome("rag-quality", "latency_p95", PASS, 2100.0, 2143.4, 43.4, (-20.0, 110.0), 0.4, 5),
        RegressionOutcome("précision [fr]", "answer_similarity", PASS, 0.8, 0.81, 0.01, (-0.01, 0.03), 0.5, 3),
        RegressionOutcome(
            "support-chat", "faithfulness", INCOMPLETE, baseline=0.9, pairs=2, reason="2 pairs are too few to tell"
        ),
        RegressionOutcome(
            "rag-quality", None, FAIL, reason="2 samples fail that passed in the baseline, newFailures is 0"
        ),
    )


def _rag_quality() -> DatasetResult:
    return DatasetResult(
        name="rag-quality",
        file="evals/rag.jsonl",
        samples=(
            _answered("q-1", 38.2, line=1, string_match=1.0, recall=1.0, context_recall=0.9, tags=("basic",)),
            _answered("q-2", 2143.4, line=2, string_match=0.9996, recall=1.0, context_recall=1.0, tags=("basic",)),
            _answered(LONG_ID, 51.0, line=3, string_match=0.5, recall=0.5, context_recall=None),
            _answered(
                HOSTILE_ID, 44.9, line=5, string_match=0.4988, recall=0.0, context_recall=0.7, tags=("advanced",)
            ),
            _answered("q-5", 61.4, line=6, string_match=0.9996, recall=None, context_recall=0.8),
            SampleResult(
                id="q-6",
                status=SampleStatus.FAILED,
                line=7,
                tags=("advanced",),
                metadata={"source": "tickets", "weight": 1.5},
                error="HTTP 500 after 3 attempts: [Errno 5] upstream said <b>no</b>",
                scores=dict.fromkeys(("string_match", "Recall@5", "context_recall"), Score.failed("no reply"))
                | dict.fromkeys(("faithfulness", "hallucination", "noise_sensitivity"), Score.skipped(NO_JUDGE))
                | {"latency_p95": Score.not_applicable("no reply", Cause.REPLY)},
                digest="0123456789abcdef",
            ),
        ),
        metrics={
            "string_match": Summary(value=0.79960, interval=(0.51, 0.98), scored=5, failed=1),
            "Recall@5": Summary(
                value=0.625, interval=(0.125, 1.0), scored=4, failed=1, not_applicable_causes={Cause.DATASET: 1}
            ),
            "context_recall": Summary(value=0.85, interval=(0.75, 0.95), scored=4, failed=2),
            "faithfulness": Summary(value=None, scored=0, skipped=6),
            "hallucination": Summary(direction=Direction.LOWER, value=None, scored=0, skipped=6),
            "noise_sensitivity": Summary(direction=Direction.LOWER, value=None, scored=0, skipped=6),
            "latency_p95": Summary(
                direction=Direction.LOWER,
                statistic="p95",
                value=2143.4,
                interval=(51.0, 2143.4),
                scored=5,
                not_applicable_causes={Cause.REPLY: 1},
            ),
        },
        thresholds=(
            Threshold(
                "string_match", min=0.8, status=FAIL, value=0.7996, scored=5, expected=6, reason="0.7996 is below 0.8"
            ),
            Threshold(
                "Recall@5",
                min=0.9,
                slice="advanced",
                status=FAIL,
                value=0.25,
                scored=2,
                expected=2,
                reason="0.25 is below 0.9",
            ),
            Threshold("string_match", min=0.25, stat="min", status=PASS, value=0.4988, scored=5, expected=6),
            Threshold(
                "context_recall",
                min=0.75,
                status=INCOMPLETE,
                value=0.85,
                scored=4,
                expected=6,
                reason="4 of 6 scored (2 failed), minCoverage is 1",
            ),
            Threshold("faithfulness", min=0.8, status=NOT_GATED, value=None, scored=0, expected=6, reason=NO_JUDGE),
            Threshold("hallucination", max=0.05, status=NOT_GATED, value=None, scored=0, expected=6, reason=NO_JUDGE),
            Threshold(
                "latency_p95", max=2000, status=FAIL, value=2143.4, scored=5, expected=5, reason="2143 is above 2000"
            ),
        ),
    ).with_limits()


def _answered(
    sample_id: str,
    latency_ms: float,
    *,
    line: int,
    string_match: float,
    recall: float | None,
    context_recall: float | None,
    tags: tuple[str, ...] = (),
) -> SampleResult:
    reason = HOSTILE_REASON if sample_id == HOSTILE_ID else None
    return SampleResult(
        id=sample_id,
        status=SampleStatus.ANSWERED,
        tags=tags,
        line=line,
        latency_ms=latency_ms,
        finish_reason="stop" if sample_id == "q-2" else None,
        scores={
            "string_match": Score.scored(string_match, reason),
            "Recall@5": Score.not_applicable("no document is relevant", Cause.DATASET)
            if recall is None
            else Score.scored(recall),
            "context_recall": Score.failed("judge answered prose, twice")
            if context_recall is None
            else _context_recall(context_recall),
            "faithfulness": Score.skipped(NO_JUDGE),
            "hallucination": Score.skipped(NO_JUDGE),
            "noise_sensitivity": Score.skipped(NO_JUDGE),
            "latency_p95": Score.scored(latency_ms),
        },
    )


def _context_recall(value: float) -> Score:
    statements = [
        {"statement": "A lamp can be returned.", "reason": "The first context says so.", "attributed": 1},
        {
            "statement": "It takes <b>30</b> days.",
            "reason": "No context tells.",
            "attributed": int(value == 1),
        },
    ]
    against = None if value == 1 else "1 of 2 reference statements is not in the contexts: 'It takes <b>30</b> days.'"
    return Score.scored(value, against, {"statements": statements})


def _accuracy() -> DatasetResult:
    """Its gate passes, and one of its samples lies below the limit all the same."""
    return DatasetResult(
        name="précision [fr]",
        file="evals/précision [fr] #1.jsonl",
        samples=tuple(
            SampleResult(
                id=f"問い-{number}",
                status=SampleStatus.ANSWERED,
                line=number + 1,
                latency_ms=40.0 + number,
                scores={"answer_similarity": Score.scored(0.795 + number * 0.015), "error_rate": Score.scored(0)},
            )
            for number in range(3)
        ),
        metrics={
            "answer_similarity": Summary(value=0.81, interval=(0.795, 0.825), scored=3),
            "error_rate": Summary(direction=Direction.LOWER, value=0.0, interval=(0.0, 0.0), scored=3),
        },
        thresholds=(
            Threshold("answer_similarity", min=0.8, status=PASS, value=0.81, scored=3, expected=3),
            Threshold("answer_similarity", max=0.995, status=PASS, value=0.81, scored=3, expected=3),
        ),
        slices=(
            SliceResult(
                name="level=hard",
                selected=2,
                metrics={
                    "answer_similarity": Summary(value=0.8025, interval=(0.795, 0.81), scored=2, median=0.8025),
                    "error_rate": Summary(direction=Direction.LOWER, value=None, scored=0, failed=2),
                },
            ),
            SliceResult(
                name=HOSTILE_ID,
                selected=1,
                metrics={
                    "answer_similarity": Summary(value=0.825, scored=1, median=0.825),
                    "error_rate": Summary(direction=Direction.LOWER, value=0.0, scored=1, median=0.0),
                },
                small=True,
            ),
        ),
    ).with_limits()


def _open_ended() -> DatasetResult:
    values = (0.9, 0.2, 0.7, 0.3, 0.4, 0.1, 0.35, 0.25)
    return DatasetResult(
        name="open-ended",
        file="evals/open-ended.parquet",
        samples=tuple(
            SampleResult(
                id=f"o-{number}",
                status=SampleStatus.ANSWERED,
                latency_ms=12.0,
                scores={
                    "chrf": Score.scored(value),
                    "tokens_mean": Score.not_applicable("the reply tells no usage", Cause.REPLY),
                },
            )
            for number, value in enumerate(values)
        ),
        metrics={
            "chrf": Summary(value=0.4, interval=(0.23, 0.59), scored=8),
            "tokens_mean": Summary(
                direction=Direction.LOWER, value=None, scored=0, not_applicable_causes={Cause.REPLY: 8}
            ),
        },
        thresholds=(),
    ).with_limits()


if __name__ == "__main__":
    from evalspec.reports.base import reporter_for
    from evalspec.reports.terminal import render_terminal
    from reporters.sample_retrieval import RETRIEVAL_REPORTS, retrieval_exchanges, retrieval_run

    for name, run in {"terminal.txt": sample_run(), "retrieval.txt": retrieval_run()}.items():
        (GOLDEN / name).write_text(render_terminal(run, width=100, color=False), encoding="utf-8")
    for names, run, exchanges in (
        (GOLDEN_REPORTS, sample_run(), sample_exchanges),
        (RETRIEVAL_REPORTS, retrieval_run(), retrieval_exchanges),
    ):
        for name in names:
            content = reporter_for(GOLDEN / name).render(run, exchanges)
            (GOLDEN / name).write_bytes(content.encode() if isinstance(content, str) else content)
