"""The score of a conversation from the scores of its turns."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from evalspec.model import Cause, Direction, Exchange, Need, Score, ScoreStatus
from evalspec.runs.runner.conversing import list_messages
from evalspec.scoring.metrics.base import Metric


def list_turns(exchange: Exchange) -> Iterator[Exchange]:
    """Yield the turns of a scripted conversation, each as a sample of its own with its reply.

    If some turns show calls of tools, the others made none, as in the whole conversation.
    """
    sample, turns = exchange.sample, exchange.reply.turns if exchange.reply else ()
    shows_calls = any(turn.reply.tool_calls for turn in turns)
    for place, turn in enumerate(turns):
        asked = sample.at_turn(place, list_messages(sample.opening, turns[:place]))
        made_none = shows_calls and turn.reply.tool_calls is None
        reply = replace(turn.reply, tool_calls=()) if made_none else turn.reply
        yield replace(exchange, sample=replace(asked, id=f"{sample.id}#{place + 1}"), reply=reply)


def is_of_turns(metric: Metric, exchange: Exchange) -> bool:
    """Return whether a metric scores each turn. Calls that the whole sample expects are those of all turns."""
    is_script = bool(exchange.sample.turns and exchange.reply and exchange.reply.turns)
    of_all = Need.EXPECTED_TOOLS in metric.needs and exchange.sample.expected_tools is not None
    return is_script and not (metric.definition.is_of_whole or of_all)


def applies(metric: Metric, turn: Exchange) -> bool:
    """Return whether a turn says what is right, if the metric compares with that."""
    lacks = {
        Need.EXPECTED: not turn.sample.references,
        Need.EXPECTED_TOOLS: turn.sample.expected_tools is None,
        Need.CHECKS: not turn.sample.checks,
    }
    return not any(lacks.get(need) for need in metric.needs)


def combine_turns(metric: Metric, scores: Sequence[Score | None]) -> Score:
    """Return the score of a conversation: the mean over its turns, or the worst of them, as the metric says.

    `scores`: of each turn; None: it says nothing of what is right. A turn that could not be scored fails the whole.
    """
    known = [(place, score) for place, score in enumerate(scores, 1) if score is not None]
    odd = next(((p, s) for p, s in known if s.status in (ScoreStatus.FAILED, ScoreStatus.SKIPPED)), None)
    values = {place: score.value for place, score in known if score.value is not None}
    if not known:
        return Score.not_applicable("no turn says what is right", Cause.DATASET)
    if odd is not None or not values:
        place, score = odd or known[-1]
        return replace(score.without_evidence(), reason=f"turn {place}: {score.reason}")
    is_cost = metric.definition.direction is Direction.LOWER
    worst = max(values, key=lambda place: values[place] if is_cost else -values[place])
    reason = dict(known)[worst].reason
    evidence = {"turns": [_describe(place, score) for place, score in known]}
    value = values[worst] if metric.takes_worst_turn else fmean(values.values())
    return Score.scored(value, None if reason is None else f"turn {worst}: {reason}", evidence)


def _describe(place: int, score: Score) -> Mapping[str, Any]:
    said = {"turn": place, "value": score.value, "reason": score.reason, "evidence": score.evidence_or_none}
    return {key: value for key, value in said.items() if value is not None}
