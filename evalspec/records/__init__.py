"""Every type that crosses from one stage to the next. All are frozen; none knows where it came from or goes to."""

from evalspec.records.exchanges import AgentReply, Exchange, JudgeUsage, Usage
from evalspec.records.runs import (
    DatasetResult,
    Direction,
    RegressionOutcome,
    RepeatSummary,
    Run,
    SliceResult,
    Summary,
    Threshold,
    ThresholdOutcome,
    Variance,
    Verdict,
    VerdictStatus,
)
from evalspec.records.samples import Document, Message, Need, Sample
from evalspec.records.scores import Attempt, SampleResult, SampleStatus, Score, ScoreStatus, Transcript

__all__ = [
    "AgentReply",
    "Attempt",
    "DatasetResult",
    "Direction",
    "Document",
    "Exchange",
    "JudgeUsage",
    "Message",
    "Need",
    "RegressionOutcome",
    "RepeatSummary",
    "Run",
    "Sample",
    "SampleResult",
    "SampleStatus",
    "Score",
    "ScoreStatus",
    "SliceResult",
    "Summary",
    "Threshold",
    "ThresholdOutcome",
    "Transcript",
    "Usage",
    "Variance",
    "Verdict",
    "VerdictStatus",
]
