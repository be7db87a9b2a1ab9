"""Scores of one metric over many samples, as one number with its counts."""

from collections.abc import Iterable

from evalspec.records import SampleResult, Score, ScoreStatus, Summary
from evalspec.stats import bootstrap_interval, compute_statistic


def find_slices(samples: Iterable[SampleResult], keys: Iterable[str]) -> dict[str, list[SampleResult]]:
    """The samples by the values of each metadata key, as `key=value`; the key `tags` stands for the tags themselves.

    A sample without a key is in none of its slices; one with several tags is in several.
    """
    members = list(samples)
    slices: dict[str, list[SampleResult]] = {}
    for key in keys:
        for sample in members:
            given = sample.tags if key == "tags" else (sample.metadata[key],) if key in sample.metadata else ()
            for value in given:
                slices.setdefault(value if key == "tags" else f"{key}={value}", []).append(sample)
    return slices


def compute_summary(metric: str, statistic: str, scores: Iterable[Score], *, with_interval: bool = True) -> Summary:
    """Aggregate the scored ones by `statistic` (mean, median, min, max, p50 … p99) and count all the others."""
    by_status: dict[ScoreStatus, list[Score]] = {status: [] for status in ScoreStatus}
    for score in scores:
        by_status[score.status].append(score)
    values = [score.value for score in by_status[ScoreStatus.SCORED] if score.value is not None]
    return Summary(
        metric=metric,
        statistic=statistic,
        value=compute_statistic(values, statistic) if values else None,
        interval=bootstrap_interval(values, statistic) if with_interval else None,
        scored=len(values),
        failed=len(by_status[ScoreStatus.FAILED]),
        skipped=len(by_status[ScoreStatus.SKIPPED]),
        not_applicable=len(by_status[ScoreStatus.NOT_APPLICABLE]),
        median=compute_statistic(values, "median") if values else None,
    )
