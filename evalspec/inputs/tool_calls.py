"""Read tool calls in every spelling: of chat completions, Anthropic, OpenAI's responses, Gemini, MCP, plain ones.

The list may also have whole messages. The calls of one message were made at the same time, and later messages have
their results. Other calls came one after the other, unless their times overlap.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from evalspec.base.jsonl import is_too_deep, parse_shallow_json
from evalspec.base.text import excerpt
from evalspec.model import ExpectedCall, ToolCall

MOST_CHARACTERS = 1_000_000
"""Of the arguments and of the result of a call, as JSON. Longer ones are cut."""
_CUT = "…[cut by evalspec after 1,000,000 characters]"

_WRAPPERS = ("function", "functionCall", "function_call", "toolCall", "tool_call")
_NAMES = ("name", "tool_name", "toolName", "tool")
_ARGUMENTS = ("arguments", "args", "input", "input_parameters", "parameters", "tool_input", "toolInput", "kwargs")
_IDS = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
"""Keys of the id that a call and its result share. With another key beside it, `id` is that of the item alone."""
_RESULTS = ("result", "output", "response", "content")
_OF_RESULTS = ("function_call_output", "tool_result", "tool-result", "mcp_call_output")
_RESPONSES = ("functionResponse", "function_response")
_BLOCKS = ("content", "parts")
_OF_USERS = ("user", "human")
_FAILURES = ("is_error", "isError")
_TIMES = (("start", "end"), ("start_time", "end_time"), ("startTime", "endTime"), ("started_at", "finished_at"))
_PARALLEL = ("tool_calls", "content", "output", "parts")


def read_tool_calls(items: Sequence[Any], *, together: bool = False) -> tuple[ToolCall, ...]:
    """Return the calls of a list, in order. What is no call at all is a call without a name, which matches nothing.

    `together`: the calls are those of one message.
    """
    calls: list[ToolCall] = []
    places: list[Any] = []
    step = 0
    for item in items:
        if _is_message(item):
            _add_results(item, calls)
            made = [_read_call(one, step) for one in _list_calls(item)]
            step += bool(made)
        elif isinstance(item, Mapping) and item.get("type") in _OF_RESULTS:
            _add_result(item, calls)
            continue
        else:
            made = [_read_call(item, step)]
            step += not together
        calls += made
        places += [item] * len(made)
    return join_overlapping(calls, [_read_span(item) for item in places])


def read_expected_calls(items: Sequence[Any]) -> tuple[ExpectedCall, ...]:
    """Return expected calls in the spelling of another system, in order. Arguments that are not given may be any.

    Raises:
        ValueError: an item is no call, or its arguments are no JSON object.
    """
    calls = read_tool_calls(items)
    odd = next((call.problem for call in calls if call.problem), None)
    if odd is not None or len(calls) != len(items):
        raise ValueError(odd or "expected tools are calls, not messages")
    return tuple(
        ExpectedCall(call.name, call.arguments or (UNSET if _find_arguments(item) is None else {}))
        for call, item in zip(calls, items, strict=True)
    )


def count_model_calls(items: Sequence[Any]) -> int | None:
    """Return how many messages of the model a list has; None if it has no messages."""
    roles = [item.get("role") for item in items if _is_message(item)]
    return sum(role in ("assistant", "model") for role in roles) if roles else None


def leave_out_earlier(items: Sequence[Any], question: str) -> Sequence[Any]:
    """Return what follows a question in a list of messages that begins with earlier ones; otherwise all of it.

    Many agents return their whole thread. The calls of earlier turns in it were made for other questions.
    """
    said = [(place, text) for place, item in enumerate(items) if (text := _read_said(item))]
    last = next((place for place, text in reversed(said) if text == question.strip()), None)
    return items if last is None or last == said[0][0] else items[last + 1 :]


def _read_said(item: Any) -> str:
    """Return the text of a message of the user; nothing for any other item, such as results of tools."""
    if not _is_message(item) or item["role"] not in _OF_USERS:
        return ""
    content = item.get("content", item.get("parts"))
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str)).strip()


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("role"), str)


def _list_calls(message: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the calls in a message: its list of them, or those among its blocks."""
    for key in _PARALLEL:
        for item in message[key] if isinstance(message.get(key), list) else ():
            is_call = isinstance(item, Mapping) and (
                item.get("type") in ("tool_use", "function_call", "tool-call") or any(one in item for one in _WRAPPERS)
            )
            if is_call or key == "tool_calls":
                yield item


def _add_results(message: Mapping[str, Any], calls: list[ToolCall]) -> None:
    """Give the calls the results in a message: all of it, if its role is tool, or some of its blocks."""
    if message["role"] in ("tool", "function"):
        _add_result(message, calls)
    for key in _BLOCKS:
        for item in message[key] if isinstance(message.get(key), list) else ():
            if isinstance(item, Mapping) and (result := _find_result(item)) is not None:
                _add_result(result, calls)


def _find_result(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the result in a block of a message; None if it is none. Gemini has an error within the response."""
    inner = next((block[key] for key in _RESPONSES if isinstance(block.get(key), Mapping)), None)
    if inner is None:
        return block if block.get("type") in _OF_RESULTS else None
    response = inner.get("response")
    return {**inner, "error": response["error"]} if isinstance(response, Mapping) and "error" in response else inner


def _add_result(item: Mapping[str, Any], calls: list[ToolCall]) -> None:
    """Give a result to the first call without one that has its id, or if it has none, its name.

    Some models count ids from the beginning in each message, so a call that has a result keeps it.
    """
    result, error = _read_outcome(item)
    wanted = next((item[key] for key in _IDS if isinstance(item.get(key), str)), None)
    name = item.get("name")
    for place, call in enumerate(calls):
        is_its = (name is None or call.name == name) if wanted is None else call.call_id == wanted
        if is_its and not call.is_answered:
            calls[place] = replace(call, result=result, error=error)
            return


def _read_call(item: Any, step: int) -> ToolCall:
    if not isinstance(item, Mapping):
        return ToolCall("", _cut(item)[0], problem=f"{excerpt(_render(item))} is no tool call", step=step)
    inner = _unwrap(item)
    name = next((inner[key] for key in _NAMES if isinstance(inner.get(key), str)), "")
    arguments, problem = _read_arguments(_find_arguments(item))
    result, error = _read_outcome(item)
    own_id = next((item[key] for key in _IDS if isinstance(item.get(key), str)), None)
    problem = problem if name else "the call has no name"
    return ToolCall(name, arguments, own_id, result, error, problem, step)


def _unwrap(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((item[key] for key in _WRAPPERS if isinstance(item.get(key), Mapping)), item)


def _find_arguments(item: Mapping[str, Any]) -> Any:
    inner = _unwrap(item)
    return next((inner[key] for key in _ARGUMENTS if key in inner), None)


def _read_arguments(given: Any) -> tuple[Any, str | None]:
    """Return the arguments of a call, and why they are no JSON object."""
    value = given
    if isinstance(given, str):
        if not given.strip():
            return {}, None
        if len(given) > MOST_CHARACTERS:
            return given[:MOST_CHARACTERS] + _CUT, f"the arguments have {len(given):,} characters and are cut"
        try:
            value = parse_shallow_json(given)
        except (ValueError, RecursionError) as error:
            return given, f"the arguments are no JSON: {error}"
    if value is None:
        return {}, None
    if not isinstance(value, dict):
        return _cut(value)[0], "the arguments are no JSON object"
    kept, is_text = _cut(value)
    if not is_text:
        return kept, None
    return kept, "the arguments are " + ("too long and cut" if kept.endswith(_CUT) else "nested too deeply")


def _read_outcome(item: Mapping[str, Any]) -> tuple[Any | UnsetType, str | None]:
    """Return the result of a call and its error, if they are shown."""
    result = next((item[key] for key in _RESULTS if key in item), UNSET)
    stated = item.get("error")
    is_failed = stated is True or any(item.get(key) is True for key in _FAILURES) or item.get("status") == "error"
    if stated and stated is not True:
        return UNSET, _cut(_render(stated))[0]
    if is_failed:
        return UNSET, "not stated" if result is UNSET else _cut(_render(result))[0]
    return (UNSET if result is UNSET else _cut(result)[0]), None


def _cut(value: Any) -> tuple[Any, bool]:
    """Return a copy of a value as JSON has it, which code may still change, and whether it is only its text.

    A value that is too long or nested too deeply is its text, the former cut.
    """
    text = _render(value)
    if len(text) > MOST_CHARACTERS:
        return text[:MOST_CHARACTERS] + _CUT, True
    if is_too_deep(value):
        return text, True
    return value if isinstance(value, str) else json.loads(text, parse_constant=str), False


def _render(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def join_overlapping(calls: Sequence[ToolCall], spans: Sequence[tuple[float, float] | None]) -> tuple[ToolCall, ...]:
    """Return the calls, ordered by their times if each has a start and an end. Overlapping ones get the same step."""
    if not calls or any(span is None for span in spans):
        return tuple(calls)
    order = sorted(range(len(calls)), key=lambda place: spans[place] or (0.0, 0.0))
    joined: list[ToolCall] = []
    step, until = -1, float("-inf")
    for place in order:
        start, end = spans[place] or (0.0, 0.0)
        step += start >= until
        until = max(until, end)
        joined.append(replace(calls[place], step=step))
    return tuple(joined)


def _read_span(item: Any) -> tuple[float, float] | None:
    for start, end in _TIMES:
        times = [_read_time(item.get(key)) for key in (start, end)] if isinstance(item, Mapping) else [None]
        if times[0] is not None and times[-1] is not None:
            return times[0], times[-1]
    return None


def _read_time(value: Any) -> float | None:
    """Return a number in any unit, or a date and time of ISO 8601 in seconds; None if it is neither."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(value).timestamp()
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    with suppress(OverflowError):  # a number of hundreds of digits is no time
        return float(value)
    return None
