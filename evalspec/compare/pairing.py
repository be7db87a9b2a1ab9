"""The same samples in two runs, and what both have of them."""

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass

from evalspec.records import DatasetResult, Direction, SampleResult, ScoreStatus

_COSTS = ("latency_", "tokens_")


@dataclass(frozen=True, slots=True)
class SamplePairs:
    """The samples of two datasets by their ids, in the baseline's order."""

    both: tuple[tuple[SampleResult, SampleResult], ...]
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """The samples that both runs have scored by one metric, and their values.

    `lost`: ids that the baseline has scored and the candidate failed to.
    """

    members: tuple[tuple[SampleResult, SampleResult], ...]
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """One metric over pairs of samples, one entry a pair: the values of both sides, None where there is none.

    `failed`: the places at which the baseline has a value and the candidate failed to give one.
    """

    pairs: Sequence[tuple[SampleResult, SampleResult]]
    baseline: Sequence[float | None]
    candidate: Sequence[float | None]
    failed: Set[int]

    def pick(self, places: Sequence[int] | None = None) -> ScorePairs:
        """The pairs at some places, or all, that both sides have scored."""
        chosen = range(len(self.pairs)) if places is None else places
        kept = [at for at in chosen if self.baseline[at] is not None and self.candidate[at] is not None]
        return ScorePairs(
            tuple(self.pairs[at] for at in kept),
            tuple(self.baseline[at] for at in kept),  # type: ignore[misc]
            tuple(self.candidate[at] for at in kept),  # type: ignore[misc]
            tuple(self.pairs[at][0].id for at in chosen if at in self.failed) if self.failed else (),
        )


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


def pair_scores(pairs: Sequence[tuple[SampleResult, SampleResult]], metric: str) -> ScoreColumns:
    """The values of one metric on both sides."""
    before, after, failed = [], [], set()
    for place, (sample, other) in enumerate(pairs):
        old, new = sample.scores.get(metric), other.scores.get(metric)
        before.append(None if old is None else old.value)
        after.append(None if new is None else new.value)
        if new is not None and new.status is ScoreStatus.FAILED and before[-1] is not None:
            failed.add(place)
    return ScoreColumns(pairs, before, after, failed)


def label_clusters(pairs: Sequence[tuple[SampleResult, SampleResult]], key: str | None) -> list[Hashable] | None:
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
