"""Metrics of the calls of tools that an agent makes. No judge: calls are compared with those that a sample expects.

A call is the expected one if name and arguments are equal as JSON, or fit its matchers. Calls of one message, or whose
times overlap, have no order among themselves. An agent whose reply does not show its calls has no score.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from msgspec import to_builtins

from evalspec.base.json_matching import compute_value_digest, list_differences
from evalspec.base.plural import counted
from evalspec.model import Cause, Direction, Exchange, ExpectedCall, Need, Score, ToolCall
from evalspec.scoring.metrics.base import BuildContext
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.tool_matching import (
    CallComparison,
    CallPair,
    are_exact,
    are_in_order,
    count_pairs,
    pair_by_arguments,
)

_COMPARES_CALLS: dict[str, Any] = {
    "needs": {Need.EXPECTED_TOOLS},
    "scores_answers": False,
    "from_trace": ("tool_calls",),
    "imports": ("scipy.optimize", "scipy.sparse.csgraph"),
}
_READS_ALL_CALLS: dict[str, Any] = {"scores_answers": False, "is_of_whole": True, "from_trace": ("tool_calls",)}
_UNSEEN = Score.not_applicable("the reply does not show which tools were called", Cause.REPLY)
_NOTHING_EXPECTED = Score.not_applicable("the sample expects no calls", Cause.DATASET)
_NOTHING_MADE = Score.not_applicable("the agent called no tool", Cause.REPLY)
_UNNAMED = Score.failed("a call of the reply has no name, so it may be of a forbidden tool; map toolCalls", Cause.REPLY)
_NAMED = 5
_DIFFERENCES_READ = 100


def _compare(exchange: Exchange, score: Callable[[CallComparison], Score]) -> Score:
    """Return a score of the comparison of made and expected calls, with both as evidence."""
    made, expected = _calls(exchange), exchange.sample.expected_tools
    if expected is None:
        return Score.not_applicable("the sample does not say which tools to call", Cause.DATASET)
    if made is None:
        return _UNSEEN
    compared = CallComparison(expected, made)
    found = score(compared)
    if found.value is None:
        return found
    pairs = pair_by_arguments(compared)
    taken = {pair.made for pair in pairs}
    evidence = {
        "expected": [
            {**to_builtins(call), "made": pair.made, "share": pair.share}
            for call, pair in zip(expected, pairs, strict=True)
        ],
        "extra": [place for place in range(len(made)) if place not in taken],
    }
    return Score.scored(found.value, found.reason or _explain(compared, pairs, found.value), evidence)


def _calls(exchange: Exchange) -> tuple[ToolCall, ...] | None:
    return exchange.reply.tool_calls if exchange.reply else None


def _explain(compared: CallComparison, pairs: Sequence[CallPair], value: float) -> str | None:
    """Return which expected calls were made with other arguments or not at all, and which calls are not expected."""
    if value == 1:
        return None
    wrong, missing = [], []
    for row, (call, pair) in enumerate(zip(compared.expected, pairs, strict=True)):
        if pair.made is None:
            missing.append(call.name)
        elif not compared.fits[row, pair.made]:
            wrong.append(f"{call.name} ({_name_differences(call, compared.made[pair.made])})")
    taken = {pair.made for pair in pairs}
    extra = [call.name or "?" for place, call in enumerate(compared.made) if place not in taken]
    said = {"other arguments": wrong, "not called": missing, "not expected": extra}
    parts = [f"{what}: {_list_names(names)}" for what, names in said.items() if names]
    return "; ".join(parts) or "the expected calls, in another order"


def _name_differences(expected: ExpectedCall, made: ToolCall) -> str:
    """Return the names of the arguments that are not as expected, or why the arguments cannot be read."""
    if made.problem is not None:
        return made.problem
    found = list_differences(expected.arguments, made.arguments)
    names = list(dict.fromkeys(str(one.path[0]) for one in islice(found, _DIFFERENCES_READ) if one.path))
    return ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "") or "all of them"


def _list_names(names: Sequence[str]) -> str:
    counts = [name if count == 1 else f"{name} ×{count}" for name, count in Counter(names).items()]
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    return ", ".join(counts[:_NAMED]) + more


@metric(**_COMPARES_CALLS, is_binary=True)
def tool_calls_exact(exchange: Exchange) -> Score:
    """1 if the agent made the expected calls and no others, in their order; calls of one message have none."""
    return _compare(exchange, lambda compared: Score.scored(are_exact(compared)))


@metric(**_COMPARES_CALLS, is_binary=True)
def tool_calls_in_order(exchange: Exchange) -> Score:
    """1 if the agent made the expected calls in their order; others may come between them."""
    return _compare(
        exchange, lambda compared: Score.scored(are_in_order(compared)) if compared.expected else _NOTHING_EXPECTED
    )


@metric(**_COMPARES_CALLS, is_binary=True)
def tool_calls_any_order(exchange: Exchange) -> Score:
    """1 if the agent made all expected calls, in any order; each made call counts once."""
    return _compare(
        exchange,
        lambda compared: (
            Score.scored(count_pairs(compared) == len(compared.expected)) if compared.expected else _NOTHING_EXPECTED
        ),
    )


@metric(**_COMPARES_CALLS)
def tool_call_precision(exchange: Exchange) -> Score:
    """Share of the made calls that are expected ones; each expected call counts once."""
    return _compare(
        exchange,
        lambda compared: Score.scored(count_pairs(compared) / len(compared.made)) if compared.made else _NOTHING_MADE,
    )


@metric(**_COMPARES_CALLS)
def tool_call_recall(exchange: Exchange) -> Score:
    """Share of the expected calls that were made; each made call counts once."""
    return _compare(
        exchange,
        lambda compared: (
            Score.scored(count_pairs(compared) / len(compared.expected)) if compared.expected else _NOTHING_EXPECTED
        ),
    )


@metric(**_COMPARES_CALLS)
def tool_call_f1(exchange: Exchange) -> Score:
    """Twice the number of expected calls that were made, over the number of expected and made calls."""
    return _compare(exchange, lambda compared: _compute_f1(count_pairs(compared), compared))


@metric(**_COMPARES_CALLS)
def tool_name_f1(exchange: Exchange) -> Score:
    """F1 as in tool_call_f1, of the names of the calls alone."""

    def score(compared: CallComparison) -> Score:
        expected, made = (Counter(call.name for call in calls) for calls in (compared.expected, compared.made))
        return _compute_f1((expected & made).total(), compared)

    return _compare(exchange, score)


def _compute_f1(shared: int, compared: CallComparison) -> Score:
    every = len(compared.expected) + len(compared.made)
    return Score.scored(2 * shared / every) if every else _NOTHING_EXPECTED


@metric(**_COMPARES_CALLS)
def tool_argument_accuracy(exchange: Exchange) -> Score:
    """Mean share of right arguments in the expected calls, each compared with the nearest made call of its name."""

    def score(compared: CallComparison) -> Score:
        shares = [pair.share for pair in pair_by_arguments(compared)]
        return Score.scored(sum(shares) / len(shares)) if shares else _NOTHING_EXPECTED

    return _compare(exchange, score)


@metric(**_READS_ALL_CALLS, direction=Direction.LOWER, bounds=(0.0, None))
def forbidden_tool_calls(exchange: Exchange) -> Score:
    """Number of calls of tools that the sample forbids."""
    forbidden = exchange.sample.forbidden_tools
    if forbidden is None:
        return Score.not_applicable("the sample forbids no tools", Cause.DATASET)
    made = _calls(exchange) or ()
    found = _count(exchange, [call.name in forbidden for call in made], "forbidden")
    if found.value == 0 and not all(call.name for call in made):
        return _UNNAMED
    return found


@metric(**_READS_ALL_CALLS, direction=Direction.LOWER, bounds=(0.0, None))
def redundant_tool_calls(exchange: Exchange) -> Score:
    """Number of calls that repeat an earlier one, with the same arguments, that did not fail."""
    seen: set[tuple[str, str]] = set()
    flags = []
    for call in _calls(exchange) or ():
        key = (call.name, compute_value_digest(call.arguments))
        flags.append(key in seen)
        if call.error is None:
            seen.add(key)
    return _count(exchange, flags, "redundant")


def _count(exchange: Exchange, flags: Sequence[bool], what: str) -> Score:
    made = _calls(exchange)
    if made is None:
        return _UNSEEN
    places = [place for place, is_one in enumerate(flags) if is_one]
    reason = f"{what}: {_list_names([made[place].name for place in places])}" if places else None
    return Score.scored(len(places), reason, {what: places})


@metric(**_READS_ALL_CALLS, direction=Direction.LOWER)
def tool_error_rate(exchange: Exchange) -> Score:
    """Share of the calls with a result that failed."""
    made = _calls(exchange)
    if made is None:
        return _UNSEEN
    answered = [call for call in made if call.is_answered]
    failed = [call.name for call in answered if call.error is not None]
    if not answered:
        return Score.not_applicable("the reply shows no results of tools", Cause.REPLY if made else Cause.OTHER)
    reason = f"{counted(len(failed), 'call')} failed: {_list_names(failed)}" if failed else None
    return Score.scored(len(failed) / len(answered), reason)


@metric(direction=Direction.LOWER, bounds=(0.0, None), scores_answers=False, is_of_whole=True, from_trace=("steps",))
def steps(exchange: Exchange) -> Score:
    """How often the agent called its model for a reply."""
    count = exchange.reply.steps if exchange.reply else None
    if count is None:
        return Score.not_applicable("the reply does not show the calls of the model", Cause.REPLY)
    return Score.scored(count)


@metric(is_binary=True, scores_answers=False, is_of_whole=True, from_trace=("steps",))
def steps_within_limit(exchange: Exchange) -> Score:
    """1 if the agent called its model at most `max_steps` times."""
    most = exchange.sample.max_steps
    if most is None:
        return Score.not_applicable("the sample has no max_steps", Cause.DATASET)
    count = steps(exchange)
    if count.value is None:
        return count
    return Score.scored(count.value <= most, None if count.value <= most else f"{count.value:g} steps of {most}")


@metric(**_READS_ALL_CALLS, is_binary=True, reads_tools=True, imports=("jsonschema",))
def tool_schema_valid(exchange: Exchange, context: BuildContext) -> Score:
    """1 if the arguments of every call of a declared tool are valid by its schema."""
    made, declared = _calls(exchange), context.tools
    if declared is None or made is None:
        return _UNSEEN if made is None else _UNDECLARED
    checked = [(place, call) for place, call in enumerate(made) if call.name in declared]
    if not checked:
        return Score.not_applicable("the agent called no declared tool", Cause.OTHER)
    wrong = {
        place: problem for place, call in checked if (problem := declared[call.name].explain_invalid(call)) is not None
    }
    reason = "; ".join(f"{made[place].name}: {problem}" for place, problem in list(wrong.items())[:_NAMED])
    return Score.scored(not wrong, reason or None, {"invalid": {str(place): text for place, text in wrong.items()}})


@metric(**_READS_ALL_CALLS, direction=Direction.LOWER, is_binary=True, reads_tools=True)
def tool_hallucination(exchange: Exchange, context: BuildContext) -> Score:
    """1 if the agent called a tool that does not exist."""
    made, declared = _calls(exchange), context.tools
    if declared is None or made is None:
        return _UNSEEN if made is None else _UNDECLARED
    unknown = [call.name or "?" for call in made if call.name not in declared]
    return Score.scored(bool(unknown), f"no such tool: {_list_names(unknown)}" if unknown else None)


_UNDECLARED = Score.not_applicable("spec.evaluation.tools declares no tools", Cause.OTHER)
