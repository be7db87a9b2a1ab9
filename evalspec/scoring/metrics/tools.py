"""Metrics of the calls of tools that an agent makes. No judge: calls are compared with those that a sample expects.

A call is the expected one if name and arguments are equal as JSON, or fit its matchers. Calls of one message, or whose
times overlap, have no order among themselves. An agent whose reply does not show its calls has no score.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from itertools import islice
from typing import Any

from msgspec import to_builtins

from evalspec.base.json_matching import compute_value_digest, list_differences
from evalspec.base.plural import counted
from evalspec.model import Cause, Direction, Exchange, ExpectedCall, Need, Score, ToolCall
from evalspec.model.tool_calls import UNKNOWN_ARGUMENTS
from evalspec.scoring.metrics.base import BuildContext
from evalspec.scoring.metrics.functions import metric
from evalspec.scoring.tool_matching import (
    CallComparison,
    are_exact,
    are_in_order,
    compare_calls,
)

_COMPARES_CALLS: dict[str, Any] = {
    "needs": {Need.EXPECTED_TOOLS},
    "scores_answers": False,
    "from_trace": ("tool_calls",),
    "imports": ("numpy",),
}
_READS_ALL_CALLS: dict[str, Any] = {"scores_answers": False, "is_of_whole": True, "from_trace": ("tool_calls",)}
_UNSEEN = Score.not_applicable("the reply does not show which tools were called", Cause.REPLY)
_NOTHING_EXPECTED = Score.not_applicable("the sample expects no calls", Cause.DATASET)
_NOTHING_MADE = Score.not_applicable("the agent called no tool", Cause.REPLY)
_UNNAMED = Score.failed("a call of the reply has no name, so it may be of a forbidden tool; map toolCalls", Cause.REPLY)
_NAMED = 5
_DIFFERENCES_READ = 100


def _compares(
    *, is_binary: bool = False, nothing: Score = _NOTHING_EXPECTED, reads_arguments: bool = True
) -> Callable[[Callable[[CallComparison], float | None]], Callable[[Exchange], Score]]:
    """Define a metric by a function of made and expected calls.

    `nothing`: the score where its result is None. `reads_arguments`: whether it depends on more than names.
    """

    def define(score: Callable[[CallComparison], float | None]) -> Callable[[Exchange], Score]:
        @wraps(score)
        def compare(exchange: Exchange) -> Score:
            return (reads_arguments and _find_unrecorded(exchange)) or _compare(exchange, score, nothing)

        return metric(**_COMPARES_CALLS, is_binary=is_binary)(compare)

    return define


def _compare(exchange: Exchange, score: Callable[[CallComparison], float | None], nothing: Score) -> Score:
    """Return a score of the comparison of made and expected calls, with both as evidence."""
    made, expected = _calls(exchange), exchange.sample.expected_tools
    if expected is None:
        return Score.not_applicable("the sample does not say which tools to call", Cause.DATASET)
    if made is None:
        return _UNSEEN
    compared = compare_calls(expected, made)
    value = score(compared)
    if value is None:
        return nothing
    evidence = {
        "expected": [
            {**to_builtins(call), "made": pair.made, "share": pair.share}
            for call, pair in zip(expected, compared.pairs, strict=True)
        ],
        "extra": compared.list_extra(),
    }
    return Score.scored(value, _explain(compared, value), evidence)


def _find_unrecorded(exchange: Exchange) -> Score | None:
    """Return a failed score if it is unknown whether a call is an expected one; otherwise None."""
    return _fail_unrecorded(exchange, {call.name for call in exchange.sample.expected_tools or ()})


def _fail_unrecorded(exchange: Exchange, names: Collection[str]) -> Score | None:
    """Return a failed score if the arguments of a call of one of these tools are unknown; otherwise None."""
    unknown = [call.name for call in _calls(exchange) or () if call.problem == UNKNOWN_ARGUMENTS and call.name in names]
    if not unknown:
        return None
    fix = "`evalspec traces check` says how to record them"
    return Score.failed(f"{UNKNOWN_ARGUMENTS} of {_list_names(unknown)}; {fix}", Cause.TRACES)


def _calls(exchange: Exchange) -> tuple[ToolCall, ...] | None:
    return exchange.reply.tool_calls if exchange.reply else None


def _explain(compared: CallComparison, value: float) -> str | None:
    """Return which expected calls were made with other arguments or not at all, and which calls are not expected."""
    if value == 1:
        return None
    wrong, missing = [], []
    for row, (call, pair) in enumerate(zip(compared.expected, compared.pairs, strict=True)):
        if pair.made is None:
            missing.append(call.name)
        elif not compared.fits[row, pair.made]:
            wrong.append(f"{call.name} ({_name_differences(call, compared.made[pair.made])})")
    extra = [compared.made[place].name or "?" for place in compared.list_extra()]
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


@_compares(is_binary=True)
def tool_calls_exact(compared: CallComparison) -> bool:
    """1 if the agent made the expected calls and no others, in their order; calls of one message have none."""
    return are_exact(compared)


@_compares(is_binary=True)
def tool_calls_in_order(compared: CallComparison) -> bool | None:
    """1 if the agent made the expected calls in their order; others may come between them."""
    return are_in_order(compared) if compared.expected else None


@_compares(is_binary=True)
def tool_calls_any_order(compared: CallComparison) -> bool | None:
    """1 if the agent made all expected calls, in any order; each made call counts once."""
    return compared.right == len(compared.expected) if compared.expected else None


@_compares(nothing=_NOTHING_MADE)
def tool_call_precision(compared: CallComparison) -> float | None:
    """Share of the made calls that are expected ones; each expected call counts once."""
    return _divide(compared.right, len(compared.made))


@_compares()
def tool_call_recall(compared: CallComparison) -> float | None:
    """Share of the expected calls that were made; each made call counts once."""
    return _divide(compared.right, len(compared.expected))


@_compares()
def tool_call_f1(compared: CallComparison) -> float | None:
    """Twice the number of expected calls that were made, over the number of expected and made calls."""
    return _divide(2 * compared.right, len(compared.expected) + len(compared.made))


@_compares(reads_arguments=False)
def tool_name_f1(compared: CallComparison) -> float | None:
    """F1 as in tool_call_f1, of the names of the calls alone."""
    expected, made = (Counter(call.name for call in calls) for calls in (compared.expected, compared.made))
    return _divide(2 * (expected & made).total(), len(compared.expected) + len(compared.made))


@_compares()
def tool_argument_accuracy(compared: CallComparison) -> float | None:
    """Mean share of right arguments in the expected calls, each compared with the nearest made call of its name."""
    return _divide(sum(pair.share for pair in compared.pairs), len(compared.pairs))


def _divide(part: float, whole: int) -> float | None:
    return part / whole if whole else None


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
    repeated = [name for name, count in Counter(call.name for call in _calls(exchange) or ()).items() if count > 1]
    if unknown := _fail_unrecorded(exchange, repeated):
        return unknown
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
    if not made:
        return Score.not_applicable("the agent called no tool", Cause.OTHER)
    if not answered:
        return Score.not_applicable("the reply shows no results of tools", Cause.REPLY)
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
    if unknown := _fail_unrecorded(exchange, declared):
        return unknown
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
