"""Scores of one metric over many samples, as one number with its counts; and the parts that samples fall into."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from evalspec.model import Cause, Direction, Sample, SampleResult, Score, ScoreStatus, Summary, Threshold
from evalspec.stats import compute_statistic
from evalspec.validity.estimates import CONFIDENCE, Estimate, estimate

if TYPE_CHECKING:
    from evalspec.outline import MetricOutline

TAGS = "tags"
MIN_SLICE = 5
"""Samples below which the numbers of a slice are shown, but not ranked with those of others."""

_MOST_VALUES = 20
"""Distinct values up to which a metadata key makes slices of its own accord: more of them name samples, not kinds."""


def in_slice(sample: Sample | SampleResult, name: str | None) -> bool:
    """Whether a sample belongs to a slice: None is everything, else a tag, or `key=value` of the metadata.

    A value that is no text is meant by its JSON form (`flag=true`, `level=1`) and by its other usual spellings.
    """
    if name is None or name in sample.tags or name in sample.slices:
        return True
    keys = (key for key in sample.metadata if name.startswith(f"{key}="))
    return any(name.removeprefix(f"{key}=") in _spell(sample.metadata[key]) for key in keys)


def limited_slices(thresholds: Iterable[Threshold]) -> list[str]:
    """The slices that have a threshold."""
    return list(dict.fromkeys(threshold.slice for threshold in thresholds if threshold.slice))


def add_slices(sample: Sample, limited: Iterable[str]) -> Sample:
    """The same sample, with those of the limited slices that it belongs to. They are set in place, as its digest is."""
    force_setattr(sample, "slices", tuple(name for name in limited if in_slice(sample, name)))
    return sample


def group_by_slice(samples: Iterable[SampleResult], keys: Iterable[str] | None) -> dict[str, list[SampleResult]]:
    """The samples by the values of each metadata key, as `key=value`; the key `tags` stands for the tags themselves.

    Without `keys`: the tags, and every key that has from two to twenty plain values, but nothing that holds for all of
    the samples. A sample without a key is in none of its slices; one with several tags is in several. Each slice has
    exactly the samples that `in_slice` finds by its name.
    """
    members = list(samples)
    slices: dict[str, list[SampleResult]] = {}
    for key in _telling_keys(members) if keys is None else keys:
        for sample in members:
            if key == TAGS:
                slices |= {tag: [] for tag in sample.tags}
            elif key in sample.metadata:
                slices[f"{key}={_spell(sample.metadata[key])[0]}"] = []
    for sample in members:
        named = [f"{key}={text}" for key, value in sample.metadata.items() for text in _spell(value)]
        for name in dict.fromkeys([*sample.tags, *named]):
            if name in slices:
                slices[name].append(sample)
    if keys is None:
        return {name: found for name, found in slices.items() if len(found) < len(members)}
    return slices


def _spell(value: Any) -> Sequence[str]:
    """A value of the metadata as the names of slices may spell it, first as reports do."""
    if value is None or isinstance(value, bool):
        text = json.dumps(value)
        return text, str(value), text.title(), text.upper()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value)), str(value), f"{int(value)}.0"
    return (str(value),)


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


def summarise(
    samples: Sequence[SampleResult], metrics: "Iterable[MetricOutline]", cluster: str | None = None
) -> dict[str, Summary]:
    """The summary of each metric over some samples, with its interval."""
    summaries = {}
    for metric in metrics:
        scores, clusters = pool_scores(samples, metric.name, metric.statistic, cluster)
        found = estimate_scores(scores, metric.statistic, metric.reach, clusters)
        summaries[metric.name] = compute_summary(scores, metric.statistic, metric.direction, found, metric.reach)
    return summaries


def compute_summary(
    scores: Sequence[Score],
    statistic: str,
    direction: Direction,
    found: Estimate | None = None,
    bounds: tuple[float, float] | None = None,
) -> Summary:
    """Aggregate the scored ones by `statistic` (mean, median, min, max, p50 … p99) and count all the others."""
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
    """How many scores are not applicable, by cause, in the order of Cause."""
    found = Counter(score.cause for score in scores if score.status is ScoreStatus.NOT_APPLICABLE)
    return {cause: found[cause] for cause in Cause if found[cause]}


def estimate_scores(
    scores: Sequence[Score],
    statistic: str,
    reach: tuple[float, float] | None,
    clusters: Sequence[Hashable] | None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The interval of those that are scored. `clusters`: as long as `scores`."""
    labels = None
    if clusters is not None:
        labels = [label for label, score in zip(clusters, scores, strict=True) if score.value is not None]
    values = [score.value for score in scores if score.value is not None]
    return estimate(values, statistic, reach, confidence, clusters=labels)
