"""Pair the samples of two runs, and their scores for paired tests."""

from collections.abc import Hashable, Mapping, Sequence, Set

from msgspec import Struct, field

from evalspec.inputs.manifest.metric_spec import parse_passes
from evalspec.model import DatasetResult, Direction, SampleResult, Score, ScoreStatus
from evalspec.model.comparisons import Delta
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.stats.clusters import find_cluster
from evalspec.verdict.stats.paired import compute_differences
from evalspec.verdict.validity.changes import PairedScores

Pair = tuple[SampleResult, SampleResult]
"""One sample in the baseline and in the candidate."""

_COSTS = ("latency_", "tokens_")
_PLAIN_COSTS = ("latency", "cost")
_ABSENT = Score.skipped("not in this run")
LOST = (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE)
"""Statuses in one run that count as lost if the other has a score. Skipped metrics do not: they were not requested."""


class SamplePairs(Struct, frozen=True):
    """The samples of two datasets by their ids, in the baseline's order.

    `both`: those with the same content in both, which every number of a comparison is over. `edited`: those with other
    content.
    """

    both: tuple[Pair, ...] = ()
    only_baseline: tuple[str, ...] = ()
    only_candidate: tuple[str, ...] = ()
    edited: tuple[Pair, ...] = ()

    def describe_unpaired(self) -> str:
        """Return a suffix for a sentence like `, 2 only in the baseline`; empty if both runs have all samples."""
        alone = {
            "only in the baseline": self.only_baseline,
            "only in this run": self.only_candidate,
            "edited": self.edited,
        }
        return "".join(f", {len(ids)} {where}" for where, ids in alone.items() if ids)


class ScorePairs(Struct, frozen=True):
    """The values of a metric for samples scored in both runs, one entry per sample, and candidate minus baseline.

    `only_baseline`: ids with a score only in the baseline, by the candidate's status; `only_candidate`: the reverse.
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
        """Return the ids with a score in the baseline that the candidate failed to score."""
        return self.only_baseline.get(ScoreStatus.FAILED, ())

    @property
    def members(self) -> list[Pair]:
        """Return the pairs of samples."""
        return [self.pairs[place] for place in self.places]


class ScoreColumns(Struct, frozen=True):
    """A metric over pairs of samples, one entry per pair. A missing value is 0 and its index is not in `scored`.

    `only_baseline`: indexes at which only the baseline has a value, with the candidate's status; `only_candidate`: the
    reverse.
    """

    pairs: Sequence[Pair]
    baseline: Sequence[float]
    candidate: Sequence[float]
    differences: Sequence[float]
    scored: Set[int]
    only_baseline: Mapping[int, ScoreStatus]
    only_candidate: Mapping[int, ScoreStatus]

    def pick(self, places: Sequence[int] | None = None) -> ScorePairs:
        """Return the pairs with scores on both sides, at some indexes or all."""
        chosen = range(len(self.pairs)) if places is None else places
        complete = len(self.scored) == len(self.pairs)
        kept = chosen if complete else [place for place in chosen if place in self.scored]
        before, after, differences = (
            list(map(column.__getitem__, kept)) for column in (self.baseline, self.candidate, self.differences)
        )
        alone = [self._name(statuses, chosen) for statuses in (self.only_baseline, self.only_candidate)]
        return ScorePairs(before, after, differences, self.pairs, kept, *alone)

    def _name(self, statuses: Mapping[int, ScoreStatus], chosen: Sequence[int]) -> dict[ScoreStatus, tuple[str, ...]]:
        """Return the ids at the chosen indexes, by status."""
        found: dict[ScoreStatus, list[str]] = {}
        for place in chosen if statuses else ():
            if place in statuses:
                found.setdefault(statuses[place], []).append(self.pairs[place][0].id)
        return {status: tuple(ids) for status, ids in found.items()}


class DatasetPairs(Struct, frozen=True):
    """A dataset of both runs before testing: its pairs, the scores of each metric, and the metrics to test.

    `name`: its name in the baseline of the comparison.
    """

    name: str
    before: DatasetResult
    after: DatasetResult
    samples: SamplePairs
    columns: Mapping[str, ScoreColumns]
    cluster: str | None
    tested: Mapping[str, PairedScores]

    @property
    def with_gold(self) -> DatasetResult:
        """The dataset that knows the gold set, if one of them does."""
        return self.after if self.after.gold else self.before


def pair_samples(baseline: DatasetResult, candidate: DatasetResult) -> SamplePairs:
    """Return the samples paired by id, which is unique in a dataset."""
    after = {sample.id: sample for sample in candidate.samples}
    known = {sample.id for sample in baseline.samples}
    pairs = [(sample, after[sample.id]) for sample in baseline.samples if sample.id in after]
    return SamplePairs(
        tuple(pair for pair in pairs if not is_edited(*pair)),
        tuple(sample.id for sample in baseline.samples if sample.id not in after),
        tuple(sample.id for sample in candidate.samples if sample.id not in known),
        tuple(pair for pair in pairs if is_edited(*pair)),
    )


def is_edited(old: SampleResult, new: SampleResult) -> bool:
    """Return whether a sample changed between the runs. Without a digest in both, nothing is known.

    A log of another harness has digests of another kind, so only its questions are compared with those of a run.
    """
    if old.digest is None or new.digest is None:
        return False
    kinds = {digest.rpartition(":")[0] for digest in (old.digest, new.digest)}
    if len(kinds) == 1:
        return old.digest != new.digest
    return None not in (old.question_digest, new.question_digest) and old.question_digest != new.question_digest


def has_all_attempts(sample: SampleResult) -> bool:
    """Return whether the scores of all attempts are known. Some files have only means."""
    if not sample.attempts:
        return False
    return all(parse_passes(metric) for metric in sample.scores.keys() ^ sample.attempts[0].scores.keys())


def pair_scores(pairs: Sequence[Pair], metric: str) -> ScoreColumns:
    """Return the values of a metric on both sides."""
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
    """Return the cluster of each pair: copies of the candidate's samples, or a metadata key of theirs.

    A sample with neither is its own cluster. None if all samples are independent.
    """
    if key is None and all(after.unit is None for _, after in pairs):
        return None
    return [find_cluster(after, key) for _, after in pairs]


def sign_of(direction: Direction) -> int:
    """Return 1 if higher is better, otherwise -1. The product with a delta is positive if the candidate is better."""
    return 1 if direction is Direction.HIGHER else -1


def is_cost(metric: str, statistic: str) -> bool:
    """Return whether a metric measures the cost of a reply, not its quality. Costs vary between identical replies."""
    return statistic != "mean" or metric.startswith(_COSTS) or metric in _PLAIN_COSTS


def common_metrics(baseline: DatasetResult, candidate: DatasetResult) -> Mapping[str, str]:
    """Return the common metrics with their statistic, in the candidate's order."""
    return {metric: summary.statistic for metric, summary in candidate.metrics.items() if metric in baseline.metrics}


def to_paired(scores: ScorePairs, metric: str, after: DatasetResult, cluster: str | None) -> PairedScores:
    """Return the input of a paired test of the mean.

    `after`: the candidate's dataset. `cluster`: the metadata key that groups dependent samples.
    """
    members = scores.members
    labels = label_clusters(members, cluster)
    bounds = after.metrics[metric].bounds
    return PairedScores(
        scores.baseline,
        scores.candidate,
        scores.differences,
        units=[pair[0].id for pair in members] if labels is None else labels,
        is_clustered=labels is not None,
        bounds=bounds if bounds and _lie_within(bounds, scores.baseline, scores.candidate) else None,
        sign=sign_of(after.metrics[metric].direction),
        unpaired=len(list_unpaired(scores)),
        attempts=_list_attempts(members, metric),
        own=min((len(_values(new, metric)) for _, new in members), default=1),
    )


def pair_dataset(
    name: str, before: DatasetResult, after: DatasetResult, metrics: Sequence[str], samples: SamplePairs
) -> DatasetPairs:
    """Return the common samples and the testable metrics: means over samples of both runs."""
    columns = {metric: pair_scores(samples.both, metric) for metric in metrics}
    cluster = after.cluster or before.cluster
    tested = {
        metric: to_paired(column.pick(), metric, after, cluster)
        for metric, column in columns.items()
        if after.metrics[metric].statistic == "mean" and samples.both
    }
    return DatasetPairs(name, before, after, samples, columns, cluster, tested)


def _list_attempts(members: Sequence[Pair], metric: str) -> list[list[float]]:
    """Return the values of all attempts that every sample has, the baseline's first; empty with one attempt each.

    An attempt without a value has the mean of the sample's other values, in whichever run: a stand-in must not depend
    on the run, because the test exchanges the runs. Empty too if a file has only means.
    """
    counts = [min((len(_values(sample, metric)) for sample in side), default=1) for side in zip(*members, strict=True)]
    if max(counts, default=1) == 1 or not all(map(_knows_attempts, (one for pair in members for one in pair))):
        return []
    rows = []
    for pair in members:
        values = [value for one, count in zip(pair, counts, strict=True) for value in _values(one, metric)[:count]]
        known = [value for value in values if value is not None] or [0.0]
        rows.append([compute_statistic(known, "mean") if value is None else value for value in values])
    return rows


def _knows_attempts(sample: SampleResult) -> bool:
    return not sample.attempts or has_all_attempts(sample)


def _values(sample: SampleResult, metric: str) -> list[float | None]:
    return [score.value for score in sample.list_scores(metric)]


def _lie_within(bounds: tuple[float, float], *columns: Sequence[float]) -> bool:
    return all(bounds[0] <= min(values) and max(values) <= bounds[1] for values in columns if values)


def list_unpaired(scores: ScorePairs) -> tuple[str, ...]:
    """Return the ids of samples with a score in one run that failed or were not applicable in the other."""
    sides = (scores.only_baseline, scores.only_candidate)
    return tuple(name for side in sides for status in LOST for name in side.get(status, ()))


def compute_delta(
    scores: ScorePairs, metric: str, statistic: str, interval: tuple[float, float] | None = None
) -> Delta:
    """Return the statistic of both sides over the pairs.

    Statistics other than the mean are taken over single replies, so each attempt of a sample counts.
    """
    if not len(scores):
        return Delta(None, None, None, None, 0)
    if statistic == "mean":
        before, after = compute_statistic(scores.baseline, "mean"), compute_statistic(scores.candidate, "mean")
        return Delta(before, after, compute_statistic(scores.differences, "mean"), interval, len(scores))
    sides = zip(*scores.members, strict=True)
    before, after = (compute_statistic(_replies(side, metric), statistic) for side in sides)
    return Delta(before, after, after - before, interval, len(scores))


def _replies(samples: Sequence[SampleResult], metric: str) -> list[float]:
    """Return the values of single replies."""
    scores = (attempt.scores.get(metric) for sample in samples for attempt in sample.attempts or (sample,))
    return [score.value for score in scores if score is not None and score.value is not None]
