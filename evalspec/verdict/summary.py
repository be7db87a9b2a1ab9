"""Summarise the scores of one metric over many samples, and group samples into slices."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr, replace

from evalspec.inputs.datasets.filters import TAGS, list_spellings
from evalspec.inputs.manifest.metric_spec import parse_passes
from evalspec.model import (
    Cause,
    Direction,
    PeopleScores,
    Sample,
    SampleResult,
    Score,
    ScoreStatus,
    Summary,
    Threshold,
)
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.stats.clusters import find_cluster
from evalspec.verdict.validity.estimates import CONFIDENCE, Estimate, estimate

if TYPE_CHECKING:
    from evalspec.verdict.correction.people import People
    from evalspec.verdict.outline import MetricOutline

MIN_SLICE = 5
"""Minimum number of samples of a slice. Smaller slices are shown, but not ranked."""

_MOST_VALUES = 20
"""Maximum number of distinct values of a metadata key that is sliced by default. Keys with more identify samples."""

RUN_STOPPED = "the run stopped before all scores"
"""Why there is no interval: when a run stops may depend on its scores."""

_OF_SINGLE_REPLIES = ("mean", "min", "max")
"""Statistics with thresholds that apply to a single reply. A percentile lets some replies exceed its threshold."""


def reply_limits(thresholds: Iterable[Threshold], statistics: dict[str, str]) -> list[Threshold]:
    """Return the thresholds of a dataset that apply to each reply. `statistics`: the default statistic by metric."""
    return [
        limit
        for limit in thresholds
        if parse_passes(limit.metric) is None and (limit.stat or statistics[limit.metric]) in _OF_SINGLE_REPLIES
    ]


def in_slice(sample: Sample | SampleResult, name: str | None) -> bool:
    """Return whether a sample belongs to a slice: a tag, `key=value` of the metadata, or None for all samples.

    Values that are not strings match in their JSON form (`flag=true`, `level=1`) and in other usual spellings.
    """
    if name is None or name in sample.tags or name in sample.slices:
        return True
    keys = (key for key in sample.metadata if name.startswith(f"{key}="))
    return any(name.removeprefix(f"{key}=") in list_spellings(sample.metadata[key]) for key in keys)


def limited_slices(thresholds: Iterable[Threshold]) -> list[str]:
    """Return the slices that have a threshold."""
    return list(dict.fromkeys(threshold.slice for threshold in thresholds if threshold.slice))


def add_slices(sample: Sample, limited: Iterable[str]) -> Sample:
    """Set `slices` of a sample, in place, to the `limited` slices that it belongs to, and return the sample."""
    force_setattr(sample, "slices", tuple(name for name in limited if in_slice(sample, name)))
    return sample


def group_by_slice(samples: Iterable[SampleResult], keys: Iterable[str] | None) -> dict[str, list[SampleResult]]:
    """Return the samples by slice, named `key=value`. The key `tags` means the tags themselves.

    Without `keys`, the slices are the tags and all keys with two to twenty plain values, without slices that contain
    all samples. A sample without a key is in none of its slices. A sample with several tags is in several slices. Each
    slice has exactly the samples that `in_slice` matches.
    """
    members = list(samples)
    slices: dict[str, list[SampleResult]] = {}
    for key in _telling_keys(members) if keys is None else keys:
        for sample in members:
            if key == TAGS:
                slices |= {tag: [] for tag in sample.tags}
            elif key in sample.metadata:
                slices[f"{key}={list_spellings(sample.metadata[key])[0]}"] = []
    for sample in members:
        named = [f"{key}={text}" for key, value in sample.metadata.items() for text in list_spellings(value)]
        for name in dict.fromkeys([*sample.tags, *named]):
            if name in slices:
                slices[name].append(sample)
    if keys is None:
        return {name: found for name, found in slices.items() if len(found) < len(members)}
    return slices


def _telling_keys(samples: Sequence[SampleResult]) -> list[str]:
    """Return `tags` and the metadata keys that group the samples: few plain values, not one for each sample."""
    values: dict[str, set[Any] | None] = {}
    for sample in samples:
        for key, value in sample.metadata.items():
            known = values.setdefault(key, set())
            if known is None:
                continue
            known.add(value if isinstance(value, str | int | bool) else None)
            if None in known or len(known) > _MOST_VALUES:
                values[key] = None
    telling = [key for key, known in values.items() if known and 2 <= len(known) < len(samples)]
    return [TAGS, *telling]


def pool_scores(
    samples: Sequence[SampleResult], metric: str, statistic: str, cluster: str | None = None
) -> tuple[list[Score], list[Hashable] | None]:
    """Return the scores for a statistic, and their clusters. None: all scores are independent.

    A mean is over samples: each counts once, regardless of its number of attempts. Any other statistic is over replies:
    each attempt counts, and the attempts at one sample form a cluster.
    """
    single = statistic == "mean" or not any(sample.attempts for sample in samples)
    scores = [
        score
        for sample in samples
        for score in ([sample.scores[metric]] if single else [attempt.scores[metric] for attempt in sample.attempts])
    ]
    if cluster is None and single and all(sample.unit is None for sample in samples):
        return scores, None
    labels: list[Hashable] = [
        find_cluster(sample, cluster) for sample in samples for _ in range(1 if single else len(sample.attempts))
    ]
    return scores, labels


def summarise(
    samples: Sequence[SampleResult],
    metrics: "Iterable[MetricOutline]",
    cluster: str | None = None,
    people: "People | None" = None,
) -> dict[str, Summary]:
    """Return the summary of each metric over the samples, with its interval. `people`: what people say about scores."""
    summaries = {}
    for metric in metrics:
        scores, clusters = pool_scores(samples, metric.name, metric.statistic, cluster)
        found = estimate_scores(scores, metric.statistic, metric.reach, clusters)
        if any(score.cause is Cause.STOPPED for score in scores):
            found = Estimate(found.units, reason=RUN_STOPPED)
        summary = compute_summary(scores, metric.statistic, metric.direction, found, metric.reach)
        if metric.statistic == "mean" and metric.reach is None and found.reason != RUN_STOPPED:
            of_median = estimate_scores(scores, "median", None, clusters)
            summary = replace(summary, median_interval=of_median.interval)
        summaries[metric.name] = _correct(summary, samples, metric, cluster, (people or {}).get(metric.name))
    return summaries


def _correct(
    summary: Summary,
    samples: Sequence[SampleResult],
    metric: "MetricOutline",
    cluster: str | None,
    people: PeopleScores | None,
) -> Summary:
    """Return the summary with the mean of people in place of the judge's, if people say enough."""
    if people is None or not metric.judged:
        return summary
    from evalspec.verdict.correction.people import describe_correction, gather

    gathered = gather(samples, metric, people, cluster)
    found = describe_correction(gathered, gathered.estimate())
    if found.value is None:
        return replace(summary, correction=found)
    return replace(
        summary,
        value=found.value,
        interval=found.interval,
        interval_method=found.method,
        no_interval=None,
        correction=found,
    )


def compute_summary(
    scores: Sequence[Score],
    statistic: str,
    direction: Direction,
    found: Estimate | None = None,
    bounds: tuple[float, float] | None = None,
) -> Summary:
    """Return the `statistic` (mean, median, min, max, p50 … p99) of the scored values, and counts of all scores."""
    values = [score.value for score in scores if score.value is not None]
    statuses = [score.status for score in scores]
    return Summary(
        value=compute_statistic(values, statistic) if values else None,
        statistic=statistic,
        median=compute_statistic(values, "median") if values else None,
        direction=direction,
        scored=len(values),
        failed=statuses.count(ScoreStatus.FAILED),
        skipped=statuses.count(ScoreStatus.SKIPPED),
        not_applicable_causes=count_causes(scores),
        interval=found.interval if found else None,
        interval_method=found.method if found else None,
        no_interval=found.reason if found else None,
        units=found.units if found else 0,
        bounds=bounds,
    )


def count_causes(scores: Iterable[Score]) -> dict[Cause, int]:
    """Return the number of scores that are not applicable by cause, in the order of Cause."""
    found = Counter(score.cause for score in scores if score.status is ScoreStatus.NOT_APPLICABLE)
    return {cause: found[cause] for cause in Cause if found[cause]}


def estimate_scores(
    scores: Sequence[Score],
    statistic: str,
    reach: tuple[float, float] | None,
    clusters: Sequence[Hashable] | None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return the interval of the scored values. `clusters`: one label per score."""
    labels = None
    if clusters is not None:
        labels = [label for label, score in zip(clusters, scores, strict=True) if score.value is not None]
    values = [score.value for score in scores if score.value is not None]
    return estimate(values, statistic, reach, confidence, clusters=labels)
