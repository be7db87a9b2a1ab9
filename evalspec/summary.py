"""Scores of one metric over many samples, as one number with its counts; and the parts that samples fall into."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from evalspec.records import Sample, SampleResult, Score, ScoreStatus, Summary
from evalspec.stats import compute_interval, compute_statistic

CONFIDENCE = 0.95
TAGS = "tags"
MIN_SLICE = 5
"""Samples below which the numbers of a slice are shown, but not ranked with those of others."""

_MOST_VALUES = 20
"""Distinct values up to which a metadata key makes slices of its own accord: more of them name samples, not kinds."""


def in_slice(sample: Sample | SampleResult, name: str | None) -> bool:
    """Whether a sample belongs to a slice: None is everything, else a tag, or `key=value` of the metadata."""
    if name is None or name in sample.tags:
        return True
    key, equals, value = name.partition("=")
    return bool(equals) and key in sample.metadata and str(sample.metadata[key]) == value


def find_slices(samples: Iterable[SampleResult], keys: Iterable[str] | None) -> dict[str, list[SampleResult]]:
    """The samples by the values of each metadata key, as `key=value`; the key `tags` stands for the tags themselves.

    Without `keys`: the tags, and every key that has from two to twenty plain values, but nothing that holds for all of
    the samples. A sample without a key is in none of its slices; one with several tags is in several.
    """
    members = list(samples)
    slices: dict[str, list[SampleResult]] = {}
    for key in _telling_keys(members) if keys is None else keys:
        for sample in members:
            given = sample.tags if key == TAGS else (sample.metadata[key],) if key in sample.metadata else ()
            for value in given:
                slices.setdefault(value if key == TAGS else f"{key}={value}", []).append(sample)
    if keys is None:
        return {name: found for name, found in slices.items() if len(found) < len(members)}
    return slices


def _telling_keys(samples: Sequence[SampleResult]) -> list[str]:
    """Keys whose values sort the samples into kinds: few, plain, and not one for each sample."""
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
    """The scores that a statistic is taken of, and which of them belong together (None: none do).

    A mean is taken over the samples, each of which counts once however often it was asked; any other statistic is one
    of single replies, so that each attempt counts, those of one sample belonging together.
    """
    single = statistic == "mean" or not any(sample.attempts for sample in samples)
    scores = [
        score
        for sample in samples
        for score in ([sample.scores[metric]] if single else [attempt.scores[metric] for attempt in sample.attempts])
    ]
    if cluster is None and single:
        return scores, None
    labels: list[Hashable] = [
        _cluster_of(sample, cluster) for sample in samples for _ in range(1 if single else len(sample.attempts))
    ]
    return scores, labels


def _cluster_of(sample: SampleResult, key: str | None) -> Hashable:
    """A sample without the key stands for itself."""
    return (key, str(sample.metadata[key])) if key is not None and key in sample.metadata else sample.id


_DIFFERENCE = "gain."
"""How the name of a metric begins that is a difference of two, so that 0 is no failure and 1 no pass."""


def summarise(
    samples: Sequence[SampleResult], statistics: Mapping[str, str], cluster: str | None = None
) -> dict[str, Summary]:
    """The summary of each metric, given as name to statistic, over some samples."""
    summaries = {}
    for metric, statistic in statistics.items():
        scores, clusters = pool_scores(samples, metric, statistic, cluster)
        interval = find_interval(metric, scores, statistic, clusters)
        summaries[metric] = compute_summary(metric, statistic, scores, interval)
    return summaries


def compute_summary(
    metric: str, statistic: str, scores: Sequence[Score], interval: tuple[float, float] | None = None
) -> Summary:
    """Aggregate the scored ones by `statistic` (mean, median, min, max, p50 … p99) and count all the others."""
    values = [score.value for score in scores if score.value is not None]
    statuses = [score.status for score in scores]
    return Summary(
        metric=metric,
        statistic=statistic,
        value=compute_statistic(values, statistic) if values else None,
        interval=interval,
        scored=len(values),
        failed=statuses.count(ScoreStatus.FAILED),
        skipped=statuses.count(ScoreStatus.SKIPPED),
        not_applicable=statuses.count(ScoreStatus.NOT_APPLICABLE),
        median=compute_statistic(values, "median") if values else None,
    )


def find_interval(
    metric: str,
    scores: Sequence[Score],
    statistic: str,
    clusters: Sequence[Hashable] | None,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """The interval of the scored ones; None below two of them. `clusters`: as long as `scores`."""
    values = [score.value for score in scores if score.value is not None]
    labels = None
    if clusters is not None:
        labels = [label for label, score in zip(clusters, scores, strict=True) if score.value is not None]
    may_be_passes = not metric.startswith(_DIFFERENCE)
    return compute_interval(values, statistic, confidence, clusters=labels, may_be_passes=may_be_passes)
