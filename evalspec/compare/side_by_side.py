"""The texts of one sample in two runs: both answers, and how the relevant documents moved."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evalspec.compare.comparison import CandidateComparison, NamedRun
from evalspec.records import Exchange, Transcript


@dataclass(frozen=True, slots=True)
class RankMove:
    """A relevant document, and its ranks from 1; None where it was not retrieved."""

    document: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One sample. An answer is None where there is no reply, or its text is not kept."""

    question: str
    baseline: str | None
    candidate: str | None
    moves: tuple[RankMove, ...]


def read_side_by_side(baseline: NamedRun, one: CandidateComparison, most: int) -> Mapping[tuple[str, str], SideBySide]:
    """The texts of the samples that changed most, by dataset and id; of those that both runs have texts of.

    `most`: samples a dataset.
    """
    if baseline.texts is None or one.candidate.texts is None:
        return {}
    named = {
        (dataset.candidate_name, change.id): (dataset.name, change.id)
        for dataset in one.datasets
        for change in dataset.samples[:most]
    }
    if not named:
        return {}
    before = _first_attempts(baseline, set(named.values()))
    after = _first_attempts(one.candidate, named.keys())
    return {
        key: _compare(before[key], after[key_after])
        for key_after, key in named.items()
        if key in before and key_after in after
    }


def _first_attempts(run: NamedRun, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Exchange]:
    found: dict[tuple[str, str], Exchange] = {}
    for transcript in run.texts(wanted) if run.texts else ():
        key = _key(transcript)
        if key in wanted:
            found.setdefault(key, transcript.exchange)
    return found


def _key(transcript: Transcript) -> tuple[str, str]:
    return transcript.dataset, transcript.exchange.sample.id


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
