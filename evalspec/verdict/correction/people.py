"""The correction of a judged metric over the samples of a dataset, or over those of a slice."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.plural import counted, pluralize
from evalspec.model import (
    Attempt,
    Basis,
    Correction,
    DrawKind,
    PeopleScore,
    PeopleScores,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Threshold,
    VerdictStatus,
)
from evalspec.model.comparisons import PeopleDifference
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.scores import SAME_ANSWER
from evalspec.verdict.correction.agreement import measure_kappa
from evalspec.verdict.correction.estimates import FEWEST, SEQUENCE, Corrected, Opinions, correct
from evalspec.verdict.correction.sufficiency import NO_LABELS, explain_undecided, list_objections
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.stats.bounded import compute_confidence_sequence
from evalspec.verdict.stats.clusters import find_cluster
from evalspec.verdict.validity.estimates import CONFIDENCE, describe_dominance

if TYPE_CHECKING:
    from evalspec.inputs.manifest.gate_schema import CiGate


People = Mapping[str, PeopleScores]
"""What people say about the scores of a dataset, by metric."""


class Correctable(Struct, frozen=True):
    """What judge and people say about one metric, ready to be estimated; `reason`: why people's part is too small.

    `scores`: people's scores of the replies that count. `replies`: sample and attempt of all replies.
    """

    opinions: Opinions
    scores: Sequence[PeopleScore]
    replies: Sequence[tuple[str, int]]
    reason: str | None = None

    def estimate(self, confidence: float = CONFIDENCE) -> Corrected | None:
        """Return people's mean over all replies; None where `reason` says why, or with too few labels."""
        if self.reason:
            return None
        if self.scores[0].draw.kind is DrawKind.SEQUENTIAL:
            return _estimate_in_sequence(self, confidence)
        return correct(self.opinions, confidence)


def gather(
    samples: Sequence[SampleResult],
    metric: MetricOutline,
    people: PeopleScores,
    cluster: str | None,
    *,
    with_lacking: bool = False,
) -> Correctable:
    """Return what judge and people say about the replies to some samples. `cluster`: as for `find_cluster`.

    Replies to which the metric does not apply are left out. Replies without a score are not: people may have one. Nor
    are those to which it does not apply because of the reply or the judge, if people have a score of one of them.
    `with_lacking`: nor if they are too many.
    """
    known = {(one.id, one.attempt): one for one in people.scores}
    every = [
        (reply, score, find_cluster(sample, cluster), is_answered)
        for sample in samples
        for reply, score, is_answered in _list_replies(sample, metric.name)
    ]
    with_lacking = with_lacking or any(score.lacks_evidence and reply in known for reply, score, *_ in every)
    rows = [
        row
        for row in every
        if row[1].status is not ScoreStatus.NOT_APPLICABLE or (with_lacking and row[1].lacks_evidence)
    ]
    replies = [reply for reply, *_ in rows]
    scores = [known[reply] for reply in replies if reply in known]
    rarest = max(map(_weigh, scores), default=1.0)
    ties = {reply: score.value for reply, score, *_ in rows if score.reason == SAME_ANSWER}  # nobody need say so
    values = ties | {reply: one.value for reply, one in known.items()}
    weights = dict.fromkeys(ties, 1.0) | {reply: _weigh(one) for reply, one in known.items()}
    unchanged, unanswered = map(frozenset, (people.unchanged, people.unanswered))
    opinions = Opinions(
        judged=[score.value for _, score, *_ in rows],
        people=[values.get(reply) for reply in replies],
        bounds=metric.reach or (0.0, 1.0),
        weights=[weights.get(reply, rarest) for reply in replies],
        units=[unit for *_, unit, _ in rows],
        groups=[(reply in ties, reply in unchanged, is_answered) for reply, *_, is_answered in rows],
        unanswered=[reply in unanswered for reply in replies],
    )
    return Correctable(opinions, scores, replies, _explain(metric, scores, opinions))


def _weigh(said: PeopleScore) -> float:
    return 1 / (said.draw.probability or 1.0)


def describe_correction(found: Correctable, estimate: Corrected | None) -> Correction:
    """Return the numbers of judge and people, with the estimate from them."""
    opinions = found.opinions
    judged = [one for one in opinions.judged if one is not None]
    said = [one.value for one in found.scores]
    labelled = {(one.id, one.attempt) for one in found.scores}
    both = [
        (one, other)
        for reply, one, other in zip(found.replies, opinions.judged, opinions.people, strict=True)
        if one is not None and other is not None and reply in labelled
    ]
    kappa = measure_kappa([one for one, _ in both], [other for _, other in both], opinions.bounds)
    return Correction(
        judge=sum(judged) / len(judged) if judged else None,
        people=sum(said) / len(said) if said else None,
        value=estimate.value if estimate else None,
        interval=estimate.interval if estimate else None,
        method=estimate.method if estimate else None,
        labels=len(said),
        replies=len(opinions.judged),
        missing=estimate.missing if estimate else 0,
        unanswered=estimate.unanswered if estimate else 0,
        kappa=kappa.value,
        kappa_interval=kappa.interval,
        reason=None if estimate else found.reason or _say_few(len(said)),
    )


class Consultation(Struct, frozen=True):
    """What people say about a limit on a judged metric: nothing, too little, or enough for an estimate."""

    said: PeopleScores | None = None
    correction: Correction | None = None
    estimate: Corrected | None = None
    is_mean: bool = True

    @property
    def basis(self) -> Basis:
        """What the value of the metric rests on."""
        return Basis.PEOPLE if self.estimate else Basis.JUDGE

    def doubt(self, found: Threshold, policy: "CiGate") -> Threshold:
        """Return the outcome of the limit, INCOMPLETE where the manifest asks for more than people say."""
        if found.status not in (VerdictStatus.PASS, VerdictStatus.FAIL):
            return found
        is_met = found.status is VerdictStatus.PASS
        is_census = self.correction is not None and self.correction.labels == self.correction.replies
        undecided = None if is_census else explain_undecided(found, self.estimate)
        objections = list_objections(
            found.metric, policy.judge, self.said, self.correction, is_met=is_met, is_mean=self.is_mean
        )
        reason = undecided or next(objections, None)
        return found if reason is None else replace(found, status=VerdictStatus.INCOMPLETE, reason=reason)


def consult(
    limit: Threshold,
    metric: MetricOutline,
    samples: Sequence[SampleResult],
    policy: "CiGate",
    cluster: str | None,
    people: People | None,
    *,
    with_lacking: bool,
) -> Consultation:
    """Return what people say about the metric of a limit. `people`: None if nobody says anything.

    `with_lacking`: as for `gather`.
    """
    is_mean = (limit.stat or metric.statistic) == "mean"
    is_used = is_mean and policy.judge.correct is not JudgeCorrection.OFF
    said = (people or {}).get(metric.name) if is_used else None
    if said is None:
        return Consultation(is_mean=is_mean)
    found = gather(samples, metric, said, cluster, with_lacking=with_lacking)
    estimate = found.estimate(limit.confidence or CONFIDENCE)
    return Consultation(said, describe_correction(found, estimate), estimate)


def _list_replies(sample: SampleResult, metric: str) -> Iterator[tuple[tuple[str, int], Score, bool]]:
    """Yield sample and attempt of each reply to a sample, with its score and whether there is a reply."""
    attempts: Sequence[SampleResult | Attempt] = sample.attempts or (sample,)
    for number, attempt in enumerate(attempts, 1):
        yield (sample.id, number), attempt.scores[metric], attempt.status is SampleStatus.ANSWERED


def _explain(metric: MetricOutline, scores: Sequence[PeopleScore], opinions: Opinions) -> str | None:
    """Return why labels cannot correct a metric; None if they can."""
    if metric.statistic != "mean" or metric.reach is None:
        return "only means of scores with a range can be corrected"
    if len({one.draw.kind is DrawKind.SEQUENTIAL for one in scores}) > 1:
        return "labels of --until-decided cannot be mixed with others"
    if len(scores) < FEWEST:
        return _say_few(len(scores))
    units = [unit for unit, said in zip(opinions.units or (), opinions.people, strict=True) if said is not None]
    if scores[0].draw.kind is DrawKind.SEQUENTIAL and len(set(units)) < len(units):
        return "labels of --until-decided need independent replies"
    return describe_dominance(units)


def _estimate_in_sequence(found: Correctable, confidence: float) -> Corrected:
    """Return the mean of labels whose number depends on them, with the interval that holds whenever they end.

    Replies that are as they were when labelled are a part, and the others another one. Without labels, a part may have
    any score. The parts share the chance of an error.
    """
    from evalspec.inputs.datasets.selection import rank_replies

    opinions = found.opinions
    rows = {reply: place for place, reply in enumerate(found.replies)}
    order = [rows[reply] for reply in rank_replies(rows, found.scores[0].draw.seed or 0)]
    groups = opinions.groups or [False] * len(order)
    parts: dict[Hashable, list[int]] = {}
    for place in order:
        parts.setdefault(groups[place], []).append(place)
    labelled = [own for own in parts.values() if any(opinions.people[place] is not None for place in own)]
    count, level = sum(map(len, labelled)), (1 - confidence) / len(labelled)
    found_parts = [(len(own) / len(order), _follow_sequence(own, opinions, level)) for own in labelled]
    value, *ends = (math.fsum(size * one[place] for size, one in found_parts) for place in range(5))
    missing = len(order) - count
    unknown = [missing / len(order) * bound for bound in (*opinions.bounds, *opinions.bounds)]
    least, most, low, high = map(sum, zip(ends, unknown, strict=True))
    is_open = opinions.unanswered or [False] * len(order)
    unanswered = sum(is_open[place] and opinions.people[place] is None for own in labelled for place in own)
    return Corrected(value * len(order) / count, (least, most), missing, unanswered, (low, high), SEQUENCE)


def _follow_sequence(order: Sequence[int], opinions: Opinions, level: float) -> tuple[float, ...]:
    """Return the mean of the labels of a part, its ends as those of `Corrected`, and those of its confidence sequence.

    Replies that were drawn and not labelled are in the sequence with the lowest score, and then with the highest: who
    passes over them must not decide. `order`: that of the draw.
    """
    is_open = opinions.unanswered or [False] * len(opinions.people)
    drawn = [place for place in order if is_open[place] or opinions.people[place] is not None]
    known = [one for place in drawn if (one := opinions.people[place]) is not None]
    filled = [
        [bound if (one := opinions.people[place]) is None else one for place in drawn] for bound in opinions.bounds
    ]
    least, most = (math.fsum(one) / len(one) for one in filled)
    first, last = (compute_confidence_sequence(one, opinions.bounds, level)[-1] for one in filled)
    return math.fsum(known) / len(known), least, most, first[0], last[1]


def _say_few(count: int) -> str:
    return f"{counted(count, 'blind random label')} {pluralize(count, 'is', 'are')} too few" if count else NO_LABELS


Pair = tuple[SampleResult, SampleResult]


def correct_difference(
    pairs: Sequence[Pair],
    metric: str,
    reach: tuple[float, float],
    said: tuple[PeopleScores, PeopleScores],
    cluster: str | None,
    confidence: float,
) -> Corrected | str:
    """Return the mean of new minus old as people see it, over all pairs; or why it cannot be known.

    Each pair is a reply whose score is its difference: strata are the differences of the judge, and labels are those of
    samples that both runs have labels of. Two random draws have a random part in common, whether they share a seed or
    not. Replies that did not change are a part of their own. `said`: of the old run and of the new one. `reach`: the
    range of the scores.
    """
    if any(len(sample.attempts) > 1 for pair in pairs for sample in pair):
        return "labels of repeated attempts are not paired"
    if any(one.draw.kind is not DrawKind.RANDOM for side in said for one in side.scores):
        return "only labels of --random are paired"
    old, new = ({one.id: one for one in side.scores} for side in said)
    rows = [pair for pair in pairs if not any(_score(one, metric).status is _ABSENT for one in pair)]
    people = [_subtract(old.get(before.id), new.get(after.id)) for before, after in rows]
    unchanged = frozenset(said[1].unchanged)
    count = sum(one is not None for one in people)
    if count < FEWEST:
        return f"people have scored {counted(count, 'sample')} in both runs, and {FEWEST} are needed"
    width = reach[1] - reach[0]
    opinions = Opinions(
        judged=[_difference(_score(before, metric).value, _score(after, metric).value) for before, after in rows],
        people=people,
        bounds=(-width, width),
        units=[find_cluster(after, cluster) for _, after in rows],
        groups=[(after.id, 1) in unchanged for _, after in rows],
        unanswered=[
            one is None and all(_was_drawn(side, sample.id) for side, sample in zip(said, pair, strict=True))
            for one, pair in zip(people, rows, strict=True)
        ],
    )
    return correct(opinions, confidence) or "too few samples have labels in both runs"


def describe_difference(
    pairs: Sequence[Pair],
    metric: str,
    reach: tuple[float, float],
    said: tuple[PeopleScores, PeopleScores],
    cluster: str | None,
    confidence: float,
) -> PeopleDifference:
    """Return the difference as people see it, or why it is unknown. Arguments are those of `correct_difference`."""
    found = correct_difference(pairs, metric, reach, said, cluster, confidence)
    old, new = ({one.id for one in side.scores} for side in said)
    labelled = sum(before.id in old and after.id in new for before, after in pairs)
    if isinstance(found, str):
        return PeopleDifference(labelled=labelled, reason=found)
    return PeopleDifference(delta=found.value, interval=found.interval, labelled=labelled)


_ABSENT = ScoreStatus.NOT_APPLICABLE


def _score(sample: SampleResult, metric: str) -> Score:
    return sample.scores.get(metric) or Score.skipped("not in this run")


def _subtract(old: PeopleScore | None, new: PeopleScore | None) -> float | None:
    return _difference(old.value if old else None, new.value if new else None)


def _difference(old: float | None, new: float | None) -> float | None:
    return None if old is None or new is None else new - old


def _was_drawn(side: PeopleScores, id: str) -> bool:
    return any(one.id == id for one in side.scores) or (id, 1) in side.unanswered
