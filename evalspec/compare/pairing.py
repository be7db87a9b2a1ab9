"""The same samples in two runs, and what both have of them."""

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass

from evalspec.records import DatasetResult, Direction, SampleResult, ScoreStatus
from evalspec.stats.paired import compute_differences

Pair = tuple[SampleResult, SampleResult]
"""One sample in the baseline and in the candidate."""

_COSTS = ("latency_", "tokens_")


@dataclass(frozen=True, slots=True)
class SamplePairs:
    """The samples of two datasets by their ids, in the baseline's order."""

    both: tuple[Pair, ...]
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """The values of one metric where both runs have scored a sample, one entry a sample, and candidate less baseline.

    `lost`: ids that the baseline has scored and the candidate failed to.
    """

    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    lost: tuple[str, ...]
    pairs: Sequence[Pair]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    @property
    def members(self) -> list[Pair]:
        """The samples themselves."""
        return [self.pairs[place] for place in self.places]


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """One metric over pairs of samples, one entry a pair; what one side has not scored is 0 and not in `scored`.

    `failed`: the places at which the baseline has a value and the candidate failed to give one.
    """

    pairs: Sequence[Pair]
    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    scored: Set[int]
    failed: Set[int]

    def pick(self, places: Sequence[int] | None = None) -> ScorePairs:
        """The pairs at some places, or all, that both sides have scored."""
        chosen = range(len(self.pairs)) if places is None else places
        complete = len(self.scored) == len(self.pairs)
        kept = chosen if complete else [place for place in chosen if place in self.scored]
        before, after, differences = (
            list(map(column.__getitem__, kept)) for column in (self.baseline, self.candidate, self.differences)
        )
        lost = tuple(self.pairs[place][0].id for place in chosen if place in self.failed) if self.failed else ()
        return ScorePairs(before, after, differences, lost, self.pairs, kept)


def pair_samples(baseline: DatasetResult, candidate: DatasetResult) -> SamplePairs:
    """Pair by id; an id stands once in a dataset."""
    after = {sample.id: sample for sample in candidate.samples}
    both = tuple((sample, after[sample.id]) for sample in baseline.samples if sample.id in after)
    known = {sample.id for sample in baseline.samples}
    return SamplePairs(
        both,
        tuple(sample.id for sample in baseline.samples if sample.id not in after),
        tuple(sample.id for sample in candidate.samples if sample.id not in known),
    )


def describe_unpaired(pairs: SamplePairs) -> str:
    """`, 2 only in the baseline`, to go on with; empty where all are in both."""
    alone = {"only in the baseline": pairs.only_baseline, "only in this run": pairs.only_candidate}
    return "".join(f", {len(ids)} {where}" for where, ids in alone.items() if ids)


def pair_scores(pairs: Sequence[Pair], metric: str) -> ScoreColumns:
    """The values of one metric on both sides."""
    before, after = [0.0] * len(pairs), [0.0] * len(pairs)
    scored, failed = set(), set()
    for place, (sample, other) in enumerate(pairs):
        old, new = sample.scores.get(metric), other.scores.get(metric)
        if old is None or old.value is None or new is None:
            continue
        if new.value is not None:
            before[place], after[place] = old.value, new.value
            scored.add(place)
        elif new.status is ScoreStatus.FAILED:
            failed.add(place)
    return ScoreColumns(pairs, before, after, compute_differences(before, after), scored, failed)


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
    return {
        metric: summary.statistic for metric, summary in candidate.summaries.items() if metric in baseline.summaries
    }
