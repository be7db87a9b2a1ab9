"""The example of a comparison in the OpenAPI document."""

from evalspec.model import Direction
from evalspec.model.comparisons import (
    CandidateComparison,
    Change,
    ComparedRun,
    Comparison,
    DatasetComparison,
    MetricChange,
    SampleChange,
    SampleKind,
    ScoreChange,
)
from evalspec.service.examples import RUN_ID

_METRIC = MetricChange(
    *(0.7, 0.8, 0.1, (0.02, 0.18), 200),
    metric="exact_match",
    statistic="mean",
    direction=Direction.HIGHER,
    verdict=Change.IMPROVED,
    test="randomisation",
    p_value=0.01,
    p_adjusted=0.02,
    units=200,
)
_DATASET = DatasetComparison(
    name="qa",
    candidate_name="qa",
    pairs=200,
    metrics={"exact_match": _METRIC},
    metrics_only_in_baseline=(),
    metrics_only_in_candidate=(),
    slices=(),
    sample_counts={SampleKind.IMPROVED: 20, SampleKind.UNCHANGED: 180},
    samples=(SampleChange("refund", SampleKind.IMPROVED, {"exact_match": ScoreChange(0.0, 1.0)}),),
)
COMPARISON = Comparison(
    baseline=ComparedRun(RUN_ID, RUN_ID, "run", ()),
    alpha=0.05,
    confidence=0.95,
    resamples=10_000,
    seed=0,
    tests=1,
    candidates=(CandidateComparison(RUN_ID, RUN_ID, "run", (), mismatches=(), differences=(), datasets=(_DATASET,)),),
    rivals=(),
    best_runs=(),
)
