"""The texts of all samples in chunks. Texts for search are separate from those that only an opened sample shows."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from msgspec import Struct

from evalspec.model import Exchange, Run, Sample, ScoreStatus, Threshold
from evalspec.reports.base import StoredExchanges
from evalspec.reports.findings import describe_unscored
from evalspec.reports.html_report.page_data import Chunks, PageData
from evalspec.reports.html_report.samples import STATUS_CODES, is_beyond, limits_of, metrics_of
from evalspec.reports.rows import AttemptRow, read_attempts

_SHORTEST_CUT = 100
"""Texts are never cut to fewer characters, however large the page becomes."""
_MARGIN = 0.95


class Texts(Struct, frozen=True):
    """The packed texts, an item per sample. `asked`: questions and answers. `rest`: everything else.

    `longest`: maximum characters of a text, None if nothing is cut. `cut`: the number of cut texts.
    """

    asked: Chunks
    rest: Chunks
    longest: int | None
    cut: int


def pack_texts(run: Run, exchanges: StoredExchanges, room: int) -> Texts:
    """Return all texts in at most about `room` bytes. If they do not fit, the longest are cut to the same length.

    Texts of up to _SHORTEST_CUT characters are never cut. `room`: more than 0.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    whole = PageData()
    texts = _pack(run, exchanges, room, whole)
    longest = max(whole.lengths, default=0)
    while not _fits(texts, room):
        per_byte = (texts.asked.characters + texts.rest.characters) / (texts.asked.size + texts.rest.size)
        estimate = _find_longest(whole.lengths, int(room * per_byte * _MARGIN))
        longest = max(_SHORTEST_CUT, min(estimate, longest * 3 // 4))
        if longest == _SHORTEST_CUT:
            return _pack(run, exchanges, None, PageData(longest))
        texts = _pack(run, exchanges, room, PageData(longest))
    return texts


def _fits(texts: Texts, room: int) -> bool:
    return texts.asked.complete and texts.rest.complete and texts.asked.size + texts.rest.size <= room


def _find_longest(lengths: Counter[int], characters: int) -> int:
    """Return the length to which texts must be cut to have at most `characters` in total."""
    shorter, count = 0, lengths.total()
    for length in sorted(lengths):
        if shorter + length * count > characters:
            return max(characters - shorter, 0) // count
        shorter += length * lengths[length]
        count -= lengths[length]
    return max(lengths, default=0)


def _pack(run: Run, exchanges: StoredExchanges, room: int | None, foreign: PageData) -> Texts:
    asked, rest = Chunks(room), Chunks(room)
    metrics = {dataset.name: metrics_of(dataset) for dataset in run.datasets}
    limits = {dataset.name: limits_of(dataset) for dataset in run.datasets}
    for _, group in groupby(
        read_attempts(run, exchanges), key=lambda attempt_row: (attempt_row.dataset.name, attempt_row.sample.id)
    ):
        attempts = list(group)
        sample = next((attempt_row.exchange.sample for attempt_row in attempts if attempt_row.exchange), None)
        asked.add(foreign.show([_question(sample), [_answer(attempt_row.exchange) for attempt_row in attempts]]))
        dataset = attempts[0].dataset.name
        rest.add(foreign.show(_describe(sample, attempts, metrics[dataset], limits[dataset])))
    asked.close()
    rest.close()
    return Texts(asked, rest, foreign.longest, foreign.cut)


def _question(sample: Sample | None) -> str | list[list[str]] | None:
    """Return the question as text, or a conversation as pairs of role and content."""
    if sample is None:
        return None
    asked = sample.user_input
    return asked if isinstance(asked, str) else [[message.role, message.content] for message in asked]


def _answer(exchange: Exchange | None) -> str | None:
    return exchange.answer if exchange else None


def _describe(
    sample: Sample | None, attempts: list[AttemptRow], metrics: list[str], limits: Mapping[str, list[Threshold]]
) -> dict[str, Any]:
    """Return the data of a sample besides question and answers, with all attempts."""
    result = attempts[0].sample
    return {
        "metadata": result.metadata,
        "error": result.error,
        "reasons": [score.reason if (score := result.scores.get(metric)) else None for metric in metrics],
        "attempts": [_attempt_row(attempt_row, metrics, limits) for attempt_row in attempts],
        "references": sample.references if sample else None,
        "referenceContexts": sample.reference_contexts if sample else None,
        "qrels": None if sample is None or sample.qrels is None else [*sample.qrels.items()],
        "groups": sample.groups if sample else None,
    }


def _attempt_row(attempt_row: AttemptRow, metrics: list[str], limits: Mapping[str, list[Threshold]]) -> dict[str, Any]:
    return {
        "status": attempt_row.attempt.status,
        "latency": attempt_row.attempt.latency_ms,
        "error": attempt_row.attempt.error,
        "passed": attempt_row.attempt.passed,
        "finishReason": attempt_row.attempt.finish_reason,
        "scores": [_score(attempt_row, metric, limits) for metric in metrics],
        **_retrieved(attempt_row.exchange),
    }


def _score(attempt_row: AttemptRow, metric: str, limits: Mapping[str, list[Threshold]]) -> list[Any] | None:
    """Return status, value, reason, evidence, each judge result, and whether the score fails a threshold."""
    score = attempt_row.scores.get(metric)
    if score is None:
        return None
    beyond = is_beyond(attempt_row.sample, metric, score, limits)
    reason = describe_unscored(score) if score.status is ScoreStatus.NOT_APPLICABLE else score.reason
    return [STATUS_CODES[score.status], score.value, reason, score.evidence_or_none, score.repeats, beyond]


def _retrieved(exchange: Exchange | None) -> dict[str, Any]:
    """Return the contexts that the metrics used. Contexts of the dataset do not correspond to the reply's ids."""
    reply = exchange.reply if exchange else None
    return {
        "contexts": exchange.retrieved_contexts if exchange else None,
        "contextsOfReply": bool(reply and reply.retrieved_contexts is not None),
        "ids": exchange.ranking if exchange else None,
        "toolCalls": reply.tool_calls if reply else None,
        "usage": [reply.usage.input_tokens, reply.usage.output_tokens] if reply and reply.usage else None,
    }
