"""The records of a comparison of runs: what `compare` prints as JSON, REST returns, and pages and reports show."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import force_setattr

from evalspec.model.base import Interval, Number, Record, refuse_infinite
from evalspec.model.summaries import Direction

Words = tuple[str, ...]


class Change(StrEnum):
    """The conclusion for a metric. None of the last three means that nothing changed."""

    IMPROVED = "improved"
    DEGRADED = "degraded"
    UNDECIDED = "undecided"
    TOO_FEW = "too few samples"
    NOT_TESTED = "not tested"


class SampleKind(StrEnum):
    """The change of a sample. MIXED: better by one metric and worse by another."""

    DEGRADED = "degraded"
    MIXED = "mixed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    UNSCORED = "not scored in one"
    ONLY_BASELINE = "only in the baseline"
    ONLY_CANDIDATE = "only in the candidate"


class Delta(Record, frozen=True):
    """A number of both runs over the samples with scores in both."""

    baseline: Number | None
    candidate: Number | None
    delta: Annotated[Number | None, Meta(description="Candidate minus baseline.")]
    interval: Annotated[
        Interval | None, Meta(description="Of the delta, at `confidence`. All of a metric hold at 1 - alpha.")
    ]
    pairs: Annotated[int, Meta(description="Number of samples with scores in both.")]
    relative: Annotated[
        float | None, Meta(description="The delta as a share of the baseline; null: the baseline is 0 or unknown.")
    ] = None

    def __post_init__(self) -> None:
        """Complete the share, and refuse numbers that JSON cannot represent."""
        refuse_infinite((self.baseline, self.candidate, self.delta, *(self.interval or ())))
        share = self.delta / abs(self.baseline) if self.delta is not None and self.baseline else None
        force_setattr(self, "relative", share)


class RequiredSampleSize(Record, frozen=True):
    """About how many samples would detect a change that the pairs cannot."""

    change: float
    samples: int


class MetricChange(Delta, frozen=True, kw_only=True):
    """The change of a metric of a dataset, and what may be said about it."""

    metric: str
    statistic: str
    direction: Direction
    verdict: Change
    test: Annotated[str | None, Meta(description="The paired test; null: none.")] = None
    p_value: Annotated[float | None, Meta(description="Two-sided p-value of the test.")] = None
    p_adjusted: Annotated[float | None, Meta(description="`pValue` adjusted over all tests of the comparison.")] = None
    detectable: Annotated[
        float | None, Meta(description="The smallest true change that the test detects in four of five comparisons.")
    ] = None
    cohens_dz: float | None = None
    superiority: Annotated[
        float | None, Meta(description="Share of pairs in which the candidate is higher. Ties count half.")
    ] = None
    reason: Annotated[str | None, Meta(description="Why the conclusion is limited.")] = None
    units: Annotated[int, Meta(description="Independent samples or clusters among the pairs.")] = 0
    unpaired: Annotated[int, Meta(description="Samples with a score in one run only.")] = 0
    required_size: RequiredSampleSize | None = None
    confidence: Annotated[float, Meta(description="Of the interval.")] = 0.95


class SliceChange(Record, frozen=True):
    """A slice of a dataset with its deltas by metric."""

    name: str
    pairs: int
    small: Annotated[bool, Meta(description="Whether it has too few pairs to be ranked.")]
    metrics: Mapping[str, Delta]


class ScoreChange(Record, frozen=True):
    """A score before and after. A side without a value has a status instead."""

    before: float | str
    after: float | str


class RankMove(Record, frozen=True):
    """A relevant document and its ranks, from 1; null: not retrieved."""

    document: str
    before: int | None
    after: int | None


class AttemptNumber(Record, frozen=True):
    """The number of the attempt that is shown, and how many both runs have."""

    number: int
    of: int


class SideBySide(Record, frozen=True):
    """The texts of a sample in both runs. An answer is null if there is no reply or its text is not stored."""

    question: str
    baseline: str | None
    candidate: str | None
    rank_moves: tuple[RankMove, ...]
    attempt: Annotated[AttemptNumber | None, Meta(description="null: there is only one.")] = None


class SampleChange(Record, frozen=True):
    """A sample with different scores in the runs, and these scores by metric."""

    id: str
    kind: SampleKind
    scores: Mapping[str, ScoreChange] = {}
    texts: Annotated[SideBySide | None, Meta(description="Of the samples that changed most; null: not read.")] = None


class DatasetComparison(Record, frozen=True, kw_only=True):
    """A dataset of both runs."""

    name: str
    candidate_name: Annotated[str, Meta(description="Its name in the candidate.")]
    pairs: int
    metrics: Mapping[str, MetricChange]
    metrics_only_in_baseline: Words
    metrics_only_in_candidate: Words
    slices: tuple[SliceChange, ...]
    sample_counts: Annotated[Mapping[SampleKind, int], Meta(description="Number of samples of every kind.")]
    samples: Annotated[tuple[SampleChange, ...], Meta(description="The changed ones, worst first.")]


class ComparedRun(Record, frozen=True):
    """One of the compared runs, with the name that the user gave."""

    name: str
    run_id: str
    kind: Annotated[str, Meta(description="The source: a stored run, or the kind of its file.")]
    notes: Annotated[Words, Meta(description="What could not be compared or is unknown.")]


class CandidateComparison(ComparedRun, frozen=True, kw_only=True):
    """A candidate compared with the baseline."""

    mismatches: Annotated[Words, Meta(description="Why the runs are not comparable, which the user allowed.")]
    differences: Annotated[Words, Meta(description="Other differences between the runs.")]
    datasets: tuple[DatasetComparison, ...]

    @property
    def changes(self) -> list[MetricChange]:
        """Return the changes of all metrics of all datasets."""
        return [change for dataset in self.datasets for change in dataset.metrics.values()]


class RunPair(Record, frozen=True):
    """A metric of a dataset in two candidates. The first is the baseline of `change`."""

    dataset: Annotated[str, Meta(description="Its name in the baseline of the comparison.")]
    first: str
    second: str
    change: MetricChange


class BestRun(Record, frozen=True):
    """The runs that may be the best by a metric of a dataset: not significantly worse than any other.

    One alone is the best.
    """

    dataset: str
    metric: str
    samples: Annotated[int, Meta(description="Number of samples that all runs have scored.")]
    means: Annotated[Mapping[str, float], Meta(description="Of all runs over these samples, best first.")]
    possible: Annotated[Words, Meta(description="The names of the runs that may be the best, best first.")]


class Comparison(Record, frozen=True, kw_only=True):
    """Candidates compared with a baseline, sample by sample."""

    schema_version: Literal[1] = 1
    kind: Literal["evalspec comparison"] = "evalspec comparison"
    exit_code: int = 0
    baseline: ComparedRun
    alpha: float
    confidence: Annotated[
        float, Meta(description="Of each interval. All intervals of a metric hold together at 1 - alpha.")
    ]
    resamples: int
    seed: int
    tests: Annotated[int, Meta(description="Number of p-values that are adjusted together.")]
    candidates: tuple[CandidateComparison, ...]
    rivals: Annotated[tuple[RunPair, ...], Meta(description="The candidates compared with each other.")]
    best_runs: Annotated[tuple[BestRun, ...], Meta(description="By dataset and metric.")]

    @property
    def degraded(self) -> bool:
        """Return whether any metric of any candidate is worse by more than noise."""
        return any(change.verdict is Change.DEGRADED for one in self.candidates for change in one.changes)
