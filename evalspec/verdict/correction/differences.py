"""What people say about the difference between two runs, where both have blind random labels of the same samples."""

from collections.abc import Sequence

from evalspec.base.plural import counted
from evalspec.model import DrawKind, PeopleScore, PeopleScores, SampleResult, Score, ScoreStatus
from evalspec.verdict.correction.estimates import FEWEST, Corrected, Opinions, correct
from evalspec.verdict.stats.clusters import find_cluster

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


_ABSENT = ScoreStatus.NOT_APPLICABLE


def _score(sample: SampleResult, metric: str) -> Score:
    return sample.scores.get(metric) or Score.skipped("not in this run")


def _subtract(old: PeopleScore | None, new: PeopleScore | None) -> float | None:
    return _difference(old.value if old else None, new.value if new else None)


def _difference(old: float | None, new: float | None) -> float | None:
    return None if old is None or new is None else new - old


def _was_drawn(side: PeopleScores, id: str) -> bool:
    return any(one.id == id for one in side.scores) or (id, 1) in side.unanswered
