"""What was said and done in one attempt: its turns with their calls of tools, each beside the call that was expected.

Which made call belongs to which expected one is taken from the evidence of the metrics, so a page shows what was
scored. Nearly every text is the agent's or a tool's, so each form of report escapes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from evalspec.base.json_matching import JsonDifference, list_differences
from evalspec.base.json_path import render_location
from evalspec.base.patterns import PatternTooSlow
from evalspec.model import AgentReply, AgentTurn, Exchange, ExpectedCall, Sample, Score, ToolCall
from evalspec.model.exchanges import ModelCall
from evalspec.model.tool_calls import render_arguments
from evalspec.model.usage import Usage
from evalspec.reports.rows import AttemptRow, render_data, to_json
from evalspec.reports.view.failures import explain_score
from evalspec.reports.view.parts import Tone
from evalspec.verdict.wording import UNKNOWN, render_known, render_value

Outcome = tuple[Tone, str, str]
"""Tone, mark and word of a call that was compared with an expected one."""

_AS_EXPECTED: Outcome = (Tone.PASS, "✓", "as expected")
_OTHERWISE: Outcome = (Tone.FAIL, "✗", "other arguments")
_EXTRA: Outcome = (Tone.WARN, "✗", "not expected")
_MISSING: Outcome = (Tone.FAIL, "✗", "not called")
_MOST_DIFFERENCES = 20

_Partners = Sequence[tuple[int | None, float]]
"""For each expected call, the place of the made one, and how much of its arguments is right."""


class ArgumentDifference(Struct, frozen=True):
    """A place where the arguments of a call are not the expected ones. None: no value is there, or none is expected."""

    place: str
    expected: str | None
    actual: str | None


class ShownCall(Struct, frozen=True):
    """A call of a tool, or an expected one that was not made.

    `brief`: the arguments on one short line. `outcome`: None if it was not compared. `error`: why the tool failed, or
    why the arguments cannot be read. `step`: 0 if it is the only one.
    """

    name: str
    brief: str
    arguments: str
    outcome: Outcome | None = None
    differences: tuple[ArgumentDifference, ...] = ()
    result: str | None = None
    error: str | None = None
    step: int = 0


class ShownTurn(Struct, frozen=True):
    """What the user said, what the agent did and answered. `user`: None if the attempt is no conversation.

    `calls`: None if the reply does not show them. `answer`: None if there is none. `facts`: time, tokens and more.
    `scores`: of this turn alone.
    """

    user: str | None
    calls: tuple[ShownCall, ...] | None
    answer: str | None
    references: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    scores: Mapping[str, Score]


def read_turns(row: AttemptRow) -> tuple[ShownTurn, ...]:
    """Return the turns of an attempt. An attempt that is no conversation is one turn; without a reply there is none."""
    exchange = row.exchange
    reply = None if exchange is None else exchange.reply
    if exchange is None or reply is None:
        return ()
    turns = reply.turns or (AgentTurn("", reply),)
    asked = [_at_turn(exchange.sample, place, reply.turns) for place in range(len(turns))]
    by_turn = [
        _scores_of_turn(row.scores if reply.turns else {}, number, Exchange(one, turn.reply))
        for number, (one, turn) in enumerate(zip(asked, turns, strict=True), 1)
    ]
    whole = exchange.sample.expected_tools
    if whole is None:
        each = zip(turns, asked, by_turn, strict=True)
        calls = [_compare_turn(turn, one.expected_tools, scores.values()) for turn, one, scores in each]
    else:
        calls = _compare_whole(turns, whole, row.scores.values())
    return tuple(
        ShownTurn(
            turn.user if reply.turns else None,
            None if turn.reply.tool_calls is None and not made else tuple(made),
            turn.reply.answer,
            one.references,
            tuple(_list_own_facts(turn.reply)) if reply.turns else (),
            scores,
        )
        for turn, made, one, scores in zip(turns, calls, asked, by_turn, strict=True)
    )


def list_asked(sample: Sample, *, has_turns: bool) -> list[tuple[str, str]]:
    """Return role and content of what was asked. A plain question has no role.

    `has_turns`: whether the turns are shown as they were, so that only the messages before them are left.
    """
    asked, script = sample.user_input, sample.turns[1:]
    if has_turns:
        return [(message.role, message.content) for message in sample.opening]
    if isinstance(asked, str):
        first = [("user" if script else "", asked)]
    else:
        first = [(message.role, message.content) for message in asked]
    return first + [("user", turn.user) for turn in script]


def list_reply_facts(reply: AgentReply | None) -> Iterator[tuple[str, str]]:
    """Yield what a reply used: tokens, and calls of its model."""
    if reply is not None and reply.usage is not None:
        yield "tokens", _render_tokens(reply.usage)
    if reply is not None and reply.unread_usage is not None:
        yield "tokens", f"unknown: the usage has no counts that evalspec can read; {reply.unread_usage}"
    if reply is not None and reply.steps is not None:
        each = "; ".join(map(_render_model_call, reply.model_calls))
        yield "calls of the model", f"{reply.steps:,}" + (f" ({each})" if each else "")


def _render_tokens(usage: Usage) -> str:
    return f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"


def _render_model_call(call: ModelCall) -> str:
    """Return what is known of one call of the model: `120 ms, 81 in, 9 out`."""
    known = [] if call.latency_ms is None else [render_value("latency", call.latency_ms)]
    known += [] if call.usage is None else [_render_tokens(call.usage)]
    return ", ".join(known) or UNKNOWN


def _list_own_facts(reply: AgentReply) -> Iterator[tuple[str, str]]:
    yield "latency", render_known("latency", reply.latency_ms)
    yield from list_reply_facts(reply)
    if reply.finish_reason:
        yield "finish reason", reply.finish_reason


def _at_turn(sample: Sample, place: int, turns: Sequence[AgentTurn]) -> Sample:
    """Return the sample that a turn is. What a sample says beside its script is about the last turn."""
    if turns and place < len(sample.turns):
        return sample.at_turn(place, ())
    return sample if place >= len(turns) - 1 else Sample(sample.id, "")


def _scores_of_turn(scores: Mapping[str, Score], number: int, exchange: Exchange) -> dict[str, Score]:
    """Return the scores of one turn, which are evidence of those of the conversation."""
    found = {}
    for metric, score in scores.items():
        for one in _items(score.evidence_or_none, "turns"):
            value = one.get("value")
            if one.get("turn") == number and isinstance(value, int | float):
                reason = one.get("reason")
                score = Score.scored(value, None if reason is None else str(reason), one.get("evidence"))
                found[metric] = replace(score, reason=explain_score(metric, score, exchange))
    return found


def _items(evidence: Any, key: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list in evidence, which own metrics may write in any shape."""
    listed = evidence.get(key) if isinstance(evidence, Mapping) else None
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list | tuple) else []


def _compare_turn(turn: AgentTurn, expected: Sequence[ExpectedCall] | None, scores: Iterable[Score]) -> list[ShownCall]:
    made, missing = _compare(turn.reply.tool_calls or (), expected, scores)
    return made + missing


def _compare_whole(
    turns: Sequence[AgentTurn], expected: Sequence[ExpectedCall], scores: Iterable[Score]
) -> list[list[ShownCall]]:
    """Return the calls by turn. What the sample expects may be made in any turn; the last lacks the rest."""
    made = [turn.reply.tool_calls or () for turn in turns]
    shown, missing = _compare([call for calls in made for call in calls], expected, scores)
    rest = iter(shown)
    by_turn = [list(islice(rest, len(calls))) for calls in made]
    by_turn[-1] += missing
    return by_turn


def _compare(
    made: Sequence[ToolCall], expected: Sequence[ExpectedCall] | None, scores: Iterable[Score]
) -> tuple[list[ShownCall], list[ShownCall]]:
    """Return the made calls, and the expected ones that were not made."""
    partners = None if expected is None else _find_partners(scores, len(expected), len(made))
    if expected is None or partners is None:
        return [_show(call, len(made)) for call in made], []
    found: dict[int, tuple[Outcome, tuple[ArgumentDifference, ...]]] = {}
    for wanted, (place, share) in zip(expected, partners, strict=True):
        if place is not None:
            is_right = share == 1
            differences = () if is_right or made[place].problem else tuple(_list_differences(wanted, made[place]))
            found[place] = (_AS_EXPECTED if is_right else _OTHERWISE, differences)
    shown = [_show(call, len(made), *found.get(place, (_EXTRA, ()))) for place, call in enumerate(made)]
    lacking = [wanted for wanted, (place, _) in zip(expected, partners, strict=True) if place is None]
    return shown, [ShownCall(one.name, *_render(one.arguments), _MISSING) for one in lacking]


def _find_partners(scores: Iterable[Score], expected: int, made: int) -> _Partners | None:
    """Return the calls as a metric has paired them. None: none did."""
    for score in scores:
        evidence = score.evidence_or_none
        pairs = [_read_pair(one, made) for one in _items(evidence, "expected")]
        known = [pair for pair in pairs if pair is not None]
        if isinstance(evidence, Mapping) and "extra" in evidence and len(known) == len(pairs) == expected:
            return known
    return None


def _read_pair(evidence: Mapping[str, Any], made: int) -> tuple[int | None, float] | None:
    place, share = evidence.get("made"), evidence.get("share")
    is_place = place is None or (isinstance(place, int) and 0 <= place < made)
    return (place, share) if is_place and isinstance(share, int | float) else None


def _show(
    call: ToolCall,
    count: int,
    outcome: Outcome | None = None,
    differences: tuple[ArgumentDifference, ...] = (),
) -> ShownCall:
    return ShownCall(
        call.name or "?",
        *_render(call.arguments),
        outcome,
        differences,
        None if call.result is UNSET else render_data(call.result),
        "; ".join(filter(None, [call.problem, call.error])) or None,
        call.step + 1 if count > 1 else 0,
    )


def _render(arguments: Any) -> tuple[str, str]:
    """Return arguments on one short line, and whole."""
    return render_arguments(arguments), "any" if arguments is UNSET else render_data(arguments)


def _list_differences(expected: ExpectedCall, made: ToolCall) -> Iterator[ArgumentDifference]:
    """Yield the first differences of arguments, with texts in quotes, so that "5" is not 5."""
    try:
        found = list(islice(list_differences(expected.arguments, made.arguments), _MOST_DIFFERENCES))
    except (PatternTooSlow, RecursionError):  # the score says so too
        return
    for one in sorted(found, key=_place_last_if_extra):
        place = render_location(one.path).removeprefix("$").removeprefix(".") or "all"
        yield ArgumentDifference(place, _quote(one.expected), _quote(one.actual))


def _place_last_if_extra(one: JsonDifference) -> tuple[bool, str]:
    """Return what orders differences: those that are expected as they come, then extra arguments by their place."""
    return (True, str(one.path)) if one.expected is UNSET else (False, "")


def _quote(value: Any) -> str | None:
    if isinstance(value, str):
        return to_json(value)
    return None if value is UNSET else render_data(value)
