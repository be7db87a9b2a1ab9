"""The scores of a baseline as its file has them: of each sample the value or status of every attempt, and no texts."""

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from evalspec.inputs.manifest.metric_spec import parse_passes
from evalspec.model import (
    Attempt,
    DatasetResult,
    Direction,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Threshold,
)
from evalspec.model.base import Interval, Number, Record, Statistic
from evalspec.verdict.attempts import combine_scores
from evalspec.verdict.summary import compute_summary, pool_scores

_WITHHELD = "not kept in a baseline"

StoredValue = Number | ScoreStatus
"""A score's value, or its status if it has none."""

_Stored = StoredValue | tuple[StoredValue, ...]


class _Metric(Record, frozen=True):
    statistic: Statistic
    direction: Direction
    bounds: Interval | None = None


class StoredSample(Record, frozen=True, kw_only=True):
    """A sample of a baseline.

    `scores`: lists if there are several attempts. `passes`: whether each attempt passed. `slices`: with a limit.
    """

    id: str
    digest: str | None = None
    status: SampleStatus
    pass_rate: Number | None
    scores: Mapping[str, StoredValue | Annotated[tuple[StoredValue, ...], Meta(min_length=1)]]
    passes: tuple[bool | None, ...] | UnsetType = UNSET
    slices: tuple[str, ...] | UnsetType = UNSET


class StoredDataset(Record, frozen=True):
    """A dataset of a baseline. `thresholds`: the limits that held then, without outcomes."""

    name: str
    metrics: Mapping[str, _Metric]
    samples: tuple[StoredSample, ...]
    thresholds: tuple[Threshold, ...] = ()
    cluster: str | None = None


def to_stored(dataset: DatasetResult) -> StoredDataset:
    """Return a dataset as a baseline keeps it."""
    return StoredDataset(
        name=dataset.name,
        metrics={
            metric: _Metric(summary.statistic, summary.direction, summary.bounds)
            for metric, summary in dataset.metrics.items()
        },
        samples=tuple(map(to_stored_sample, sorted(dataset.samples, key=lambda sample: sample.id))),
        thresholds=tuple(limit.as_stated() for limit in dataset.thresholds),
        cluster=dataset.cluster,
    )


def to_stored_sample(sample: SampleResult) -> StoredSample:
    """Return a sample as a baseline keeps it."""
    return StoredSample(
        id=sample.id,
        digest=sample.digest,
        status=sample.status,
        pass_rate=sample.pass_rate,
        scores={metric: _describe_score(sample, metric) for metric in sample.scores},
        passes=tuple(attempt.passed for attempt in sample.attempts) if sample.attempts else UNSET,
        slices=sample.slices or UNSET,
    )


def _describe_score(sample: SampleResult, metric: str) -> StoredValue | tuple[StoredValue, ...]:
    if sample.attempts and parse_passes(metric) is None:
        return tuple(_value(attempt.scores.get(metric)) for attempt in sample.attempts)
    return _value(sample.scores[metric])


def _value(score: Score | None) -> StoredValue:
    if score is None:
        return ScoreStatus.FAILED
    return score.status if score.value is None else score.value


def pool_values(metric: str, one: _Stored, other: _Stored) -> _Stored:
    """Return the scores of the attempts of two runs; of a metric over attempts, the mean of what each run says."""
    values = tuple(value for score in (one, other) for value in (score if isinstance(score, tuple) else (score,)))
    return values if parse_passes(metric) is None else _value(_build_score(values))


def from_stored(dataset: StoredDataset) -> DatasetResult:
    """Return a dataset of a baseline.

    Raises:
        ValueError: a sample lacks a score of a metric, or occurs more than once.
    """
    for id, count in Counter(sample.id for sample in dataset.samples).items():
        if count > 1:
            raise ValueError(f"sample {id} occurs {count} times")
    samples = tuple(_build_sample(sample, dataset) for sample in dataset.samples)
    return DatasetResult(
        name=dataset.name,
        metrics={
            name: compute_summary(
                pool_scores(samples, name, metric.statistic)[0], metric.statistic, metric.direction, None, metric.bounds
            )
            for name, metric in dataset.metrics.items()
        },
        samples=samples,
        thresholds=dataset.thresholds,
        cluster=dataset.cluster,
    )


def _build_sample(sample: StoredSample, dataset: StoredDataset) -> SampleResult:
    """Return the scored sample, without texts.

    Raises:
        ValueError: it lacks a score of a metric of the dataset.
    """
    for name in dataset.metrics.keys() - sample.scores.keys():
        raise ValueError(f"sample {sample.id} has no score for {name}")
    attempts = _build_attempts(sample)
    for name, metric in dataset.metrics.items():
        if attempts and metric.statistic != "mean" and not isinstance(sample.scores[name], tuple):
            raise ValueError(f"sample {sample.id} has no list of attempts for {name}")
        _refuse_impossible(sample, name, metric)
    return SampleResult(
        id=sample.id,
        status=sample.status,
        error=_WITHHELD if sample.status is SampleStatus.FAILED else None,
        scores={name: _build_score(value) for name, value in sample.scores.items()},
        pass_rate=sample.pass_rate,
        attempts=attempts,
        digest=sample.digest,
        slices=() if sample.slices is UNSET else sample.slices,
    )


def _build_attempts(sample: StoredSample) -> tuple[Attempt, ...]:
    """Return the attempts with their scores, and whether each passed. The oldest files have only percentiles."""
    kept = {name: values for name, values in sample.scores.items() if isinstance(values, tuple)}
    passes = () if sample.passes is UNSET else sample.passes
    lengths = {len(values) for values in [*kept.values(), *([passes] if passes else [])]}
    if len(lengths) > 1:
        raise ValueError(f"the lists of attempts of sample {sample.id} differ in length")
    count = max(lengths, default=0)
    return tuple(
        Attempt(
            SampleStatus.ANSWERED,
            scores={name: _build_score(values[place]) for name, values in kept.items()},
            passed=passed,
        )
        for place, passed in enumerate(passes or [None] * count)
    )


def _refuse_impossible(sample: StoredSample, name: str, metric: _Metric) -> None:
    low, high = metric.bounds or (-inf, inf)
    given = sample.scores[name]
    for value in given if isinstance(given, tuple) else (given,):
        if isinstance(value, float) and not low <= value <= high:
            raise ValueError(f"{name} of sample {sample.id} is {value:g}, outside {low:g} to {high:g}")


def _build_score(value: StoredValue | tuple[StoredValue, ...]) -> Score:
    """Return the score of a value. Several values are combined like attempts.

    Raises:
        ValueError: a status that requires a value has none.
    """
    if isinstance(value, tuple):
        return combine_scores([_build_score(part) for part in value])
    return Score(value, reason=_WITHHELD) if isinstance(value, ScoreStatus) else Score.scored(value)
