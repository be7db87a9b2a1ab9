"""The view of one sample: what was asked, expected and answered, its contexts, and each score with its limit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from evalspec.base.foreign_text import cut
from evalspec.base.plural import counted
from evalspec.model import DatasetResult, Exchange, Run, SampleResult, SampleStatus, Score, ScoreStatus, Threshold
from evalspec.reports.affected_samples import find_loss
from evalspec.reports.findings import limits_of_replies, scores_beyond_limits
from evalspec.reports.rows import AttemptRow
from evalspec.reports.transcript import ShownCall, ShownTurn, list_asked, list_reply_facts, read_turns
from evalspec.reports.view.failures import build_answers, explain_score, join_words, name_contexts
from evalspec.reports.view.parts import (
    Cell,
    Column,
    Entries,
    Entry,
    Foreign,
    Line,
    Part,
    Role,
    Row,
    Section,
    Table,
    Tone,
    View,
    Words,
    Wrap,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
    row,
    sample,
)
from evalspec.reports.waterfall import read_waterfall
from evalspec.reports.worst import find_limits
from evalspec.verdict.summary import in_slice
from evalspec.verdict.wording import UNKNOWN, render_known, render_limit, render_value

_COLUMNS = (names("metric"), *numbers("value"), Column("limit"), Column("why", wrap=Wrap.WORDS, aside=True))
_EXCERPT = 200
"""Maximum characters of a passage, unless everything is shown."""

Limits = Mapping[str, Threshold]


def build_sample_view(
    run: Run, dataset: DatasetResult, result: SampleResult, attempts: Sequence[AttemptRow], *, is_full: bool = False
) -> View:
    """Return the view of a sample. `attempts`: with their texts, if they are stored. `is_full`: do not cut passages."""
    broken = scores_beyond_limits(dataset)
    limits = {**find_limits(dataset), **{metric: limit for (id, metric), limit in broken.items() if id == result.id}}
    place = f"{dataset.file}:{result.line}" if dataset.file and result.line else ""
    return View(
        (
            cell(*sample(result.id)),
            *_say_state(run, dataset, result, limits),
            cell(*name(dataset.name)),
            *_list_facts(result, place),
        ),
        sections=tuple(_build_attempt(row, len(attempts), limits, is_full=is_full) for row in attempts),
        notes=() if any(row.exchange for row in attempts) else (quiet("the texts of this sample are not stored"),),
    )


def _say_state(run: Run, dataset: DatasetResult, result: SampleResult, limits: Limits) -> tuple[Cell, ...]:
    losses, state = tuple(_list_losses(run, dataset, result)), _judge(result, dataset, limits)
    return losses if losses and state.tone is not Tone.FAIL else (state, *losses)


def _judge(result: SampleResult, dataset: DatasetResult, limits: Limits) -> Cell:
    if result.status is SampleStatus.FAILED:
        failed = sum(one.status is SampleStatus.FAILED for one in result.attempts)
        is_part = failed < len(result.attempts)
        of = f" in {failed} of {counted(len(result.attempts), 'attempt')}" if is_part else ""
        return cell(f"no usable reply{of}", tone=Tone.FAIL)
    beyond = sum(_is_beyond(score, limits.get(metric)) for metric, score in result.scores.items())
    unscored = sum(score.status is ScoreStatus.FAILED for score in result.scores.values())
    said = [f"beyond {counted(beyond, 'limit')}"] if beyond else []
    said += [f"{counted(unscored, 'score')} failed"] if unscored else []
    rate, count = result.pass_rate, len(result.attempts)
    if rate is not None and rate < 1.0 and count:
        said.append(f"{sum(one.passed is True for one in result.attempts)} of {counted(count, 'attempt')} passed")
    if said:
        return cell(", ".join(said), tone=Tone.FAIL)
    if rate == 1.0:
        return cell("within its limits", tone=Tone.PASS)
    is_limited = any(in_slice(result, limit.slice) for limit in limits_of_replies(dataset))
    return cell("not decided" if is_limited else "no limit applies to a single reply", tone=Tone.WARN)


def _list_losses(run: Run, dataset: DatasetResult, result: SampleResult) -> Iterator[Cell]:
    """Yield what was better in the baseline, if the limits on regressions do not hold."""
    for outcome in run.regressions:
        if outcome.dataset == dataset.name and find_loss(result, outcome):
            metric, before = outcome.metric or "", outcome.worsened[result.id]
            yield cell(*name(metric), f" was {render_value(metric, before)} in the baseline", tone=Tone.FAIL)


def _list_facts(result: SampleResult, place: str) -> Iterator[Cell]:
    if place:
        yield cell(*name(place))
    if result.tags:
        yield cell(*name(", ".join(result.tags)), tone=Tone.QUIET)


def _is_beyond(score: Score, limit: Threshold | None) -> bool:
    return score.value is not None and limit is not None and not limit.holds(score.value)


def _build_attempt(row: AttemptRow, attempts: int, limits: Limits, *, is_full: bool) -> Section:
    title = f"Attempt {row.number} of {attempts}" if attempts > 1 else "Reply"
    took = row.attempt.latency_ms
    reply = None if row.exchange is None else row.exchange.reply
    used = tuple(cell(f"{fact}: {value}") for fact, value in list_reply_facts(reply))
    about = ((cell(render_value("latency", took)),) if took is not None else ()) + used
    parts = [*_text_parts(row, is_full=is_full), *_score_parts(row, limits)]
    return Section("attempt", (title,), tuple(parts), "the attempt", about)


def _text_parts(row: AttemptRow, *, is_full: bool) -> Iterator[Part]:
    exchange, turns = row.exchange, read_turns(row)
    if exchange is not None:
        is_talk = any(turn.user is not None for turn in turns)
        yield from _list_asked(exchange, has_turns=is_talk)
        for number, turn in enumerate(turns, 1):
            yield from _turn_parts(number, turn, is_full=is_full)
        if not turns:
            yield from build_answers(None, exchange.sample.references)
    if row.attempt.error:
        yield Line(prose(row.attempt.error), tone=Tone.FAIL, label="error")
    for score in row.scores.values():
        yield from _list_world(score.evidence_or_none)
    if exchange is not None:
        yield from _trace_lines(exchange, is_full=is_full)
        yield from _context_parts(exchange, is_full=is_full)


def _list_asked(exchange: Exchange, *, has_turns: bool) -> Iterator[Line]:
    for role, text in list_asked(exchange.sample, has_turns=has_turns):
        label = role if role in ("system", "assistant", "user") else "turn" if role else "question"
        yield Line((Foreign(text, Role.TEXT),), label=label)


def _turn_parts(number: int, turn: ShownTurn, *, is_full: bool) -> Iterator[Line]:
    """Yield a turn of a conversation, or the only one of an attempt."""
    if turn.user is not None:
        if number > 1:
            yield Line(())
        facts = [(f"{'  ' if place else ''}{fact}: ", Foreign(value)) for place, (fact, value) in enumerate(turn.facts)]
        yield quiet(f"Turn {number}  ", *(piece for fact in facts for piece in fact))
        yield Line((Foreign(turn.user, Role.TEXT),), label="user")
    for call in turn.calls or ():
        yield from _call_lines(call, is_full=is_full)
    yield from build_answers(turn.answer, turn.references)
    for metric, score in turn.scores.items():
        reason = (": ", *prose(score.reason)) if score.reason else ()
        yield Line((*name(metric), f" {render_known(metric, score.value)}", *reason), tone=Tone.QUIET, label="score")


def _call_lines(call: ShownCall, *, is_full: bool) -> Iterator[Line]:
    tone, mark, word = call.outcome or (Tone.PLAIN, "", "")
    said = (*name(call.name), "(", *prose(call.brief), ")", f"  {mark} {word}" if word else "")
    yield Line(said, tone=Tone.PLAIN if tone is Tone.PASS else tone, label="call")
    for one in call.differences:
        sides = ["nothing" if side is None else Foreign(cut(side, _EXCERPT)) for side in (one.expected, one.actual)]
        yield Line((*name(one.place), ": expected ", sides[0], ", made ", sides[1]), tone=Tone.FAIL, label="differs")
    texts = {"error": call.error, "result": call.result}
    for label, text in texts.items():
        if text is not None:
            shown = text if is_full else cut(text, _EXCERPT)
            yield Line(prose(shown), tone=Tone.FAIL if label == "error" else Tone.QUIET, label=label)


def _list_world(evidence: Any) -> Iterator[Line]:
    """Yield each place where the world is not as expected."""
    found = evidence.get("differences") if isinstance(evidence, Mapping) else None
    for one in found if isinstance(found, list | tuple) else ():
        yield Line(prose(str(one)), tone=Tone.FAIL, label="world")


def _trace_lines(exchange: Exchange, *, is_full: bool) -> Iterator[Line]:
    """Yield a line for each step of the trace, indented below the step that it is part of."""
    for step in read_waterfall(exchange):
        facts = (piece for fact in step.facts for piece in ("  ", *prose(fact if is_full else cut(fact, _EXCERPT))))
        tone = Tone.FAIL if step.error else Tone.QUIET
        yield Line(("  " * step.depth, *name(step.name), f"  {step.took}", *facts), tone=tone, label="span")
        if step.error:
            yield Line(prose(step.error), tone=Tone.FAIL, label="error")


def _context_parts(exchange: Exchange, *, is_full: bool) -> Iterator[Part]:
    titles, texts = name_contexts(exchange), exchange.retrieved_contexts
    if exchange.ranking is None and texts is None:
        return
    known = exchange.ranking is not None and texts is not None and len(texts) == len(titles)
    is_bare = exchange.ranking is None
    entries = []
    for place, title in enumerate(titles):
        text = texts[place] if texts and (known or is_bare) else None
        lines = () if text is None else (Line((Foreign(text if is_full else cut(text, _EXCERPT), Role.PROSE),)),)
        entries.append(Entry(Foreign(str(place + 1)), () if is_bare else title, lines=lines))
    yield Entries("context", tuple(entries), f"contexts ({len(titles):,})")
    if missed := _list_missed(exchange):
        yield Line(join_words(missed), tone=Tone.WARN, label="not retrieved")


def _list_missed(exchange: Exchange) -> tuple[Words, ...]:
    found, sample = set(exchange.ranking or ()), exchange.sample
    if exchange.ranking is None:
        return ()
    if sample.groups is not None:
        return tuple(name(" or ".join(group)) for group in sample.groups if not found & set(group))
    return tuple(name(one) for one, grade in (sample.qrels or {}).items() if grade > 0 and one not in found)


def _score_parts(row: AttemptRow, limits: Limits) -> Iterator[Part]:
    """Yield the scores, those beyond a limit first."""
    exchange = row.exchange
    scores = {
        metric: replace(one, reason=explain_score(metric, one, exchange)) if exchange else one
        for metric, one in row.scores.items()
    }
    ordered = sorted(scores, key=lambda metric: not _is_beyond(scores[metric], limits.get(metric)))
    if ordered:
        yield Table(_COLUMNS, tuple(_score_row(metric, scores[metric], limits.get(metric)) for metric in ordered))


def _score_row(metric: str, score: Score, limit: Threshold | None) -> Row:
    known = score.value is not None
    tone = Tone.PLAIN if known and not limit else Tone.FAIL if _is_beyond(score, limit) else Tone.PASS
    tone = tone if known else Tone.FAIL if score.status is ScoreStatus.FAILED else Tone.QUIET
    value = render_value(metric, score.value, limit) if score.value is not None else score.status.replace("_", " ")
    mark = ("✗" if _is_beyond(score, limit) else "✓") if known and limit else ""
    return row(
        cell(*name(metric)),
        cell(value, tone=tone),
        cell(render_limit(limit) if limit else UNKNOWN, mark=mark, tone=tone),
        cell(*(prose(score.reason) if score.reason else ()), tone=Tone.QUIET),
    )
