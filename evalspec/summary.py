"""Scores of one metric over many samples, as one number with its counts."""

from collections.abc import Iterable

from evalspec.records import Score, ScoreStatus, Summary
from evalspec.stats import bootstrap_interval, compute_statistic


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
    )
