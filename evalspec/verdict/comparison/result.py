"""The results of a comparison as data, for the terminal, Markdown and JSON."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from evalspec.model import Direction, Run, StoredExchange

Texts = Callable[[Collection[tuple[str, str]]], Iterable[StoredExchange]]
"""Reads the exchanges of the given samples, as (dataset, id)."""


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


class NamedRun(Struct, frozen=True):
    """A run and the name that the user gave. `kind`: its source. `notes`: information that the comparison lacks.

    `texts`: reads its texts, None if it has none. `anchor`: of a baseline that has one.
    """

    name: str
    run: Run
    kind: str = "run"
    notes: tuple[str, ...] = ()
    texts: Texts | None = None
    anchor: Run | None = None


class Delta(Struct, frozen=True):
    """A number of both runs over the `pairs` samples with scores in both.

    `delta`: candidate minus baseline. `interval`: its confidence interval, at the confidence of the comparison.
    """

    baseline: float | None
    candidate: float | None
    delta: float | None
    interval: tuple[float, float] | None
    pairs: int

    @property
    def relative(self) -> float | None:
        """Return the delta as a share of the baseline; None if the baseline is 0."""
        return self.delta / abs(self.baseline) if self.delta is not None and self.baseline else None


class MetricChange(Struct, frozen=True):
    """The change of a metric of a dataset.

    `p_value`: two-sided, of the paired `test`. `adjusted`: the same over all tests of the comparison. `detectable`: the
    smallest true change that the test detects in four of five such comparisons. `superiority`: the share of pairs in
    which the candidate is higher; ties count half. `units`: independent samples or clusters among the pairs.
    `unpaired`: samples with a score in one run only. `settles`: a change too small for these pairs, and about how many
    would detect it. `confidence`: of the interval. `reason`: why the conclusion is limited.
    """

    metric: str
    statistic: str
    direction: Direction
    found: Delta
    change: Change
    p_value: float | None = None
    adjusted: float | None = None
    test: str | None = None
    detectable: float | None = None
    cohens_dz: float | None = None
    superiority: float | None = None
    reason: str | None = None
    units: int = 0
    unpaired: int = 0
    settles: tuple[float, int] | None = None
    confidence: float = 0.95


class SliceChange(Struct, frozen=True):
    """A slice of a dataset with its deltas by metric. `small`: whether it has too few pairs to be ranked."""

    name: str
    pairs: int
    small: bool
    metrics: Mapping[str, Delta]


class ScoreChange(Struct, frozen=True):
    """A score before and after. A side without a value has a status instead."""

    metric: str
    before: float | str
    after: float | str


class SampleChange(Struct, frozen=True):
    """A sample with different scores in the runs, and these scores."""

    id: str
    kind: SampleKind
    scores: tuple[ScoreChange, ...] = ()


class DatasetComparison(Struct, frozen=True):
    """A dataset of both runs. `candidate_name`: its name in the candidate.

    `samples`: the changed ones, worst first. `counts`: the number of samples of every kind.
    """

    name: str
    candidate_name: str
    pairs: int
    metrics: tuple[MetricChange, ...]
    metrics_only_baseline: tuple[str, ...]
    metrics_only_candidate: tuple[str, ...]
    slices: tuple[SliceChange, ...]
    samples: tuple[SampleChange, ...]
    counts: Mapping[SampleKind, int]


class CandidateComparison(Struct, frozen=True):
    """A candidate compared with the baseline.

    `mismatches`: reasons why the runs are not comparable, which the user allowed. `differences`: other differences
    between the runs. `notes`: what could not be compared or is unknown.
    """

    candidate: NamedRun
    datasets: tuple[DatasetComparison, ...]
    mismatches: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[MetricChange]:
        """Return the changes of all metrics of all datasets."""
        return [change for dataset in self.datasets for change in dataset.metrics]


class RunPair(Struct, frozen=True):
    """A metric of a dataset in two candidates, by their numbers, counted from 1. The first is the baseline of `change`.

    `dataset`: its name in the baseline of the comparison.
    """

    dataset: str
    first: int
    second: int
    change: MetricChange


class BestRun(Struct, frozen=True):
    """The runs that may be the best by a metric of a dataset: not significantly worse than any other.

    `possible`: their names, best first. One alone is the best. `means`: of every run by its name, best first, over the
    `samples` that all of them have scored.
    """

    dataset: str
    metric: str
    samples: int
    means: Mapping[str, float]
    possible: tuple[str, ...]


class Comparison(Struct, frozen=True):
    """Candidates compared with a baseline. `tests`: the number of p-values that are adjusted together.

    `confidence`: of each interval; all intervals of a metric hold together at 1 - alpha. `rivals`: candidates compared
    with each other.
    """

    baseline: NamedRun
    candidates: tuple[CandidateComparison, ...]
    alpha: float
    resamples: int
    seed: int
    tests: int
    confidence: float
    rivals: tuple[RunPair, ...]
    best: tuple[BestRun, ...]

    @property
    def degraded(self) -> bool:
        """Return whether any metric of any candidate is worse by more than noise."""
        return any(change.change is Change.DEGRADED for one in self.candidates for change in one.changes)
