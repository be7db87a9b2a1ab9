"""What is shown of samples: rows of a table, and one sample with everything that is known of it."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from evalspec.model import Exchange, Sample, SampleResult, SampleStatus, Score, ScoreStatus, Threshold
from evalspec.reports.findings import describe_unscored
from evalspec.reports.markup.evidence import ShownEvidence, describe_evidence
from evalspec.reports.rows import AttemptRow, render_data
from evalspec.reports.transcript import ShownCall, ShownTurn, list_asked, list_reply_facts, read_turns
from evalspec.reports.waterfall import ShownStep, read_waterfall
from evalspec.reports.word_changes import TextPiece, mark_differences
from evalspec.verdict.summary import in_slice
from evalspec.verdict.wording import UNKNOWN, render_limit, render_value

_WORDS = {
    ScoreStatus.NOT_APPLICABLE: ("none", "", "not applicable"),
    ScoreStatus.SKIPPED: ("none", "", "skipped"),
    ScoreStatus.FAILED: ("warn", "?", "failed"),
}
_FAILED = ("warn", "?", "failed")
_BEYOND = ("fail", "✗", "beyond limit")
_FLAKY = ("warn", "~", "flaky")
_PASSED = ("pass", "✓", "passed")
_UNDECIDED = ("none", "", "not decided")

Limits = Mapping[str, Sequence[Threshold]]
Marked = tuple[TextPiece, ...]
"""A text in pieces. Some may differ from another text."""
Chip = tuple[str, str, str]
"""Tone, mark and word of an outcome."""


class ShownScore(Struct, frozen=True):
    """A score. `chip`: its status if it has no value, or that it is beyond a limit. `notes`: limit, single grades.

    `is_known`: whether the sample has the score. `is_met`: whether it has limits and is within them.
    """

    metric: str
    shown: str
    is_beyond: bool
    chip: Chip | None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    evidence: ShownEvidence | None = None
    is_known: bool = True
    is_met: bool = False


class ShownDocument(Struct, frozen=True):
    """A retrieved or missing document or passage. `chip`: what the ground truth says of it."""

    id: str | None
    text: str | None
    chip: Chip | None = None
    is_reference: bool = False


class DocumentList(Struct, frozen=True):
    """Documents under a title."""

    title: str
    documents: tuple[ShownDocument, ...]


class MarkedTurn(Struct, frozen=True):
    """A turn of a conversation, with the words marked in which its answer and the expected ones differ."""

    turn: ShownTurn
    answer: Marked | None
    references: tuple[Marked, ...]
    scores: tuple[ShownScore, ...]


class ShownAttempt(Struct, frozen=True):
    """One attempt. `answer`: None if it is not kept. `facts`: times, tokens, finish reason.

    `calls`: None if the reply does not show them, or `turns` have them. `turns`: empty if it is no conversation.
    `steps`: of its traces.
    """

    number: int
    state: Chip
    error: str | None
    answer: Marked | None
    references: tuple[Marked, ...]
    scores: tuple[ShownScore, ...]
    documents: tuple[DocumentList, ...]
    missed: tuple[ShownDocument, ...]
    calls: tuple[ShownCall, ...] | None
    turns: tuple[MarkedTurn, ...]
    facts: tuple[tuple[str, str], ...]
    latency: str
    is_retrieval: bool
    steps: tuple[ShownStep, ...] = ()


class ShownSample(Struct, frozen=True):
    """One sample. `asked`: role and content of each message that no turn of an attempt shows; a plain question has an
    empty role.

    `scores`, `latency`: of all attempts together. `has_words`: whether the question is one, not a description.
    """

    dataset: str
    id: str
    line: int | None
    state: Chip
    tags: tuple[str, ...]
    error: str | None
    has_texts: bool
    asked: tuple[tuple[str, str], ...]
    attempts: tuple[ShownAttempt, ...]
    reference_contexts: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    scores: tuple[ShownScore, ...]
    latency: str
    has_words: bool


def show_scores(result: SampleResult, metrics: Sequence[str], limits: Limits) -> tuple[ShownScore, ...]:
    """Return scores of a sample. `limits`: the metrics of its dataset with their thresholds."""
    return tuple(_show_score(metric, result.scores.get(metric), result, limits) for metric in metrics)


def show_sample(
    dataset: str,
    result: SampleResult,
    sample: Sample | None,
    attempts: Sequence[AttemptRow],
    limits: Limits,
    *,
    is_marked: bool = True,
) -> ShownSample:
    """Return everything that is known of a sample.

    `sample`: None if its texts are not kept. `limits`: the metrics of its dataset with their thresholds. `is_marked`:
    whether the words in which answers differ are marked.
    """
    shown = tuple(_show_attempt(row, result, sample, limits, is_marked=is_marked) for row in attempts)
    has_turns = any(attempt.turns for attempt in shown)
    return ShownSample(
        dataset,
        result.id,
        result.line,
        find_state(result, limits),
        result.tags,
        result.error,
        sample is not None,
        () if sample is None else tuple(list_asked(sample, has_turns=has_turns)),
        shown,
        () if sample is None else sample.reference_contexts or (),
        tuple((str(key), render_data(value)) for key, value in result.metadata.items()),
        show_scores(result, list(limits), limits),
        render_latency(result.latency_ms),
        sample is None or sample.has_words,
    )


def _show_attempt(
    row: AttemptRow, result: SampleResult, sample: Sample | None, limits: Limits, *, is_marked: bool
) -> ShownAttempt:
    exchange, attempt = row.exchange, row.attempt
    answer = None if exchange is None else exchange.answer
    marked, references = _mark_answer(answer, () if sample is None else sample.references, is_marked=is_marked)
    metrics = dict.fromkeys([*limits, *row.scores])
    turns = read_turns(row)
    is_talk = any(turn.user is not None for turn in turns)
    return ShownAttempt(
        row.number,
        _FAILED if attempt.status is SampleStatus.FAILED else _state_of(attempt.passed),
        attempt.error,
        marked,
        references,
        tuple(_show_score(metric, row.scores.get(metric), result, limits) for metric in metrics),
        () if sample is None else tuple(_list_documents(sample, exchange)),
        () if sample is None else _list_missed(sample, exchange),
        None if is_talk or not turns else turns[0].calls,
        tuple(_mark_turn(turn, result, is_marked=is_marked) for turn in turns) if is_talk else (),
        tuple(_list_facts(row)),
        render_latency(attempt.latency_ms),
        exchange is not None and answer is None and attempt.error is None,
        read_waterfall(exchange),
    )


def _mark_turn(turn: ShownTurn, result: SampleResult, *, is_marked: bool) -> MarkedTurn:
    marked, references = _mark_answer(turn.answer, turn.references, is_marked=is_marked)
    scores = tuple(_show_score(metric, score, result, {}) for metric, score in turn.scores.items())
    return MarkedTurn(turn, marked, references, scores)


def _mark_answer(
    answer: str | None, references: Sequence[str], *, is_marked: bool
) -> tuple[Marked | None, tuple[Marked, ...]]:
    """Return an answer and the expected ones, with the words marked in which the first pair differs."""
    if not is_marked:
        return None if answer is None else (TextPiece(answer),), tuple((TextPiece(one),) for one in references)
    pairs = [mark_differences(answer or "", reference) for reference in references]
    marked = None if answer is None else pairs[0][0] if pairs else (TextPiece(answer),)
    return marked, tuple(expected for _, expected in pairs)


def _list_facts(row: AttemptRow) -> list[tuple[str, str]]:
    reply = None if row.exchange is None else row.exchange.reply
    facts = [("latency", render_latency(row.attempt.latency_ms))]
    facts += [(f"{stage} time", render_latency(time)) for stage, time in row.attempt.timings_ms.items()]
    facts += list_reply_facts(reply)
    finish = row.attempt.finish_reason
    return facts + ([("finish reason", finish)] if finish else [])


def _list_documents(sample: Sample, exchange: Exchange | None) -> Iterator[DocumentList]:
    """Yield the retrieved documents, best first, with their grades, and the passages that do not belong to them."""
    if exchange is None:
        return
    contexts, ids, qrels = exchange.retrieved_contexts, exchange.ranking, sample.qrels
    golden = set(sample.reference_contexts or ())
    is_own = bool(exchange.reply and exchange.reply.retrieved_contexts is not None)
    is_paired = is_own and contexts is not None and ids is not None and len(contexts) == len(ids)
    if contexts is not None and not is_paired:
        shown = tuple(ShownDocument(None, text, _find_dropped(text, exchange), text in golden) for text in contexts)
        yield DocumentList(
            f"{'Retrieved contexts' if is_own else 'Contexts of the dataset'} ({len(contexts):,})", shown
        )
    if ids is not None:
        texts: Sequence[str | None] = contexts if is_paired and contexts is not None else (None,) * len(ids)
        ranked = tuple(
            ShownDocument(
                id,
                text,
                _find_dropped(text, exchange) or (None if qrels is None else _grade(qrels.get(id))),
                text in golden,
            )
            for id, text in zip(ids, texts, strict=True)
        )
        yield DocumentList(f"Retrieved documents ({len(ids):,})", ranked)


def _find_dropped(text: str | None, exchange: Exchange) -> Chip | None:
    """Return that a passage was retrieved, but was not in the prompt of the answer; None: it was, or is unknown."""
    prompted = None if exchange.reply is None else exchange.reply.prompt_contexts
    is_dropped = prompted is not None and text is not None and text not in prompted
    return ("warn", "", "not in the prompt") if is_dropped else None


def _grade(grade: int | None) -> Chip:
    if grade is None:
        return "none", "", "unjudged"
    return ("pass", "✓", f"relevant, grade {grade}") if grade > 0 else ("fail", "✗", "judged not relevant")


def _list_missed(sample: Sample, exchange: Exchange | None) -> tuple[ShownDocument, ...]:
    """Return the relevant documents that were not retrieved, the most relevant first."""
    ranking = None if exchange is None else exchange.ranking
    if ranking is None:
        return ()
    known = set(ranking)
    if sample.groups is not None:
        return tuple(ShownDocument(" or ".join(group), None) for group in sample.groups if not known & set(group))
    missing = [(id, grade) for id, grade in (sample.qrels or {}).items() if grade > 0 and id not in known]
    missing.sort(key=lambda entry: -entry[1])
    return tuple(ShownDocument(id, None, ("none", "", f"grade {grade}")) for id, grade in missing)


def _show_score(metric: str, score: Score | None, result: SampleResult, limits: Limits) -> ShownScore:
    own = [limit for limit in limits.get(metric, ()) if in_slice(result, limit.slice)]
    if score is None:
        return ShownScore(metric, UNKNOWN, False, ("none", "", "not requested"), is_known=False)
    broken = next((limit for limit in own if score.value is not None and not limit.holds(score.value)), None)
    notes = [f"limit {render_limit(limit)}" for limit in own]
    if len(score.repeats) > 1:
        notes.append(f"graded {', '.join(render_value(metric, value) for value in score.repeats)}")
    shown = UNKNOWN if score.value is None else render_value(metric, score.value, broken)
    chip = _BEYOND if broken else None if score.value is not None else _WORDS[score.status]
    reason = describe_unscored(score) if score.status is ScoreStatus.NOT_APPLICABLE else score.reason
    evidence = describe_evidence(metric, score.evidence_or_none)
    is_met = bool(own) and score.value is not None and broken is None
    return ShownScore(metric, shown, broken is not None, chip, tuple(notes), reason, evidence, is_met=is_met)


def find_state(result: SampleResult, limits: Limits) -> Chip:
    """Return the most severe state of a sample."""
    is_failed = result.status is SampleStatus.FAILED or any(
        score.status is ScoreStatus.FAILED for score in result.scores.values()
    )
    if is_failed:
        return _FAILED
    if result.pass_rate is not None and 0.0 < result.pass_rate < 1.0:
        return _FLAKY
    if any(_show_score(metric, score, result, limits).is_beyond for metric, score in result.scores.items()):
        return _BEYOND
    return _state_of(None if result.pass_rate is None else result.pass_rate == 1.0)


def _state_of(passed: bool | None) -> Chip:
    if passed is None:
        return _UNDECIDED
    return _PASSED if passed else _BEYOND


def render_latency(milliseconds: float | None) -> str:
    """Return a time in milliseconds, or that it is not known."""
    return UNKNOWN if milliseconds is None else render_value("latency", milliseconds)
