"""Read replies with the JSONPath queries (RFC 9535) of `chatEndpoint.response`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import (
    as_id,
    as_string,
    count_items,
    describe_keys,
    list_bad_queries,
    mentions,
    read_list,
    select_values,
    suggest_text,
    type_name,
)
from evalspec.base.text import excerpt, one_line, parse_event
from evalspec.inputs.manifest.agent_schema import EndMarker, ResponseMapping
from evalspec.inputs.tool_calls import count_model_calls, leave_out_earlier, read_tool_calls
from evalspec.model import AgentReply
from evalspec.targets.agents.response_events import ends_response, find_type, has_other_text, refuse_failed
from evalspec.targets.http.completions import SingleChoice, first_choice, report_usage
from evalspec.targets.http.error_body import as_text, has_content, make_error, parse_error, refuse_mark

_LONGEST_FINISH_REASON = 80
_ALTERNATIVES = ("choices", "candidates")
"""Lists whose items are answers of their own."""

_NOT_OF_REPLIES = {"done", "error"}
"""Keys of the mapping that are no parts of a reply."""


def check_mapping(mapping: ResponseMapping) -> list[tuple[str, str]]:
    """Return (key as in YAML, message) for each query that is not JSONPath."""
    return list_bad_queries(list_queries(mapping))


def list_queries(mapping: ResponseMapping) -> dict[str, str]:
    """Return the queries of a mapping by their keys in YAML."""
    given = {field.alias or key: getattr(mapping, key) for key, field in type(mapping).model_fields.items()}
    return {
        key: value.path if isinstance(value, EndMarker) else value for key, value in given.items() if value is not None
    }


def read_mapped(value: Any, mapping: ResponseMapping, question: str = "") -> AgentReply:
    """Return the mapped parts of a whole reply. `question`: what was asked; calls before it are of earlier turns.

    Raises:
        ServiceError: a mapped part is missing or has another type, contexts and ids differ in number, or the reply has
        an error in place of the answer.
    """
    refuse_error(value, mapping)
    answer = read_answer(value, mapping)
    if answer is None:
        place = suggest_text(value)
        fix = f"; its only text is at {place}" if place else ""
        raise ServiceError(f"the reply has no value at {mapping.answer} (response.answer); {describe_keys(value)}{fix}")
    return assemble_mapped(answer, dict.fromkeys(type(mapping).model_fields, value), mapping, question)


def refuse_error(value: Any, mapping: ResponseMapping | None = None, *, retryable: bool = False) -> None:
    """Raise the error that a reply, or an event of a stream, contains in place of an answer.

    A mapped error is one, whatever the answer. Otherwise, a mapped answer that is not blank takes precedence over an
    error. A blank one is refused if the reply is marked as an error.

    Raises:
        ServiceError: see `http.error_body.parse_error`.
    """
    mapped = select_values(mapping.error, value) if mapping and mapping.error else []
    if has_content(mapped):
        found = mapped[0] if len(mapped) == 1 else mapped
        raise make_error(f"the reply has an error: {excerpt(as_text(found))}", found, retryable=retryable)
    answers = select_values(mapping.answer, value) if mapping else []
    if any(isinstance(answer, str) and answer.strip() for answer in answers):
        return
    error = parse_error(value, retryable=retryable)
    if error is not None:
        raise error
    if answers:
        refuse_mark(value, retryable=retryable)


class MappedStream:
    """A stream read with the mapping. Answers are joined; other parts come from the last event with them.

    `end`: the last event of the protocol, as messages name it. Without `response.done`, it or `[DONE]` has to end the
    stream. None: the protocol has no such event. `question`: as for `read_mapped`.
    """

    def __init__(self, mapping: ResponseMapping, end: str | None, question: str = "") -> None:
        self._mapping = mapping
        self._question = question
        self._end = end
        self._left_out = ""
        self._is_finished = False
        self._choice = SingleChoice()
        self._parts: list[str] = []
        keys = type(mapping).model_fields.keys() - _NOT_OF_REPLIES - {"finish_reason"}
        self._queries = {key: text for key in keys if (text := getattr(mapping, key))}
        self._latest: dict[str, Any] = {key: {} for key in type(mapping).model_fields}

    def add(self, data: str) -> bool:
        """See wire.StreamReader."""
        value = parse_event(data)
        refuse_error(value, self._mapping, retryable=True)
        refuse_failed(value)
        if self._end:
            self._choice.check(first_choice(value))
        if read_finish_reason(value, self._mapping.finish_reason) is not None:
            self._latest["finish_reason"] = value
        self._is_finished = self._is_finished or self._ends(value)
        part = None
        if has_other_text(value):
            self._left_out = self._left_out or find_type(value)
        else:
            part = read_answer(value, self._mapping)
        if part is not None:
            self._parts.append(part)
        self._latest |= {key: value for key, query in self._queries.items() if mentions(value, query)}
        return bool(part)

    @property
    def is_over(self) -> bool:
        """See wire.StreamReader."""
        return self._mapping.done is not None and self._is_finished

    def find_missing_end(self, *, has_done: bool) -> str | None:
        """See wire.StreamReader."""
        if self._is_finished:
            return None
        if self._mapping.done:
            return f"{_describe_end(self._mapping.done)} (response.done)"
        return None if has_done else self._end

    def reply(self) -> AgentReply:
        """See wire.StreamReader."""
        if not self._parts:
            left_out = f"; {self._left_out} is not text of the answer" if self._left_out else ""
            where = f"{self._mapping.answer} (response.answer)"
            raise ServiceError(f"no event of the stream has a value at {where}{left_out}")
        return assemble_mapped("".join(self._parts), self._latest, self._mapping, self._question)

    def _ends(self, value: Any) -> bool:
        if self._mapping.done:
            return is_end(self._mapping.done, value)
        return bool(self._latest["finish_reason"] or read_finish_reason(value)) or ends_response(value)


def is_end(marker: EndMarker, event: Any) -> bool:
    """Return whether an event of a stream has the mark of the last one. The text "1", the number 1 and true differ."""
    found = select_values(marker.path, event)
    if marker.equals is None:
        return has_content(found)
    return any(one == marker.equals and isinstance(one, bool) == isinstance(marker.equals, bool) for one in found)


def _describe_end(marker: EndMarker) -> str:
    return f"a value at {marker.path}" if marker.equals is None else f"{json.dumps(marker.equals)} at {marker.path}"


def read_finish_reason(value: Any, query: str | None = None) -> str | None:
    """Return the agent's reason why the answer ended, or None. Without a query, that of a chat completion is read."""
    found = select_values(query, value) if query else [(first_choice(value) or {}).get("finish_reason")]
    return as_finish_reason(found[0]) or None if len(found) == 1 else None


def as_finish_reason(value: Any) -> str | None:
    """Return the beginning of a finish reason on one line, since any text may be mapped; None if it is not text."""
    return one_line(value[:_LONGEST_FINISH_REASON]) if isinstance(value, str) else None


def read_answer(value: Any, mapping: ResponseMapping) -> str | None:
    """Return the text at `response.answer`, or None if there is nothing. Several texts are its parts, in their order.

    Raises:
        ServiceError: a value is not text, or the texts are of several answers.
    """
    found = select_values(mapping.answer, value)
    if not found:
        return None
    where = f"{mapping.answer} (response.answer)"
    other = [one for one in found if not isinstance(one, str)]
    if other:
        which = "the value" if len(found) == 1 else f"one of the {len(found)} values"
        raise ServiceError(f"{which} at {where} is {type_name(other[0])}, not a string")
    answers = count_items(mapping.answer, value, _ALTERNATIVES) if len(found) > 1 else 1
    if answers > 1:
        raise ServiceError(f"the texts at {where} are of {answers} answers, but evalspec reads one; map the first one")
    return "".join(found)


def assemble_mapped(
    answer: str, sources: Mapping[str, Any], mapping: ResponseMapping, question: str = ""
) -> AgentReply:
    """Return a reply from its answer and, for each field of the mapping, the JSON value to read it from.

    `question`: as for `read_mapped`.

    Raises:
        ServiceError: as in `read_mapped`.
    """
    contexts = _read_list(sources["contexts"], mapping.contexts, "response.contexts", as_string)
    ids = _read_list(sources["context_ids"], mapping.context_ids, "response.contextIds", as_id)
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        message = f"{mapping.contexts} gives {len(contexts)} contexts and {mapping.context_ids} gives {len(ids)} ids"
        raise ServiceError(f"{message}; the numbers must be equal")
    found = _find_tool_calls(sources["tool_calls"], mapping.tool_calls)
    items = None if found is None else leave_out_earlier(found, question)
    tool_calls = None if items is None else read_tool_calls(items)
    steps = _read_steps(sources["steps"], mapping.steps) if mapping.steps else count_model_calls(items or ())
    usage = _report_usage(sources["usage"], mapping.usage)
    finish_reason = read_finish_reason(sources["finish_reason"], mapping.finish_reason)
    return AgentReply(answer, contexts, ids, tool_calls, finish_reason=finish_reason, steps=steps, **usage)


def _read_list(value: Any, text: str | None, key: str, convert: Callable[[Any], str | None]) -> tuple[str, ...] | None:
    return None if text is None else read_list(value, text, key, convert)


def _find_tool_calls(value: Any, text: str | None) -> list[Any] | None:
    if text is None or not mentions(value, text):
        return None
    found = select_values(text, value)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _read_steps(value: Any, text: str | None) -> int | None:
    """Return a number of model calls: the number itself, or that of the items of a list."""
    found = select_values(text, value) if text else []
    one = found[0] if len(found) == 1 else found or None
    count = len(one) if isinstance(one, list) else one
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def _report_usage(value: Any, text: str | None) -> dict[str, Any]:
    found = select_values(text, value) if text else []
    return report_usage(found[0] if len(found) == 1 else found)
