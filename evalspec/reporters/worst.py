"""The samples that people should look at first, and why."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from evalspec.model import DatasetResult, Direction, SampleResult, SampleStatus, ScoreStatus, Summary, Threshold

RETRIEVED, GAIN = "retrieved.", "gain."
"""Prefixes of metrics: computed before reranking, and the difference that reranking makes."""


class FailedSample(Struct, frozen=True):
    """A failed sample. `metric`: None if the agent did not answer. `value`: None if the sample could not be scored."""

    id: str
    metric: str | None
    value: float | None
    reason: str | None
    more: int = 0
    """The number of other metrics on which the sample failed."""


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


def list_worst(dataset: DatasetResult) -> list[FailedSample]:
    """Return the failed samples, worst first, each with its worst metric.

    Unanswered samples come first. The others are ordered by the number of metrics that failed or exceed their limit,
    then by the distance from the limit. In a dataset without limits, the mean serves as one for metrics where higher is
    better, except for gains of reranking.
    """
    limits = _limits(dataset)
    ranked = []
    for sample in dataset.samples:
        troubles = sorted(_troubles(sample, limits), key=lambda found: -found[0])
        if troubles:
            excess, worst = troubles[0]
            unanswered = sample.status is SampleStatus.FAILED
            ranked.append((not unanswered, -len(troubles), -excess, worst, len(troubles) - 1))
    ranked.sort(key=lambda entry: entry[:3])
    return [FailedSample(worst.id, worst.metric, worst.value, worst.reason, more) for _, _, _, worst, more in ranked]


def _limits(dataset: DatasetResult) -> Mapping[str, Threshold]:
    limits = {metric: dataset.own_threshold(metric) for metric in dataset.metrics}
    own = {metric: limit for metric, limit in limits.items() if limit}
    if own:
        return own
    return {
        metric: Threshold(metric, min=summary.value)
        for metric, summary in plain_summaries(dataset).items()
        if summary.value is not None and dataset.metrics[metric].direction is Direction.HIGHER
    }


def _troubles(sample: SampleResult, limits: Mapping[str, Threshold]) -> Iterator[tuple[float, FailedSample]]:
    """Yield (weight, failure) for one sample. The weight is the excess as a share of the limit, or infinite."""
    if sample.status is SampleStatus.FAILED:
        yield float("inf"), FailedSample(sample.id, None, None, sample.error)
        return
    for metric, score in sample.scores.items():
        if score.status is ScoreStatus.FAILED:
            yield float("inf"), FailedSample(sample.id, metric, None, score.reason)
        elif score.value is not None and metric in limits and (excess := limits[metric].excess(score.value)):
            yield excess, FailedSample(sample.id, metric, score.value, score.reason)
