"""Control cases for the judge: replies that are known to be good or bad, made from the samples of a dataset.

The agent is not involved, so the cases of a dataset are the same in each run, and the judge's cache has their scores.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import AgentReply, Exchange, Sample
from evalspec.scoring.judge.belonging import content_words
from evalspec.scoring.judge.cache_file import CONTROL_ID
from evalspec.scoring.metrics.abstention import is_abstention
from evalspec.scoring.metrics.base import ControlKind

MOST_PAIRS = 10
_POOL = 40
"""Samples among which the most different one is looked for, so that the time does not grow with their square."""
_MOST_SHARED = 0.5
"""Share of a text's words that another text may have, if the one is to be wrong for the other."""


class ControlPair(Struct, frozen=True):
    """A known-good and a known-bad reply to one question."""

    good: Exchange
    bad: Exchange


class _Material(Struct, frozen=True):
    """What control cases are made of: a sample, its right answer, passages that say the same, and the words of each.

    `known`: the words of question, answer and passages together.
    """

    sample: Sample
    answer: str
    passages: tuple[str, ...]
    words: tuple[frozenset[str], ...]
    known: frozenset[str]

    def measure_shared(self, other: "_Material") -> float:
        """Return the larger share of the words of another sample's answer, or of its passages, that this one has."""
        return max(len(words & self.known) / len(words) for words in other.words if words)

    def reply(self, answer: str, passages: Sequence[str]) -> Exchange:
        """Return a reply to the question."""
        return Exchange(replace(self.sample, id=CONTROL_ID), AgentReply(answer, tuple(passages)))


def make_controls(kind: ControlKind, samples: Iterable[Sample]) -> list[ControlPair]:
    """Return at most MOST_PAIRS control cases of a kind, the same ones for the same samples in any order.

    A sample has none if it lacks a right answer, or if all answers say the same.
    """
    usable = (sample for sample in samples if _has_material(sample, kind))
    pool = [_read(sample) for sample in nsmallest(_POOL, usable, key=_shuffle)]
    found = ((one, _find_stranger(one, pool)) for one in pool)
    return [_MAKERS[kind](one, other) for one, other in found if other is not None][:MOST_PAIRS]


def _has_material(sample: Sample, kind: ControlKind) -> bool:
    answer = sample.reference or ""
    if kind is ControlKind.PASSAGES and any(map(content_words, sample.reference_contexts or ())):
        return True
    return sample.answerable is not False and bool(content_words(answer)) and not is_abstention(answer)


def _shuffle(sample: Sample) -> bytes:
    return hashlib.sha256(sample.id.encode("utf-8", "surrogatepass")).digest()


def _read(sample: Sample) -> _Material:
    answer = sample.reference or ""
    passages = sample.reference_contexts or (answer,)
    words = content_words(answer), content_words("\n".join(passages))
    return _Material(sample, answer, passages, words, content_words(sample.question).union(*words))


def _find_stranger(one: _Material, pool: Sequence[_Material]) -> _Material | None:
    """Return the sample whose answer and passages have least in common with a sample; None if all have much."""
    shared = [(one.measure_shared(other), place) for place, other in enumerate(pool) if other is not one]
    least, place = min(shared, default=(1.0, 0))
    return pool[place] if least < _MOST_SHARED else None


def _swap_answer(one: _Material, other: _Material) -> ControlPair:
    return ControlPair(one.reply(one.answer, one.passages), one.reply(other.answer, one.passages))


def _add_sentence(one: _Material, other: _Material) -> ControlPair:
    """Return the right answer, and the same with a sentence that no passage supports."""
    passages = dict.fromkeys((*one.passages, one.answer))
    end = "" if one.answer.rstrip().endswith((".", "!", "?", "。")) else "."
    longer = f"{one.answer.rstrip()}{end} {other.answer}"
    return ControlPair(one.reply(one.answer, [*passages]), one.reply(longer, [*passages]))


def _swap_passages(one: _Material, other: _Material) -> ControlPair:
    return ControlPair(one.reply(one.answer, one.passages), one.reply(one.answer, other.passages))


_MAKERS: Mapping[ControlKind, Callable[[_Material, _Material], ControlPair]] = {
    ControlKind.ANSWER: _swap_answer,
    ControlKind.SUPPORT: _add_sentence,
    ControlKind.PASSAGES: _swap_passages,
}
