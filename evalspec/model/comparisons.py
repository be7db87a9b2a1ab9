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
    """The change of a sample. MIXED: better by one metric and worse by another.

    The last three are in no number of the comparison.
    """

    DEGRADED = "degraded"
    MIXED = "mixed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    UNSCORED = "not scored in one"
    ONLY_BASELINE = "only in the baseline"
    ONLY_CANDIDATE = "only in the candidate"
    EDITED = "edited in the dataset"


class Delta(Record, frozen=True):
    """A number of both runs over the samples with scores in both."""

    baseline: Annotated[Number | None, Meta(description="Value in the baseline; null: unknown.")]
    candidate: Annotated[Number | None, Meta(description="Value in the candidate; null: unknown.")]
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


class PeopleDifference(Record, frozen=True, kw_only=True):
    """The change of a judged metric as people see it, from labels on both runs."""

    delta: Annotated[Number | None, Meta(description="Candidate minus baseline; null: see `reason`.")] = None
    interval: Annotated[Interval | None, Meta(description="Of the delta; null: see `reason`.")] = None
    labelled: Annotated[int, Meta(description="Samples that people have scored in both runs.")] = 0
    reason: Annotated[str | None, Meta(description="Why the delta is unknown; null: it is known.")] = None


class RequiredSampleSize(Record, frozen=True):
    """About how many samples would detect a change that the pairs cannot."""

    change: Annotated[float, Meta(description="The change that they would detect.")]
    samples: Annotated[int, Meta(description="Number of samples.")]


class MetricChange(Delta, frozen=True, kw_only=True):
    """The change of a metric of a dataset, and what may be said about it."""

    metric: Annotated[str, Meta(description="Name of the metric.")]
    statistic: Annotated[str, Meta(description="The statistic over the samples: mean, or a percentile such as p95.")]
    direction: Direction
    verdict: Change
    test: Annotated[str | None, Meta(description="The paired test; null: none.")] = None
    p_value: Annotated[float | None, Meta(description="Two-sided p-value of the test.")] = None
    p_adjusted: Annotated[float | None, Meta(description="`pValue` adjusted over all tests of the comparison.")] = None
    detectable: Annotated[
        float | None, Meta(description="The smallest true change that the test detects in four of five comparisons.")
    ] = None
    cohens_dz: Annotated[
        float | None, Meta(description="Mean of the differences over their standard deviation; null: unknown.")
    ] = None
    superiority: Annotated[
        float | None, Meta(description="Share of pairs in which the candidate is higher. Ties count half.")
    ] = None
    reason: Annotated[str | None, Meta(description="Why the conclusion is limited.")] = None
    units: Annotated[int, Meta(description="Independent samples or clusters among the pairs.")] = 0
    unpaired: Annotated[int, Meta(description="Samples with a score in one run only.")] = 0
    required_size: RequiredSampleSize | None = None
    confidence: Annotated[float, Meta(description="Of the interval.")] = 0.95
    people: Annotated[
        PeopleDifference | None, Meta(description="What people see; null: not both runs have their labels.")
    ] = None


class SliceChange(Record, frozen=True):
    """A slice of a dataset with its deltas by metric."""

    name: Annotated[str, Meta(description="Name of the slice.")]
    pairs: Annotated[int, Meta(description="Number of samples with scores in both runs.")]
    small: Annotated[bool, Meta(description="Whether it has too few pairs to be ranked.")]
    metrics: Annotated[Mapping[str, Delta], Meta(description="The deltas by metric.")]


class ScoreChange(Record, frozen=True):
    """A score before and after. A side without a value has a status instead."""

    before: Annotated[float | str, Meta(description="The score in the baseline, or its status.")]
    after: Annotated[float | str, Meta(description="The score in the candidate, or its status.")]


class RankMove(Record, frozen=True):
    """A relevant document and its ranks, from 1; null: not retrieved."""

    document: Annotated[str, Meta(description="Id of the document.")]
    before: Annotated[int | None, Meta(description="Rank in the baseline; null: not retrieved.")]
    after: Annotated[int | None, Meta(description="Rank in the candidate; null: not retrieved.")]


class AttemptNumber(Record, frozen=True):
    """The number of the attempt that is shown, and how many both runs have."""

    number: Annotated[int, Meta(description="The attempt, from 1.")]
    of: Annotated[int, Meta(description="Number of attempts.")]


class SideBySide(Record, frozen=True):
    """The texts of a sample in both runs. An answer is null if there is no reply or its text is not stored."""

    question: Annotated[str, Meta(description="The question.")]
    baseline: Annotated[str | None, Meta(description="The answer of the baseline; null: none, or not stored.")]
    candidate: Annotated[str | None, Meta(description="The answer of the candidate; null: none, or not stored.")]
    rank_moves: Annotated[tuple[RankMove, ...], Meta(description="Relevant documents whose rank changed.")]
    attempt: Annotated[AttemptNumber | None, Meta(description="null: there is only one.")] = None
    baseline_calls: Annotated[
        tuple[str, ...], Meta(description="Calls of tools in the baseline, each on one short line.")
    ] = ()
    candidate_calls: Annotated[tuple[str, ...], Meta(description="Calls of tools in the candidate.")] = ()


class SampleChange(Record, frozen=True):
    """A sample with different scores in the runs, and these scores by metric."""

    id: Annotated[str, Meta(description="Id of the sample.")]
    kind: SampleKind
    scores: Annotated[Mapping[str, ScoreChange], Meta(description="The changed scores by metric.")] = {}
    texts: Annotated[SideBySide | None, Meta(description="Of the samples that changed most; null: not read.")] = None


class DatasetComparison(Record, frozen=True, kw_only=True):
    """A dataset of both runs."""

    name: Annotated[str, Meta(description="Name of the dataset in the baseline.")]
    candidate_name: Annotated[str, Meta(description="Its name in the candidate.")]
    pairs: Annotated[int, Meta(description="Number of samples that are the same in both runs.")]
    metrics: Annotated[Mapping[str, MetricChange], Meta(description="The changes by metric.")]
    metrics_only_in_baseline: Annotated[Words, Meta(description="Metrics that the candidate lacks.")]
    metrics_only_in_candidate: Annotated[Words, Meta(description="Metrics that the baseline lacks.")]
    slices: Annotated[tuple[SliceChange, ...], Meta(description="The changes by slice.")]
    sample_counts: Annotated[Mapping[SampleKind, int], Meta(description="Number of samples of every kind.")]
    samples: Annotated[tuple[SampleChange, ...], Meta(description="The changed ones, worst first.")]


class ComparedRun(Record, frozen=True):
    """One of the compared runs, with the name that the user gave."""

    name: Annotated[str, Meta(description="The name that the user gave.")]
    run_id: Annotated[str, Meta(description="Id of the run.")]
    kind: Annotated[str, Meta(description="The source: a stored run, or the kind of its file.")]
    notes: Annotated[Words, Meta(description="What could not be compared or is unknown.")]


class CandidateComparison(ComparedRun, frozen=True, kw_only=True):
    """A candidate compared with the baseline."""

    mismatches: Annotated[Words, Meta(description="Why the runs are not comparable, which the user allowed.")]
    differences: Annotated[Words, Meta(description="Other differences between the runs.")]
    datasets: Annotated[tuple[DatasetComparison, ...], Meta(description="The datasets of both runs.")]

    @property
    def changes(self) -> list[MetricChange]:
        """Return the changes of all metrics of all datasets."""
        return [change for dataset in self.datasets for change in dataset.metrics.values()]


class RunPair(Record, frozen=True):
    """A metric of a dataset in two candidates. The first is the baseline of `change`."""

    dataset: Annotated[str, Meta(description="Its name in the baseline of the comparison.")]
    first: Annotated[str, Meta(description="Name of the first candidate.")]
    second: Annotated[str, Meta(description="Name of the second candidate.")]
    change: MetricChange


class BestRun(Record, frozen=True):
    """The runs that may be the best by a metric of a dataset: not significantly worse than any other.

    One alone is the best.
    """

    dataset: Annotated[str, Meta(description="Name of the dataset.")]
    metric: Annotated[str, Meta(description="Name of the metric.")]
    samples: Annotated[int, Meta(description="Number of samples that all runs have scored.")]
    means: Annotated[Mapping[str, float], Meta(description="Of all runs over these samples, best first.")]
    possible: Annotated[Words, Meta(description="The names of the runs that may be the best, best first.")]


class Comparison(Record, frozen=True, kw_only=True):
    """Candidates compared with a baseline, sample by sample."""

    schema_version: Annotated[Literal[1], Meta(description="Version of this document.")] = 1
    kind: Annotated[Literal["evalspec comparison"], Meta(description="What the document is.")] = "evalspec comparison"
    exit_code: Annotated[int, Meta(description="The exit code of the command.")] = 0
    baseline: ComparedRun
    alpha: Annotated[float, Meta(description="The significance level.")]
    confidence: Annotated[
        float, Meta(description="Of each interval. All intervals of a metric hold together at 1 - alpha.")
    ]
    resamples: Annotated[int, Meta(description="Number of resamples of each test and interval.")]
    seed: Annotated[int, Meta(description="Seed of the resamples.")]
    tests: Annotated[int, Meta(description="Number of p-values that are adjusted together.")]
    candidates: Annotated[tuple[CandidateComparison, ...], Meta(description="Each candidate against the baseline.")]
    rivals: Annotated[tuple[RunPair, ...], Meta(description="The candidates compared with each other.")]
    best_runs: Annotated[tuple[BestRun, ...], Meta(description="By dataset and metric.")]

    @property
    def degraded(self) -> bool:
        """Return whether any metric of any candidate is worse by more than noise."""
        return any(change.verdict is Change.DEGRADED for one in self.candidates for change in one.changes)
