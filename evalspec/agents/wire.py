"""The three protocols of a chat endpoint: how to build a request from a sample, and read a reply.

The default is AgentSpec's protocol: `{"message": text}`, and the first string among response, message and content. A
response mapping, if configured, reads the reply instead of the protocol.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from evalspec.agents.mapping import read_finish_reason, read_mapped, refuse_error, refuse_mark
from evalspec.errors import ServiceError
from evalspec.http.completions import first_choice, read_content, read_usage
from evalspec.http.error_body import is_marked_as_error, make_error
from evalspec.http.json_path import describe_keys
from evalspec.http.template import fill_json, list_foreign_values, list_placeholders
from evalspec.http.text import excerpt
from evalspec.manifest.schema import ChatEndpoint
from evalspec.model import AgentReply, Sample
from evalspec.registry import near_miss

DEFAULT_MODEL = "agent"
"""The model in an openai-compatible request without `chatEndpoint.model`. Most servers require a name. Servers that are
one agent ignore it."""

ANSWER_KEYS = ("response", "message", "content")
_METADATA = "metadata."


class Protocol(Struct, frozen=True):
    """One protocol: builds a JSON request from a sample, and reads the parts of a JSON reply (without latency)."""

    build_request: Callable[[Sample, ChatEndpoint], Any]
    read_reply: Callable[[Any], AgentReply]


def build_request(sample: Sample, endpoint: ChatEndpoint) -> Any:
    """Return the JSON value to send for one sample.

    Raises:
        ServiceError: the request template has a metadata key that the sample lacks.
    """
    return PROTOCOLS[endpoint.protocol].build_request(sample, endpoint)


def read_reply(value: Any, endpoint: ChatEndpoint) -> AgentReply:
    """Return the parts of a whole JSON reply.

    Raises:
        ServiceError: the reply does not fit the protocol or the mapping, or has an error.
    """
    if endpoint.response is not None:
        return read_mapped(value, endpoint.response)
    return PROTOCOLS[endpoint.protocol].read_reply(value)


def check_template(template: Any) -> list[str]:
    """Return the problems of a request template, each with its fix. The list is empty for a valid template."""
    names = list(list_placeholders(template))
    problems = [
        f"unknown placeholder {{{{{name}}}}}; {near_miss(name, [*_VALUES, _METADATA + 'KEY'])}"
        for name in names
        if not _is_known(name)
    ]
    if not problems and not _CARRIES_INPUT.intersection(names):
        problems.append("the request does not contain the question; add {{input}} or {{messages}}")
    return problems + list(list_foreign_values(template))


def first_string(value: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the value of the first key with text."""
    return next((value[key] for key in keys if isinstance(value.get(key), str)), None)


def _build_messages(sample: Sample) -> list[dict[str, str]]:
    """Return the conversation as role and content. A plain question is one user message."""
    if isinstance(sample.user_input, str):
        return [{"role": "user", "content": sample.user_input}]
    return [{"role": message.role, "content": message.content} for message in sample.user_input]


_VALUES: Mapping[str, Callable[[Sample], Any]] = {
    "input": lambda sample: sample.question,
    "messages": _build_messages,
    "id": lambda sample: sample.id,
}
_CARRIES_INPUT = {"input", "messages"}


def _value(name: str, sample: Sample) -> Any:
    if name in _VALUES:
        return _VALUES[name](sample)
    key = name.removeprefix(_METADATA)
    if key not in sample.metadata:
        raise ServiceError(f"the request template has {{{{{name}}}}}, but sample {sample.id} has no metadata '{key}'")
    return sample.metadata[key]


def _is_known(name: str) -> bool:
    return name in _VALUES or (name.startswith(_METADATA) and name != _METADATA)


def _build_message(sample: Sample, _endpoint: ChatEndpoint) -> Any:
    request: dict[str, Any] = {"message": sample.question}
    if not isinstance(sample.user_input, str):
        request["messages"] = _build_messages(sample)
    return request


def _build_chat_completion(sample: Sample, endpoint: ChatEndpoint) -> Any:
    request: dict[str, Any] = {"model": endpoint.model or DEFAULT_MODEL, "messages": _build_messages(sample)}
    if endpoint.streaming:
        request["stream"] = True
    return request


def _fill_template(sample: Sample, endpoint: ChatEndpoint) -> Any:
    return fill_json(endpoint.request, lambda name: _value(name, sample))


def _read_message(value: Any) -> AgentReply:
    refuse_error(value)
    answer = first_string(value, ANSWER_KEYS) if isinstance(value, dict) else None
    if answer is None:
        message = f"expected a JSON object with text at {', '.join(ANSWER_KEYS[:-1])} or {ANSWER_KEYS[-1]}"
        is_completion = isinstance(value, dict) and "choices" in value
        fix = "set chatEndpoint.protocol: openai-compatible" if is_completion else "set chatEndpoint.response.answer"
        raise ServiceError(f"{message} in the reply, but {describe_keys(value)}; {fix}")
    if is_marked_as_error(value):
        says = f"the reply is marked as an error; its text is {excerpt(answer)}"
        raise make_error(f"{says}; if that is the answer, set chatEndpoint.response.answer", value)
    return AgentReply(answer)


def _read_chat_completion(value: Any) -> AgentReply:
    message = _completion_message(value)
    calls = message.get("tool_calls")
    tool_calls = tuple(calls) if isinstance(calls, list) else None
    answer = read_content(message.get("content"))
    if answer is None:
        answer = first_string(message, ["refusal"])
    finish_reason = read_finish_reason(value)
    if answer is None and not tool_calls:
        why = f" (finish_reason {excerpt(finish_reason)})" if finish_reason else ""
        raise ServiceError(f"choices[0].message of the reply has neither text content nor tool_calls{why}")
    if not answer and not tool_calls:
        refuse_mark(value)
    usage = read_usage(value.get("usage"))
    return AgentReply(answer or "", tool_calls=tool_calls, usage=usage, finish_reason=finish_reason)


def _completion_message(value: Any) -> dict[str, Any]:
    refuse_error(value)
    expected = "expected a chat completion with choices[0].message"
    if not isinstance(value, dict):
        raise ServiceError(f"{expected} in the reply, but {describe_keys(value)}")
    choice = first_choice(value)
    refuse_error(choice)
    message = choice.get("message") if choice else None
    if not isinstance(message, dict):
        raise ServiceError(f"{expected} in the reply, but there is none; {describe_keys(value)}")
    return message


PROTOCOLS: Mapping[str | None, Protocol] = {
    None: Protocol(_build_message, _read_message),
    "openai-compatible": Protocol(_build_chat_completion, _read_chat_completion),
    "custom": Protocol(_fill_template, _read_message),
}
"""The protocols by the value of `chatEndpoint.protocol`."""
