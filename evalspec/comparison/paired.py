"""One metric over the samples that two runs have in common: its values, and what a test is given of them."""

from collections.abc import Sequence

from evalspec.comparison.pairing import ScorePairs, label_clusters, sign_of
from evalspec.comparison.result import Delta
from evalspec.model import DatasetResult, SampleResult, ScoreStatus
from evalspec.stats import compute_statistic
from evalspec.validity.changes import PairedScores

LOST = (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE)
"""How a sample that one run has scored may have come out in the other: a skipped metric was not asked for."""


def to_paired(scores: ScorePairs, metric: str, after: DatasetResult, cluster: str | None) -> PairedScores:
    """What a paired test of the mean needs. `after`: the candidate's dataset; `cluster`: the metadata key of samples
    that belong together."""
    members = scores.members
    labels = label_clusters(members, cluster)
    bounds = after.metrics[metric].bounds
    values = (*scores.baseline, *scores.candidate)
    return PairedScores(
        scores.baseline,
        scores.candidate,
        scores.differences,
        units=[pair[0].id for pair in members] if labels is None else labels,
        is_clustered=labels is not None,
        bounds=bounds if bounds and all(bounds[0] <= value <= bounds[1] for value in values) else None,
        sign=sign_of(after.metrics[metric].direction),
        unpaired=len(list_unpaired(scores)),
    )


def list_unpaired(scores: ScorePairs) -> tuple[str, ...]:
    """Ids of samples that one run has scored, and that failed or became not applicable in the other."""
    sides = (scores.only_baseline, scores.only_candidate)
    return tuple(name for side in sides for status in LOST for name in side.get(status, ()))


def compute_delta(
    scores: ScorePairs, metric: str, statistic: str, interval: tuple[float, float] | None = None
) -> Delta:
    """The statistic of both sides over the pairs.

    A statistic other than the mean is one of single replies, so that each attempt of a sample counts.
    """
    if not len(scores):
        return Delta(None, None, None, None, 0)
    if statistic == "mean":
        before, after = compute_statistic(scores.baseline, "mean"), compute_statistic(scores.candidate, "mean")
        return Delta(before, after, compute_statistic(scores.differences, "mean"), interval, len(scores))
    before, after = (
        compute_statistic(_replies([pair[side] for pair in scores.members], metric), statistic) for side in (0, 1)
    )
    return Delta(before, after, after - before, interval, len(scores))


def _replies(samples: Sequence[SampleResult], metric: str) -> list[float]:
    """The values of single replies."""
    scores = (attempt.scores.get(metric) for sample in samples for attempt in sample.attempts or (sample,))
    return [score.value for score in scores if score is not None and score.value is not None]
