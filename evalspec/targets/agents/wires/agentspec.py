"""AgentSpec's protocol: `{"message": text}`, and the first string among response, message and content. The default.

Protocol custom has a request template instead, and a response mapping reads its replies.
"""

from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import as_object, describe_keys, suggest_text
from evalspec.base.text import excerpt, parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample
from evalspec.targets.agents.mapping import refuse_error
from evalspec.targets.agents.request_template import fill_template
from evalspec.targets.agents.response_events import has_other_text, refuse_failed, repeats_answer_text
from evalspec.targets.agents.wire import DEFAULT_WIRE, StreamReader, Wire, build_messages, first_string
from evalspec.targets.http.error_body import is_marked_as_error, make_error

_ANSWER_KEYS = ("response", "message", "content")
_DELTA_KEYS = (*_ANSWER_KEYS, "delta", "text")


def _build_message(sample: Sample, _endpoint: ChatEndpoint) -> Any:
    request: dict[str, Any] = {"message": sample.question}
    if not isinstance(sample.user_input, str):
        request["messages"] = build_messages(sample)
    return request


def _read_message(value: Any) -> AgentReply:
    refuse_error(value)
    answer = first_string(value, _ANSWER_KEYS) if isinstance(value, dict) else None
    if answer is None:
        message = f"expected a JSON object with text at {', '.join(_ANSWER_KEYS[:-1])} or {_ANSWER_KEYS[-1]}"
        given = as_object(value)
        is_response = given.get("object") == "response"
        protocol = "openai-compatible" if "choices" in given else "openai-responses" if is_response else None
        place = suggest_text(value)
        answer_fix = f"set chatEndpoint.response.answer{f': {place}, its only text' if place else ''}"
        fix = f"set chatEndpoint.protocol: {protocol}" if protocol else answer_fix
        raise ServiceError(f"{message} in the reply, but {describe_keys(value)}; {fix}")
    if is_marked_as_error(value):
        says = f"the reply is marked as an error; its text is {excerpt(answer)}"
        raise make_error(f"{says}; if that is the answer, set chatEndpoint.response.answer", value)
    return AgentReply(answer)


class _PlainEvents(StreamReader):
    """JSON objects with text under a known key, or plain text: the first text decides. Nothing marks the end."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._is_text: bool | None = None

    def add(self, data: str) -> bool:
        looks_like_object = data.lstrip().startswith("{")
        if self._is_text is None and not looks_like_object:
            self._is_text = True
        value = self._parse(data) if looks_like_object or not self._is_text else {}
        refuse_error(value, retryable=True)
        refuse_failed(value)
        if not self._is_text and (has_other_text(value) or repeats_answer_text(value)):
            return False
        part = data if self._is_text else first_string(value, _DELTA_KEYS) if isinstance(value, dict) else None
        if part is not None and is_marked_as_error(value):
            raise ServiceError(f"an event of the stream is marked as an error: {excerpt(part)}", retryable=True)
        if part is not None:
            self._is_text = bool(self._is_text)
            self._parts.append(part)
        return bool(part)

    def _parse(self, data: str) -> Any:
        """Return the value of an event; for a part of a plain text that only looks like an object, an empty one."""
        try:
            return parse_event(data)
        except ServiceError:
            if self._is_text:
                return {}
            raise

    def reply(self) -> AgentReply:
        if not self._parts:
            keys = f"{', '.join(_DELTA_KEYS[:-1])} or {_DELTA_KEYS[-1]}"
            raise ServiceError(f"no event of the stream has text at {keys}; set chatEndpoint.response.answer")
        return AgentReply("".join(self._parts))


def _fill_template(sample: Sample, endpoint: ChatEndpoint) -> Any:
    return fill_template(endpoint.request, sample)


AGENTSPEC = Wire(DEFAULT_WIRE, "AgentSpec's messages", _build_message, _read_message, _PlainEvents)
CUSTOM = Wire("custom", "a request template and a response mapping", _fill_template, _read_message, _PlainEvents)
