"""Which samples a person should look at first, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalspec.model import DatasetResult, Direction, SampleResult, SampleStatus, ScoreStatus, Summary, Threshold

RETRIEVED, GAIN = "retrieved.", "gain."
"""What a metric's name begins with before reranking, and where it is the difference that reranking makes."""


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample that went wrong. `metric` None: the agent did not answer; `value` None: it could not be scored."""

    id: str
    metric: str | None
    value: float | None
    reason: str | None
    more: int = 0
    """On how many further metrics it went wrong."""


def is_staged(metric: str, dataset: DatasetResult) -> bool:
    """Whether a metric is of a ranking before reranking, or of the gain."""
    reranked = dataset.retriever is not None and dataset.retriever.rerank_top_k is not None
    return reranked and metric.startswith((RETRIEVED, GAIN))


def plain_summaries(dataset: DatasetResult) -> Mapping[str, Summary]:
    """The summaries without those that are told as rerankings; one that a limit is on is told both ways."""
    limited = {threshold.metric for threshold in dataset.thresholds}
    return {
        metric: summary
        for metric, summary in dataset.metrics.items()
        if metric in limited or not is_staged(metric, dataset)
    }


def list_worst(dataset: DatasetResult) -> list[FailedSample]:
    """The samples that went wrong, worst first: unanswered ones, then by the number of metrics on which the score
    failed or lies beyond the metric's limit, then by how far they lie beyond. Each with its own worst metric.

    In a dataset without any limit the mean stands in for one, for metrics of which more is better. What reranking gains
    is none of these.
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
    """What is wrong with one sample, each with its weight: a share of the limit, infinite for what has no value."""
    if sample.status is SampleStatus.FAILED:
        yield float("inf"), FailedSample(sample.id, None, None, sample.error)
        return
    for metric, score in sample.scores.items():
        if score.status is ScoreStatus.FAILED:
            yield float("inf"), FailedSample(sample.id, metric, None, score.reason)
        elif score.value is not None and metric in limits and (excess := limits[metric].excess(score.value)):
            yield excess, FailedSample(sample.id, metric, score.value, score.reason)
