"""Compare an answer with its contexts word by word, without a judge: a signal of grounding, not a verdict.

A paraphrase shares few word pairs with its source, and a negation shares almost all of them. See
docs/reference/metrics.md.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from evalspec.model import Cause, Exchange, Need, Score
from evalspec.scoring.metrics.base import LONG_TEXTS
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.metrics.text import normalise

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Thai, Lao, Burmese, Khmer, kana and Han write no spaces between words, so each character counts as a word."""

_SENTENCE_END = re.compile(r"[.!?:;\n。！？]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SHOWN = 5

Unit = tuple[str, ...]
"""A pair of adjacent words, or a single number or name, all normalised."""


@cache
def _words() -> re.Pattern[str]:
    """Return what a word is. It takes milliseconds to compile, and few runs need it."""
    return re.compile(rf"\d+(?:[.,:/]\d+)*|[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")


def list_units(answer: str) -> list[Unit]:
    """Return the pairs of adjacent words within a sentence, the numbers and the names of an answer, in order.

    A name is a word with a capital that does not begin a sentence, or the only word of the answer.
    """
    words = list(_words().finditer(answer))
    units: list[Unit] = []
    last: re.Match[str] | None = None
    for word in words:
        follows = last is not None and not _SENTENCE_END.search(answer, last.end(), word.start())
        if last is not None and follows:
            units.append((_fold(last[0]), _fold(word[0])))
        is_name = word[0][0].isupper() and (follows or len(words) == 1)
        if is_name or word[0][0].isdecimal():
            units.append((_fold(word[0]),))
        last = word
    return units


def compute_overlap(units: Sequence[Unit], contexts: Sequence[str]) -> tuple[float, list[Unit]]:
    """Return the share of units that occur in the contexts, from 0 to 1, and the distinct ones that do not.

    `units`: at least one.
    """
    known = {unit for context in contexts for unit in _list_all(context)}
    missing = [unit for unit in units if unit not in known]
    return 1 - len(missing) / len(units), list(dict.fromkeys(missing))


def _list_all(context: str) -> Iterator[Unit]:
    """Yield every word of a context and every pair of adjacent words, also across sentences."""
    words = [_fold(found) for found in _words().findall(context)]
    for word in words:
        yield (word,)
    yield from pairwise(words)


def _fold(word: str) -> str:
    """Return a word for comparison: normalised, a number without separators of thousands."""
    folded = normalise(word)
    return folded.replace(",", "") if _GROUPED.fullmatch(folded) else folded


@metric(needs={Need.CONTEXT}, reads_at_most=LONG_TEXTS)
def grounding_overlap(exchange: Exchange) -> Score:
    """Share of the answer's word pairs, numbers and names that occur in the contexts. No verdict: see its limits."""
    contexts = exchange.prompt_contexts or ()
    units = list_units(exchange.response)
    if not units:
        return Score.not_applicable("the answer has no word pair, number or name to look up", Cause.REPLY)
    value, missing = compute_overlap(units, contexts)
    if not missing:
        return Score.scored(value)
    shown = ", ".join(f"'{' '.join(unit)}'" for unit in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return Score.scored(value, f"not in the contexts: {shown}{more}")
