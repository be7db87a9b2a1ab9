"""The same samples in two runs: what both have of them, and what a test is given of one metric."""

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from evalspec.attempts import take_first_attempts
from evalspec.comparison.result import Delta
from evalspec.model import DatasetResult, Direction, SampleResult, Score, ScoreStatus
from evalspec.stats import compute_statistic
from evalspec.stats.paired import compute_differences
from evalspec.validity.changes import PairedScores

Pair = tuple[SampleResult, SampleResult]
"""One sample in the baseline and in the candidate."""

_COSTS = ("latency_", "tokens_")
_ABSENT = Score.skipped("not in this run")
LOST = (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE)
"""How a sample that one run has scored may have come out in the other: a skipped metric was not asked for."""


@dataclass(frozen=True, slots=True)
class SamplePairs:
    """The samples of two datasets by their ids, in the baseline's order."""

    both: tuple[Pair, ...] = ()
    only_baseline: tuple[str, ...] = ()
    only_candidate: tuple[str, ...] = ()

    def describe_unpaired(self) -> str:
        """`, 2 only in the baseline`, to follow a sentence; empty where all are in both."""
        alone = {"only in the baseline": self.only_baseline, "only in this run": self.only_candidate}
        return "".join(f", {len(ids)} {where}" for where, ids in alone.items() if ids)


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """The values of one metric where both runs have scored a sample, one entry a sample, and candidate less baseline.

    `only_baseline`: ids that only the baseline has scored, by the candidate's status; `only_candidate`: the reverse.
    """

    baseline: Sequence[float] = ()
    candidate: Sequence[float] = ()
    differences: Sequence[float] = ()
    pairs: Sequence[Pair] = ()
    places: Sequence[int] = ()
    only_baseline: Mapping[ScoreStatus, tuple[str, ...]] = field(default_factory=dict)
    only_candidate: Mapping[ScoreStatus, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def lost(self) -> tuple[str, ...]:
        """The ids that the baseline has scored and the candidate failed to."""
        return self.only_baseline.get(ScoreStatus.FAILED, ())

    @property
    def members(self) -> list[Pair]:
        """The samples themselves."""
        return [self.pairs[place] for place in self.places]


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """One metric over pairs of samples, one entry a pair; what one side has not scored is 0 and not in `scored`.

    `only_baseline`: the places at which only the baseline has a value, with the candidate's status; `only_candidate`:
    the reverse.
    """

    pairs: Sequence[Pair]
    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    scored: Set[int]
    only_baseline: Mapping[int, ScoreStatus]
    only_candidate: Mapping[int, ScoreStatus]

    def pick(self, places: Sequence[int] | None = None) -> ScorePairs:
        """The pairs at some places, or all, that both sides have scored."""
        chosen = range(len(self.pairs)) if places is None else places
        complete = len(self.scored) == len(self.pairs)
        kept = chosen if complete else [place for place in chosen if place in self.scored]
        before, after, differences = (
            list(map(column.__getitem__, kept)) for column in (self.baseline, self.candidate, self.differences)
        )
        alone = [self._name(statuses, chosen) for statuses in (self.only_baseline, self.only_candidate)]
        return ScorePairs(before, after, differences, self.pairs, kept, *alone)

    def _name(self, statuses: Mapping[int, ScoreStatus], chosen: Sequence[int]) -> dict[ScoreStatus, tuple[str, ...]]:
        """The ids at the places that were chosen, by status."""
        found: dict[ScoreStatus, list[str]] = {}
        for place in chosen if statuses else ():
            if place in statuses:
                found.setdefault(statuses[place], []).append(self.pairs[place][0].id)
        return {status: tuple(ids) for status, ids in found.items()}


def pair_samples(baseline: DatasetResult, candidate: DatasetResult) -> SamplePairs:
    """Pair by id, which is unique in a dataset.

    Samples with different numbers of attempts are paired as they were after as many attempts as both have: the mean of
    one attempt and the mean of several are not distributed alike.
    """
    after = {sample.id: sample for sample in candidate.samples}
    both = tuple(_even_out(sample, after[sample.id]) for sample in baseline.samples if sample.id in after)
    known = {sample.id for sample in baseline.samples}
    return SamplePairs(
        both,
        tuple(sample.id for sample in baseline.samples if sample.id not in after),
        tuple(sample.id for sample in candidate.samples if sample.id not in known),
    )


def _even_out(before: SampleResult, after: SampleResult) -> Pair:
    if len(before.attempts) == len(after.attempts):
        return before, after
    count = min(len(before.attempts) or 1, len(after.attempts) or 1)
    return _take_first(before, count), _take_first(after, count)


def _take_first(sample: SampleResult, count: int) -> SampleResult:
    return take_first_attempts(sample, count) if has_all_attempts(sample) else sample


def has_all_attempts(sample: SampleResult) -> bool:
    """Whether the scores of each of several attempts are known: some files have only their means."""
    return bool(sample.attempts) and sample.attempts[0].scores.keys() == sample.scores.keys()


def pair_scores(pairs: Sequence[Pair], metric: str) -> ScoreColumns:
    """The values of one metric on both sides."""
    before, after = [0.0] * len(pairs), [0.0] * len(pairs)
    scored: set[int] = set()
    only_baseline: dict[int, ScoreStatus] = {}
    only_candidate: dict[int, ScoreStatus] = {}
    for place, (sample, other) in enumerate(pairs):
        old, new = sample.scores.get(metric, _ABSENT), other.scores.get(metric, _ABSENT)
        if old.value is not None and new.value is not None:
            before[place], after[place] = old.value, new.value
            scored.add(place)
        elif old.value is not None:
            only_baseline[place] = new.status
        elif new.value is not None:
            only_candidate[place] = old.status
    return ScoreColumns(pairs, before, after, compute_differences(before, after), scored, only_baseline, only_candidate)


def label_clusters(pairs: Sequence[Pair], key: str | None) -> list[Hashable] | None:
    """Which pairs belong together, by a metadata key of the candidate; a sample without it stands for itself."""
    if key is None:
        return None
    return [
        (key, str(after.metadata[key])) if key in after.metadata else (None, after.id, number)
        for number, (_, after) in enumerate(pairs)
    ]


def sign_of(direction: Direction) -> int:
    """1 where more is better, else -1: times a delta it is positive where the candidate is better."""
    return 1 if direction is Direction.HIGHER else -1


def is_cost(metric: str, statistic: str) -> bool:
    """Whether a metric is of the price of a reply, not of its worth: it differs from reply to reply for no reason."""
    return statistic != "mean" or metric.startswith(_COSTS)


def common_metrics(baseline: DatasetResult, candidate: DatasetResult) -> Mapping[str, str]:
    """The metrics that both have, in the candidate's order, with the statistic of the candidate."""
    return {metric: summary.statistic for metric, summary in candidate.metrics.items() if metric in baseline.metrics}


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
