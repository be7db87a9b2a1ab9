"""The samples that people should look at first, and why."""

from collections.abc import Container, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import (
    DatasetResult,
    Direction,
    SampleResult,
    SampleStatus,
    ScoreStatus,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reports.affected_samples import FailureCauses, find_loss
from evalspec.reports.findings import find_beyond, limits_of_replies

RETRIEVED, GAIN = "retrieved.", "gain."
"""Prefixes of metrics: computed before reranking, and the difference that reranking makes."""


class FailedSample(Struct, frozen=True):
    """A failed sample. `metric`: None if the agent did not answer. `value`: None if the sample could not be scored.

    `limit`: the threshold that the value exceeds; None if the dataset has no limits. `before`: the better value in the
    baseline, if the sample decides a regression. `others`: the other metrics on
    which the sample failed. `line`: in the dataset's file, from 1. `passed`: whether each of its attempts
    passed, if the sample failed only because some did not.
    """

    id: str
    metric: str | None
    value: float | None
    reason: str | None
    limit: Threshold | None = None
    others: tuple[str, ...] = ()
    line: int | None = None
    passed: tuple[bool | None, ...] = ()
    before: float | None = None


class _Trouble(Struct, frozen=True):
    """One reason why a sample is bad. `decides`: it is beyond a limit that the dataset fails."""

    decides: bool
    excess: float
    found: FailedSample

    @property
    def is_gap(self) -> bool:
        """Return whether something could not be measured."""
        return self.found.value is None


def is_staged(metric: str, dataset: DatasetResult) -> bool:
    """Return whether a metric is of the ranking before reranking, or of the gain."""
    reranked = dataset.retriever is not None and dataset.retriever.rerank_top_k is not None
    return reranked and metric.startswith((RETRIEVED, GAIN))


def plain_summaries(dataset: DatasetResult) -> Mapping[str, Summary]:
    """Return the summaries for the table of metrics.

    Metrics in the table of rerankings are omitted, except if they have a limit.
    """
    limited = {threshold.metric for threshold in dataset.thresholds}
    return {
        metric: summary
        for metric, summary in dataset.metrics.items()
        if metric in limited or not is_staged(metric, dataset)
    }


def list_worst(dataset: DatasetResult, blamed: FailureCauses | None) -> list[FailedSample]:
    """Return the failed samples, worst first, each with its worst metric.

    Unanswered samples come first. The others are ordered by the number of metrics on which they are beyond a broken
    limit, by the number of metrics that failed or exceed any limit, then by the distance from the limit.

    `blamed`: the samples to list besides those that could not be measured. None: all that failed. Then in a dataset
    without limits, the mean serves as one for metrics where higher is better, except for gains of reranking.
    """
    limits, broken = find_limits(dataset), find_beyond(dataset, dataset.thresholds)
    means = {} if blamed is not None or any(map(dataset.own_threshold, dataset.metrics)) else _find_means(dataset)
    ranked = []
    for number, sample in enumerate(dataset.samples):
        is_blamed = blamed is not None and number in blamed.places
        found = list(_troubles(sample, limits, means, broken))
        if blamed is not None and is_blamed:
            found += _blamed_troubles(sample, dataset, blamed, {one.found.metric for one in found})
        troubles = sorted(found, key=lambda one: (not one.decides, -one.excess))
        if troubles and (blamed is None or is_blamed or any(one.is_gap for one in troubles)):
            unanswered = sample.status is SampleStatus.FAILED
            deciding = sum(one.decides for one in troubles)
            place = (not unanswered, -deciding, -len(troubles), -troubles[0].excess)
            ranked.append((place, _join(troubles, sample.line)))
    ranked.sort(key=lambda entry: entry[0])
    return [found for _, found in ranked]


def _join(troubles: list[_Trouble], line: int | None) -> FailedSample:
    worst = troubles[0].found
    others = tuple(one.found.metric for one in troubles[1:] if one.found.metric)
    return replace(worst, others=others, line=line)


def find_limits(dataset: DatasetResult) -> Mapping[str, Threshold]:
    """Return the limit on each metric of the whole dataset, if it applies to a single reply."""
    of_replies = {limit.metric for limit in limits_of_replies(dataset)}
    limits = {metric: dataset.own_threshold(metric) for metric in dataset.metrics if metric in of_replies}
    return {metric: limit for metric, limit in limits.items() if limit}


def _find_means(dataset: DatasetResult) -> Mapping[str, Threshold]:
    return {
        metric: Threshold(metric, min=summary.value)
        for metric, summary in plain_summaries(dataset).items()
        if summary.value is not None and dataset.metrics[metric].direction is Direction.HIGHER
    }


def _troubles(
    sample: SampleResult,
    limits: Mapping[str, Threshold],
    means: Mapping[str, Threshold],
    broken: Mapping[tuple[str, str], Threshold],
) -> Iterator[_Trouble]:
    if sample.status is SampleStatus.FAILED:
        yield _Trouble(True, float("inf"), FailedSample(sample.id, None, None, sample.error))
        return
    for metric, score in sample.scores.items():
        if score.status is ScoreStatus.FAILED:
            yield _Trouble(False, float("inf"), FailedSample(sample.id, metric, None, score.reason))
            continue
        limit = broken.get((sample.id, metric)) or limits.get(metric)
        mark = limit or means.get(metric)
        if score.value is not None and mark and (excess := mark.excess(score.value)):
            found = FailedSample(sample.id, metric, score.value, score.reason, limit)
            yield _Trouble((sample.id, metric) in broken, excess, found)


def _blamed_troubles(
    sample: SampleResult, dataset: DatasetResult, blamed: FailureCauses, known: Container[str | None]
) -> Iterator[_Trouble]:
    """Yield why a sample decides the verdict without being beyond a broken limit. `known`: metrics with a trouble."""
    if sample.status is SampleStatus.FAILED:
        return
    for outcome in blamed.regressions:
        if outcome.metric not in known and (loss := find_loss(sample, outcome)):
            score, before = sample.scores[outcome.metric or ""], outcome.worsened[sample.id]
            yield _Trouble(
                True, loss, FailedSample(sample.id, outcome.metric, score.value, score.reason, before=before)
            )
    undecided = {limit.metric for limit in dataset.thresholds if limit.status is VerdictStatus.INCOMPLETE}
    for metric, score in sample.scores.items():
        if metric in undecided and score.value is None and score.status is not ScoreStatus.FAILED:
            yield _Trouble(False, 0.0, FailedSample(sample.id, metric, None, score.reason))
    passed = tuple(attempt.passed for attempt in sample.attempts)
    if False in passed:
        yield _Trouble(True, 0.0, FailedSample(sample.id, None, sample.pass_rate, None, passed=passed))
