"""Answers about comparisons: the document of `evalspec compare --json`, with snake_case names."""

from typing import Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evalspec.service.examples import RUN_ID

Pair = tuple[float, float]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=to_camel), validate_by_name=True)


class DeltaAnswer(_Part):
    """A number of both runs over the samples with scores in both."""

    baseline: float | None
    candidate: float | None
    delta: float | None = Field(description="Candidate minus baseline.")
    relative: float | None = Field(description="The delta as a share of the baseline; null: the baseline is 0.")
    interval: Pair | None = Field(description="Of the delta, at `confidence`; all of a metric hold at 1 - alpha.")
    pairs: int


class SettlingSize(_Part):
    """About how many samples would detect a change that these cannot."""

    change: float
    samples: int


class MetricAnswer(DeltaAnswer):
    """The change of a metric, and what may be said about it."""

    statistic: str
    direction: str
    verdict: str = Field(description="improved, degraded, undecided, too few samples, or not tested.")
    test: str | None
    p: float | None
    p_adjusted: float | None = Field(description="Over all tests of the comparison.")
    detectable: float | None = Field(description="The smallest true change that the test detects four times in five.")
    cohens_dz: float | None
    superiority: float | None
    reason: str | None
    units: int
    unpaired: int
    settles: SettlingSize | None


class RivalAnswer(MetricAnswer):
    """A metric of two candidates, the first in place of the baseline."""

    dataset: str
    metric: str
    first: str
    second: str


class BestAnswer(_Part):
    """The runs that may be the best by a metric. One alone is the best."""

    dataset: str
    metric: str
    samples: int
    means: dict[str, float] = Field(description="Of all runs, best first, over the samples that all have scored.")
    possible: list[str] = Field(description="The runs that are not significantly worse than any other, best first.")


class SliceAnswer(_Part):
    """A slice of a dataset."""

    name: str
    pairs: int
    small: bool
    metrics: dict[str, DeltaAnswer]


class ScorePair(_Part):
    """A score before and after: a number, or the status of a score without one."""

    before: float | str
    after: float | str


class RankMoveAnswer(_Part):
    """A document at another rank. null: not retrieved."""

    document: str
    before: int | None
    after: int | None


class AttemptShown(_Part):
    """Which attempt is shown."""

    number: int
    of: int


class TextsAnswer(_Part):
    """The texts of a sample in both runs."""

    question: str
    baseline: str | None
    candidate: str | None
    rank_moves: list[RankMoveAnswer]
    attempt: AttemptShown | None


class SampleChangeAnswer(_Part):
    """A sample whose scores changed."""

    id: str
    change: str
    scores: dict[str, ScorePair]
    texts: TextsAnswer | None


class ComparedDataset(_Part):
    """A dataset of both runs. `samples`: the changed ones, worst first."""

    name: str
    candidate_name: str
    pairs: int
    metrics: dict[str, MetricAnswer]
    metrics_only_in_baseline: list[str]
    metrics_only_in_candidate: list[str]
    slices: list[SliceAnswer]
    sample_counts: dict[str, int]
    samples: list[SampleChangeAnswer]


class ComparedRun(_Part):
    """One of the compared runs."""

    name: str
    run_id: str
    kind: str
    notes: list[str]


class ComparedCandidate(ComparedRun):
    """A candidate compared with the baseline."""

    mismatches: list[str] = Field(description="Why the runs are not comparable, which was allowed.")
    differences: list[str]
    datasets: list[ComparedDataset]


_RUN: dict[str, Any] = {"name": RUN_ID, "run_id": RUN_ID, "kind": "run", "notes": []}
_METRIC: dict[str, Any] = {
    "baseline": 0.7,
    "candidate": 0.8,
    "delta": 0.1,
    "relative": 0.14,
    "interval": [0.02, 0.18],
    "pairs": 200,
    "statistic": "mean",
    "direction": "higher",
    "verdict": "improved",
    "test": "sign-flip permutation",
    "p": 0.01,
    "p_adjusted": 0.02,
    "detectable": 0.08,
    "cohens_dz": 0.2,
    "superiority": 0.55,
    "reason": None,
    "units": 200,
    "unpaired": 0,
    "settles": None,
}
_DATASET: dict[str, Any] = {
    "name": "qa",
    "candidate_name": "qa",
    "pairs": 200,
    "metrics": {"exact_match": _METRIC},
    "metrics_only_in_baseline": [],
    "metrics_only_in_candidate": [],
    "slices": [],
    "sample_counts": {"improved": 20, "unchanged": 180},
    "samples": [
        {"id": "refund", "change": "improved", "scores": {"exact_match": {"before": 0, "after": 1}}, "texts": None}
    ],
}
_EXAMPLE: dict[str, Any] = {
    "baseline": _RUN,
    "alpha": 0.05,
    "confidence": 0.95,
    "resamples": 10_000,
    "seed": 0,
    "tests": 1,
    "candidates": [{**_RUN, "mismatches": [], "differences": [], "datasets": [_DATASET]}],
    "rivals": [],
    "best_runs": [],
}


class ComparisonAnswer(_Part):
    """Candidates compared with a baseline, sample by sample."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    baseline: ComparedRun
    alpha: float
    confidence: float
    resamples: int
    seed: int
    tests: int
    candidates: list[ComparedCandidate]
    rivals: list[RivalAnswer] = Field(description="The candidates compared with each other.")
    best_runs: list[BestAnswer] = Field(description="By dataset and metric; empty with one candidate.")
