"""The texts of one sample in two runs: both answers, and how the relevant documents moved.

Of several attempts, one is shown in which the sample changed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from evalspec.comparison.result import CandidateComparison, NamedRun, SampleChange
from evalspec.model import Exchange, StoredExchange


@dataclass(frozen=True, slots=True)
class RankMove:
    """A relevant document, and its ranks from 1; None where it was not retrieved."""

    document: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One sample. An answer is None where there is no reply, or its text is not kept.

    `attempt`: which of how many that both runs have; None where there is only one.
    """

    question: str
    baseline: str | None
    candidate: str | None
    moves: tuple[RankMove, ...]
    attempt: tuple[int, int] | None = None


def read_side_by_side(baseline: NamedRun, one: CandidateComparison, most: int) -> Mapping[tuple[str, str], SideBySide]:
    """The texts of the samples that changed most, by dataset and id; of those that both runs have texts of.

    `most`: samples a dataset.
    """
    if baseline.texts is None or one.candidate.texts is None:
        return {}
    changes = {
        (dataset.name, change.id): (change, (dataset.candidate_name, change.id))
        for dataset in one.datasets
        for change in dataset.samples[:most]
    }
    if not changes:
        return {}
    before = _read_attempts(baseline, changes.keys())
    after = _read_attempts(one.candidate, {key for _, key in changes.values()})
    found = {}
    for key, (change, key_after) in changes.items():
        pairs = list(zip(before.get(key, ()), after.get(key_after, ()), strict=False))
        if pairs:
            place = _list_changed(change, pairs)
            shown = _compare(*(stored_exchange.exchange for stored_exchange in pairs[place]))
            found[key] = replace(shown, attempt=(place + 1, len(pairs)) if len(pairs) > 1 else None)
    return found


def _read_attempts(run: NamedRun, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], list[StoredExchange]]:
    """The exchanges of each sample, in the order of its attempts."""
    found: dict[tuple[str, str], list[StoredExchange]] = {}
    for stored_exchange in run.texts(wanted) if run.texts else ():
        key = _key(stored_exchange)
        if key in wanted:
            found.setdefault(key, []).append(stored_exchange)
    for exchanges in found.values():
        exchanges.sort(key=lambda stored_exchange: stored_exchange.attempt)
    return found


def _list_changed(change: SampleChange, pairs: Sequence[tuple[StoredExchange, StoredExchange]]) -> int:
    """The place of the attempt that changed most in the scores that changed, and of equals the first."""
    return max(range(len(pairs)), key=lambda place: (_size(change, *pairs[place]), -place))


def _size(change: SampleChange, before: StoredExchange, after: StoredExchange) -> float:
    """How much the scores of one attempt changed, for the worse or better as those of the sample did.

    A score that one side lacks counts as the largest change: metrics in ranges of their own do not mix.
    """
    size = 0.0
    for score in change.scores:
        old, new = before.scores.get(score.metric), after.scores.get(score.metric)
        values = [side.value if side else None for side in (old, new)]
        if values[0] is not None and values[1] is not None:
            worse = isinstance(score.before, float) and isinstance(score.after, float) and score.after < score.before
            size += (values[0] - values[1]) * (1 if worse else -1)
        elif values != [None, None]:
            size += 1
    return size


def _key(stored_exchange: StoredExchange) -> tuple[str, str]:
    return stored_exchange.dataset, stored_exchange.exchange.sample.id


def _compare(before: Exchange, after: Exchange) -> SideBySide:
    question = before.sample if before.sample.user_input else after.sample
    qrels = after.sample.qrels or before.sample.qrels or {}
    old, new = before.ranking, after.ranking
    moves = []
    if old is not None and new is not None:
        for document in (name for name, grade in qrels.items() if grade > 0):
            ranks = [ranking.index(document) + 1 if document in ranking else None for ranking in (old, new)]
            if ranks[0] != ranks[1]:
                moves.append(RankMove(document, ranks[0], ranks[1]))
    texts = [(exchange.reply.response or None) if exchange.reply else None for exchange in (before, after)]
    return SideBySide(question.question if question.user_input else "", texts[0], texts[1], tuple(moves))
