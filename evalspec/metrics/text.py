"""Metrics that compare the response with the gold answers as text; of several gold answers the best match counts.

string_match and exact_match look at texts without regard to case (Unicode caseless matching), to runs of white space
and to how an accented letter is encoded. The others are the usual scores of machine translation and summarisation,
scaled to 0..1: bleu and chrf are sacrebleu's with its defaults, rouge is ROUGE-L (Lin 2004).

rouge differs from the package rouge-score in one thing: a word is a run of letters, marks and digits of any script,
where that package keeps only a-z and 0-9 and so gives every Korean or Greek answer 0. On ASCII text both agree. Scripts
that are written without spaces make one word of a phrase; chrf suits them better.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from evalspec.errors import MetricError
from evalspec.metrics.base import MetricDefinition, per_sample, register
from evalspec.records import Exchange, Need, Score

Comparison = Callable[[str, Sequence[str]], float]
"""Response and gold answers, none of them blank, to a value in 0..1."""


def compute_string_match(response: str, references: Sequence[str]) -> float:
    """1 where one of the references occurs in the response."""
    text = _normalise(response)
    return float(any(_normalise(reference) in text for reference in references))


def compute_exact_match(response: str, references: Sequence[str]) -> float:
    """1 where the response is one of the references."""
    text = _normalise(response)
    return float(any(_normalise(reference) == text for reference in references))


def compute_rouge(response: str, references: Sequence[str]) -> float:
    """ROUGE-L: F-measure of the longest common subsequence of words, without stemming."""
    words = _words(response)
    return max(_rouge_l(words, _words(reference)) for reference in references)


def compute_bleu(response: str, references: Sequence[str]) -> float:
    """Sentence BLEU of sacrebleu: 13a tokens, exponential smoothing, orders above the sentence's length left out."""
    return _as_share(_bleu().sentence_score(response, list(references)).score)


def compute_chrf(response: str, references: Sequence[str]) -> float:
    """Sentence chrF of sacrebleu: F2 of character n-grams up to 6."""
    return _as_share(_chrf().sentence_score(response, list(references)).score)


def _normalise(text: str) -> str:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return " ".join(folded.split())


def _words(text: str) -> list[str]:
    lowered = unicodedata.normalize("NFC", text).lower()
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in lowered).split()


def _rouge_l(words: list[str], reference: list[str]) -> float:
    from rapidfuzz.distance import LCSseq

    common = LCSseq.similarity(words, reference)
    return 2 * common / (len(words) + len(reference)) if common else 0.0


@cache
def _bleu() -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(effective_order=True)


@cache
def _chrf() -> Any:
    from sacrebleu.metrics import CHRF

    return CHRF()


def _as_share(percent: float) -> float:
    """sacrebleu's 0..100 as 0..1; its perfect score comes out a rounding error above 100."""
    return min(percent / 100, 1.0)


def _score(compare: Comparison, exchange: Exchange) -> Score:
    references = exchange.sample.references
    if exchange.reply is None:
        raise MetricError("the agent gave no reply")
    if not references:
        raise MetricError("the sample has no expected answer")
    if not all(reference.strip() for reference in references):
        raise MetricError("an expected answer is blank, so there is nothing to compare with")
    if not exchange.response.strip():
        return Score.scored(0.0, "the response is empty")
    value = compare(exchange.response, references)
    return Score.scored(value, None if value == 1 else exchange.answered)


def _register(
    name: str,
    summary: str,
    compare: Comparison,
    *,
    engine: str = "evalspec",
    imports: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    implicit: bool = False,
) -> None:
    register(
        MetricDefinition(
            name=name,
            summary=summary,
            engine=engine,
            imports=imports,
            build=per_sample(lambda exchange: _score(compare, exchange)),
            needs=frozenset({Need.EXPECTED}),
            aliases=aliases,
            implicit=implicit,
        )
    )


_register(
    "string_match",
    "1 where an expected answer occurs in the response, whatever its case and spacing.",
    compute_string_match,
    aliases=("pass_rate",),
    implicit=True,
)
_register(
    "exact_match",
    "1 where the response is an expected answer, whatever its case and spacing.",
    compute_exact_match,
)
_register(
    "rouge",
    "ROUGE-L: longest common word sequence of response and expected answer, as F-measure.",
    compute_rouge,
    engine="rapidfuzz",
    imports=("rapidfuzz.distance",),
)
_register(
    "bleu",
    "Word n-grams of the response that occur in the expected answers (sentence BLEU).",
    compute_bleu,
    engine="sacrebleu",
    imports=("sacrebleu.metrics",),
)
_register(
    "chrf",
    "Character n-grams that response and expected answer share (chrF), fit for any language.",
    compute_chrf,
    engine="sacrebleu",
    imports=("sacrebleu.metrics",),
)
