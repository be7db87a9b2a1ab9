"""What a comparison found, as data: for the terminal, Markdown and JSON alike."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from evalspec.model import Direction, Run, StoredExchange

Texts = Callable[[Collection[tuple[str, str]]], Iterable[StoredExchange]]
"""Reads the exchanges of the samples that are named, as (dataset, id)."""


class Change(StrEnum):
    """What can be said of one metric. None of the last three means that nothing changed."""

    IMPROVED = "improved"
    DEGRADED = "degraded"
    UNDECIDED = "undecided"
    TOO_FEW = "too few samples"
    NOT_TESTED = "not tested"


class SampleKind(StrEnum):
    """What became of one sample. MIXED: better by one metric and worse by another."""

    DEGRADED = "degraded"
    MIXED = "mixed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    UNSCORED = "not scored in one"
    ONLY_BASELINE = "only in the baseline"
    ONLY_CANDIDATE = "only in the candidate"


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run as the user named it. `kind`: what it was read from. `notes`: what it lacks for a comparison.

    `texts` None: it has none.
    """

    name: str
    run: Run
    kind: str = "run"
    notes: tuple[str, ...] = ()
    texts: Texts | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """One number of both runs over the samples that both have scored, `pairs` of them.

    `delta` is candidate minus baseline, `interval` that of all such samples, at the confidence of the comparison.
    """

    baseline: float | None
    candidate: float | None
    delta: float | None
    interval: tuple[float, float] | None
    pairs: int

    @property
    def relative(self) -> float | None:
        """The delta as a share of the baseline; None where that is 0."""
        return self.delta / abs(self.baseline) if self.delta is not None and self.baseline else None


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric of one dataset.

    `p_value`: two-sided, of the paired `test`; `adjusted`: over all tests of the comparison. `detectable`: the smallest
    true change that the test finds in four of five such comparisons. `superiority`: the share of pairs in which the
    candidate is above, ties counting half. `units`: independent samples or clusters among the pairs. `unpaired`:
    samples that only one of the runs has scored. `settles`: a change that is too small for these pairs, and
    about how many would find it. `confidence`: of the interval. `reason`: why no more can be said.
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


@dataclass(frozen=True, slots=True)
class SliceChange:
    """Part of a dataset, its deltas by metric. `small`: too few pairs for its numbers to be ranked with others."""

    name: str
    pairs: int
    small: bool
    metrics: Mapping[str, Delta]


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """One score before and after. A side that is not scored has a status instead of a value."""

    metric: str
    before: float | str
    after: float | str


@dataclass(frozen=True, slots=True)
class SampleChange:
    """One sample whose scores are not the same in both runs, with those that differ."""

    id: str
    kind: SampleKind
    scores: tuple[ScoreChange, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """One dataset of both runs. `candidate_name`: what it is called in the candidate.

    `samples`: all but the unchanged, worst first; `counts` has every kind.
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


@dataclass(frozen=True, slots=True)
class CandidateComparison:
    """One candidate against the baseline.

    `mismatches`: what makes the two not comparable, and was allowed. `differences`: what else is not the same in what
    was run. `notes`: what could not be compared, or is not known.
    """

    candidate: NamedRun
    datasets: tuple[DatasetComparison, ...]
    mismatches: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[MetricChange]:
        """The metrics of all datasets."""
        return [change for dataset in self.datasets for change in dataset.metrics]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidates against one baseline. `tests`: how many p-values were adjusted together."""

    baseline: NamedRun
    candidates: tuple[CandidateComparison, ...]
    alpha: float
    resamples: int
    seed: int
    tests: int

    @property
    def degraded(self) -> bool:
        """Whether any metric of any candidate is worse by more than chance explains."""
        return any(change.change is Change.DEGRADED for one in self.candidates for change in one.changes)
