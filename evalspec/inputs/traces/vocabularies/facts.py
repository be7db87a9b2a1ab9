"""What a span says, in the words of no vocabulary; and readers of the values that vocabularies share."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, DecodeError, Struct
from msgspec.json import decode

from evalspec.inputs.tool_calls import read_tool_calls
from evalspec.model import Message, ToolCall
from evalspec.model.spans import Span, StepKind, TracedDocument
from evalspec.model.tool_calls import UNKNOWN_ARGUMENTS

_TEXTS = ("content", "text", "page_content")
_SCORES = ("score", "relevance_score")
_RESULTS = ("response", "result")


class Facts(Struct):
    """What a span says the agent did. None: it does not say it.

    `counts`: of tokens, as `read_usage` reads them. `prompt`: the messages that a model got. `answer`: what it wrote;
    empty if it only called tools. `asked`, `answered`: what went into the span and came out, as texts, such as the
    question that a whole agent got. `switch`: what records content, in words for people.
    """

    kind: StepKind
    model: str | None = None
    counts: Mapping[str, Any] = {}
    prompt: tuple[Message, ...] | None = None
    answer: str | None = None
    documents: tuple[TracedDocument, ...] | None = None
    call: ToolCall | None = None
    asked: str | None = None
    answered: str | None = None
    switch: str | None = None


class Vocabulary(NamedTuple):
    """`recognises`: whether the attributes of a span are in the vocabulary. `read`: what they say."""

    recognises: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Span], Facts]


def as_json(value: Any) -> Any:
    """Return the value of a text that is a JSON object or list; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return decode(value)
        except (DecodeError, RecursionError):
            return value
    return value


def as_text(value: Any) -> str | None:
    """Return a text as it is and another value as JSON; None for None."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def first_of(record: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first key that a record has; None if it has none."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def list_records(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON list, or of its text."""
    items = as_json(value)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the records of numbered attributes, in order: `prefix.0.name` is `name` of the first one."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            number, dot, name = key[len(prefix) :].lstrip(".").partition(".")
            if dot and number.isdecimal():
                found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


def read_messages(value: Any) -> tuple[Message, ...] | None:
    """Return messages with `parts` or `content`; None if the value is no list of messages, or its text."""
    items = as_json(value)
    if not isinstance(items, list):
        return None
    return tuple(Message(str(item.get("role", "")), join_parts(item)) for item in items if isinstance(item, dict))


def join_parts(message: Any) -> str:
    """Return the text of a message: its parts of text, and results of tools, which are text for the model."""
    content = message.get("parts", message.get("content")) if isinstance(message, dict) else message
    if not isinstance(content, list):
        return as_text(content) or ""
    return "\n".join(text for part in content if (text := _read_part(part)))


def _read_part(part: Any) -> str | None:
    if not isinstance(part, dict):
        return as_text(part)
    if part.get("type") == "tool_call_response":
        return as_text(first_of(part, _RESULTS))
    return as_text(first_of(part, _TEXTS)) if part.get("type", "text") == "text" else None


def read_documents(records: Iterable[Any]) -> tuple[TracedDocument, ...]:
    """Return the documents of records with an id, a score and a text, where they have them, also in `metadata`.

    `document_id` is the document that a passage is a chunk of. It is the id, as in replies.
    """
    return tuple(_read_document(record) for record in records if isinstance(record, dict))


def _read_document(record: Mapping[str, Any]) -> TracedDocument:
    found = as_json(record.get("metadata"))
    metadata = found if isinstance(found, dict) else {}
    places = (record, metadata)
    name = next((one for key in ("document_id", "id") for place in places if (one := place.get(key)) is not None), None)
    score = next((one for key in _SCORES for place in places if (one := place.get(key)) is not None), None)
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return TracedDocument(as_text(name), score if is_number else None, as_text(first_of(record, _TEXTS)))


def read_call(span: Span, name: Any, arguments: Any, result: Any, call_id: Any = None) -> ToolCall:
    """Return the call of a tool that a span is of. None: the span does not have the arguments or the result."""
    record = {"name": as_text(name) or span.name, "arguments": arguments, "id": as_text(call_id)}
    error = find_error(span)
    if error is not None:
        record["error"] = error
    elif result is not None:
        record["result"] = result
    (call,) = read_tool_calls([record])
    if arguments is None:
        return ToolCall(call.name, {}, call.call_id, call.result, call.error, UNKNOWN_ARGUMENTS)
    return call


def unwrap_message(value: Any) -> Any:
    """Return the content of a result that LangChain serialised as a message of a tool; any other value as it is."""
    inner = first_of(value, ("data", "kwargs")) if isinstance(value, dict) else None
    if isinstance(inner, dict) and "content" in inner and "tool_call_id" in inner:
        return inner["content"]
    return value


def find_error(span: Span) -> str | None:
    """Return why a span failed: its exception, its status or its `error.type`; None if it did not fail."""
    stated = span.attributes.get("error.type")
    if span.error is None and stated is None:
        return None
    raised = [event.attributes for event in span.events if event.name == "exception"]
    for one in reversed(raised):
        words = [as_text(one[key]) for key in ("exception.type", "exception.message") if one.get(key)]
        return ": ".join(word for word in words if word)
    return span.error or as_text(stated)


def is_known(call: ToolCall | None) -> bool:
    """Return whether a span has the arguments of its call and what came of it."""
    return (
        call is not None and call.problem != UNKNOWN_ARGUMENTS and (call.result is not UNSET or call.error is not None)
    )


def last_text(messages: Sequence[Message] | None) -> str | None:
    """Return what the user said last; None if that is not known."""
    return next((one.content for one in reversed(messages or ()) if one.role in ("user", "human")), None)
