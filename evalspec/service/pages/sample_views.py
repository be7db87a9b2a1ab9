"""What the pages of samples show: rows of a list, and one sample with everything that is known of it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from evalspec.model import Exchange, SampleResult, SampleStatus, Score, ScoreStatus, Threshold
from evalspec.reports.findings import describe_unscored
from evalspec.reports.rows import AttemptRow
from evalspec.reports.word_changes import TextPiece, mark_differences
from evalspec.service.pages.evidence import ShownEvidence, describe_evidence, render_data
from evalspec.service.sample_index import SampleRow
from evalspec.service.sample_pages import SampleDetails
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
_DOCUMENTS_SHOWN = 100

Limits = Mapping[str, Sequence[Threshold]]
Chip = tuple[str, str, str]
"""Tone, mark and word of an outcome."""


class ShownScore(Struct, frozen=True):
    """A score. `chip`: its status if it has no value, or that it is beyond a limit. `notes`: limit, single grades.

    `is_known`: whether the sample has the score.
    """

    metric: str
    shown: str
    is_beyond: bool
    chip: Chip | None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    evidence: ShownEvidence | None = None
    is_known: bool = True


class ListedSample(Struct, frozen=True):
    """One row of the list."""

    position: int
    dataset: str
    id: str
    question: str | None
    state: Chip
    scores: tuple[ShownScore, ...]
    latency: str
    tags: tuple[str, ...]


class ShownDocument(Struct, frozen=True):
    """A retrieved or missing document or passage. `chip`: what the ground truth says of it."""

    id: str | None
    text: str | None
    chip: Chip | None = None
    is_reference: bool = False


class ShownAttempt(Struct, frozen=True):
    """One attempt. `answer`: None if it is not kept. `facts`: times, tokens, finish reason."""

    number: int
    state: Chip
    error: str | None
    answer: tuple[TextPiece, ...] | None
    references: tuple[tuple[TextPiece, ...], ...]
    scores: tuple[ShownScore, ...]
    documents: tuple[ShownDocument, ...]
    documents_title: str
    more_documents: int
    missed: tuple[ShownDocument, ...]
    tool_calls: str | None
    facts: tuple[tuple[str, str], ...]


class ShownSample(Struct, frozen=True):
    """One sample. `turns`: role and content of each message; a plain question has an empty role."""

    dataset: str
    id: str
    line: int | None
    state: Chip
    tags: tuple[str, ...]
    error: str | None
    has_texts: bool
    turns: tuple[tuple[str, str], ...]
    attempts: tuple[ShownAttempt, ...]
    reference_contexts: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]


def list_sample(row: SampleRow, metrics: Sequence[str], limits: Limits) -> ListedSample:
    """Return a row of the list. `metrics`: the columns."""
    result = row.result
    scores = tuple(_show_score(metric, result.scores.get(metric), result, limits) for metric in metrics)
    return ListedSample(
        row.position,
        row.dataset,
        result.id,
        row.question,
        _find_state(result, limits),
        scores,
        _render_latency(result.latency_ms),
        result.tags[:8],
    )


def show_sample(found: SampleDetails, limits: Limits) -> ShownSample:
    """Return everything that is known of a sample. `limits`: the metrics of its dataset with their thresholds."""
    result, sample = found.row.result, found.sample
    has_texts = found.row.question is not None
    asked = sample.user_input
    turns = [("", asked)] if isinstance(asked, str) else [(turn.role, turn.content) for turn in asked]
    return ShownSample(
        found.row.dataset,
        result.id,
        result.line,
        _find_state(result, limits),
        result.tags,
        result.error,
        has_texts,
        tuple(turns) if has_texts else (),
        tuple(_show_attempt(row, found, limits) for row in found.attempts),
        sample.reference_contexts or (),
        tuple((str(key), render_data(value)) for key, value in result.metadata.items()),
    )


def _show_attempt(row: AttemptRow, found: SampleDetails, limits: Limits) -> ShownAttempt:
    result, exchange, attempt = found.row.result, row.exchange, row.attempt
    reply = None if exchange is None else exchange.reply
    answer = None if reply is None else reply.response
    pairs = [mark_differences(answer or "", reference) for reference in found.sample.references]
    documents, title = _list_documents(found, exchange)
    metrics = dict.fromkeys([*limits, *row.scores])
    marked = None if answer is None else pairs[0][0] if pairs else (TextPiece(answer),)
    return ShownAttempt(
        row.number,
        _FAILED if attempt.status is SampleStatus.FAILED else _state_of(attempt.passed),
        attempt.error,
        marked,
        tuple(expected for _, expected in pairs),
        tuple(_show_score(metric, row.scores.get(metric), result, limits) for metric in metrics),
        documents[:_DOCUMENTS_SHOWN],
        title,
        max(len(documents) - _DOCUMENTS_SHOWN, 0),
        _list_missed(found, exchange)[:_DOCUMENTS_SHOWN],
        None if reply is None or reply.tool_calls is None else render_data(list(reply.tool_calls)),
        tuple(_list_facts(row)),
    )


def _list_facts(row: AttemptRow) -> list[tuple[str, str]]:
    reply = None if row.exchange is None else row.exchange.reply
    facts = [("latency", _render_latency(row.attempt.latency_ms))]
    facts += [(f"{stage} time", _render_latency(time)) for stage, time in row.attempt.timings_ms.items()]
    if reply is not None and reply.usage is not None:
        facts.append(("tokens", f"{reply.usage.input_tokens:,} in, {reply.usage.output_tokens:,} out"))
    finish = reply.finish_reason if reply is not None else row.attempt.finish_reason
    return facts + ([("finish reason", finish)] if finish else [])


def _list_documents(found: SampleDetails, exchange: Exchange | None) -> tuple[tuple[ShownDocument, ...], str]:
    """Return the retrieved documents, best first, with their grades; else the passages without ids."""
    if exchange is None:
        return (), ""
    contexts, ids, qrels = exchange.retrieved_contexts, exchange.ranking, found.sample.qrels
    golden = set(found.sample.reference_contexts or ())
    is_own = bool(exchange.reply and exchange.reply.retrieved_contexts is not None)
    if ids is not None:
        texts = contexts if is_own and contexts is not None and len(contexts) == len(ids) else (None,) * len(ids)
        shown = tuple(
            ShownDocument(id, text, None if qrels is None else _grade(qrels.get(id)), text in golden)
            for id, text in zip(ids, texts, strict=True)
        )
        return shown, f"Retrieved documents ({len(ids):,})"
    if contexts is None:
        return (), ""
    shown = tuple(ShownDocument(None, text, None, text in golden) for text in contexts)
    return shown, f"{'Retrieved contexts' if is_own else 'Contexts of the dataset'} ({len(contexts):,})"


def _grade(grade: int | None) -> Chip:
    if grade is None:
        return "none", "", "unjudged"
    return ("pass", "✓", f"relevant, grade {grade}") if grade > 0 else ("fail", "✗", "judged not relevant")


def _list_missed(found: SampleDetails, exchange: Exchange | None) -> tuple[ShownDocument, ...]:
    """Return the relevant documents that were not retrieved, the most relevant first."""
    ranking = None if exchange is None else exchange.ranking
    if ranking is None:
        return ()
    known, sample = set(ranking), found.sample
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
    return ShownScore(metric, shown, broken is not None, chip, tuple(notes), reason, evidence)


def _find_state(result: SampleResult, limits: Limits) -> Chip:
    """Return the most severe state of a sample."""
    is_failed = result.status is SampleStatus.FAILED or any(
        score.status is ScoreStatus.FAILED for score in result.scores.values()
    )
    if is_failed:
        return _FAILED
    if any(_show_score(metric, score, result, limits).is_beyond for metric, score in result.scores.items()):
        return _BEYOND
    if result.pass_rate is not None and 0.0 < result.pass_rate < 1.0:
        return _FLAKY
    return _state_of(None if result.pass_rate is None else result.pass_rate == 1.0)


def _state_of(passed: bool | None) -> Chip:
    if passed is None:
        return _UNDECIDED
    return _PASSED if passed else _BEYOND


def _render_latency(milliseconds: float | None) -> str:
    return UNKNOWN if milliseconds is None else render_value("latency", milliseconds)
