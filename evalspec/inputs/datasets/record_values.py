"""Convert the values of foreign records: texts, lists, conversations, judgements and flags, from JSON or from cells.

Every function raises BadValue for a value that it cannot convert, and never guesses.
"""

import ast
import io
import json
import tokenize
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from evalspec.base.foreign_text import normalize
from evalspec.base.jsonl import parse_shallow_json
from evalspec.inputs.checks import JsonlCheck
from evalspec.inputs.datasets.located import explain_refusal
from evalspec.inputs.tool_calls import read_expected_calls, read_tool_calls
from evalspec.inputs.usage import read_usage
from evalspec.model import HIGHEST_GRADE, Check, ExpectedCall, Message, ToolCall, Usage
from evalspec.model.base import LARGEST_VALUE

_LONGEST_LITERAL = 1_048_576
_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "agent": "assistant",
    "bot": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_ROLE_KEYS = ("role", "speaker", "from", "type")
_CONTENT_KEYS = ("content", "text", "value")
_PASSAGE_KEYS = ("text", "content", "page_content", "contents", "passage", "context", "body", "pageContent")
_ID_KEYS = ("id", "doc_id", "document_id", "docid", "_id", "node_id")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Groups = tuple[tuple[str, ...], ...]


class BadValue(ValueError):
    """A value of a record has an unexpected form. `fix`: what it should be."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


def show_value(value: Any) -> str:
    """Return the beginning of a value for a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def parse_cell(cell: str) -> Any:
    """Return the list or mapping that a cell spells as JSON or as a Python literal, or else the cell itself.

    pandas writes lists as Python literals. NumPy arrays have no commas between their items.
    """
    text = cell.strip()
    if text[:1] + text[-1:] not in ("[]", "{}") or len(text) > _LONGEST_LITERAL:
        return cell
    for parse in (parse_shallow_json, _parse_texts, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, tokenize.TokenError):
            continue
        if isinstance(value, list | dict):
            return value
    return cell


def _parse_texts(text: str) -> list[str]:
    """Return the texts of a Python list. Python itself would join texts without a comma between them.

    Raises:
        ValueError: the text is something else.
    """
    found: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            value = ast.literal_eval(token.string)
            if not isinstance(value, str):
                raise ValueError("not a text")
            found.append(value)
        elif token.string not in ("[", "]", ",") and token.string.strip():
            raise ValueError("not a list of texts")
    if not found and text != "[]":
        raise ValueError("no texts")
    return found


def to_text(value: Any) -> str:
    """Return text as it is, and numbers and booleans as JSON spells them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping) and "0" in value:
        fix = "write one object per sample; pandas does with to_json(…, orient='records', lines=True)"
    else:
        fix = "name the text in it with `fields`, such as key.inner or $.a[0]"
    raise BadValue(f"{show_value(value)} is not text", fix)


def to_id(value: Any) -> str:
    """Return an id as text. Whole numbers lose the `.0` that tables add to them."""
    name = str(int(value)) if isinstance(value, float) and value.is_integer() else value
    if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
        raise BadValue(f"{show_value(value)} is not an id", "write a text or a whole number")
    return str(name)


def to_question(value: Any) -> str | tuple[Message, ...]:
    """Return a question, or a conversation that ends with a user's message."""
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, list) and value:
        messages = tuple(map(_to_message, value))
        if len(messages) == 1 and messages[0].role == "user":
            return to_question(messages[0].content)
        if messages[-1].role != "user":
            raise BadValue("the last message of the conversation is not the user's", "end it with a message to answer")
        return messages
    text = to_text(value)
    if not text.strip():
        raise BadValue("the question is blank", "write the question, or remove the record")
    return text


def _to_message(value: Any) -> Message:
    if not isinstance(value, Mapping):
        raise BadValue(f"{show_value(value)} is not a message", 'write messages as {"role": …, "content": …}')
    said = value["data"] if isinstance(value.get("data"), Mapping) else value
    role = next((_ROLES[str(value[key])] for key in _ROLE_KEYS if str(value.get(key)) in _ROLES), None)
    if role is None:
        raise BadValue(f"the message {show_value(value)} has no known role", f"known: {', '.join(_ROLES)}")
    content = next((said[key] for key in _CONTENT_KEYS if said.get(key) is not None), "")
    return Message(role, _join_parts(content))


def _join_parts(content: Any) -> str:
    """Return the text of a message, which may be a list of parts."""
    parts = content if isinstance(content, list) else [content]
    return "".join(to_text(part.get("text") if isinstance(part, Mapping) else part) for part in parts)


def to_answers(value: Any) -> tuple[str, ...]:
    """Return the right answers: a text, a list of alternatives, or a mapping with such a list under `text`."""
    if isinstance(value, Mapping) and "text" in value:
        value = value["text"]
    if not isinstance(value, list):
        return (to_text(value),)
    texts = (to_text(item["text"] if isinstance(item, Mapping) and "text" in item else item) for item in value)
    return tuple(dict.fromkeys(texts))


def to_passages(value: Any, delimiter: str = "") -> tuple[str, ...]:
    """Return passages: one text, texts, or objects with a text. `delimiter`: separates the passages of one text."""
    if isinstance(value, str):
        return tuple(value.split(delimiter)) if delimiter else (value,)
    if not isinstance(value, list):
        value = [value]
    return tuple(map(_to_passage, value))


def _to_passage(value: Any) -> str:
    if isinstance(value, Mapping):
        key = next((key for key in _PASSAGE_KEYS if isinstance(value.get(key), str)), None)
        if key is None:
            fix = "name it with `fields`, such as context: '$.docs[*].TEXT'"
            raise BadValue(f"the passage {show_value(value)} has no known key of its text", fix)
        value = value[key]
    if not isinstance(value, str):
        raise BadValue(f"{show_value(value)} is not a passage", "write passages as a list of texts")
    return value


def to_sample_id(value: Any) -> str:
    """Return the id of a sample as text, in Unicode's form NFC."""
    return normalize("NFC", to_id(value))


def to_ids(value: Any) -> tuple[str, ...]:
    """Return ids in their order: a list of ids or of objects with an id, or one id. In a cell, commas separate them."""
    items = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        items = [item.strip() for item in value.split(",")]
    return tuple(to_id(_find_id(item)) for item in items)


def _find_id(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    return next((item[key] for key in _ID_KEYS if key in item), item)


def to_judgements(value: Any) -> tuple[dict[str, int], Groups | None]:
    """Return the grades by document, and AND/OR groups if there are any.

    A mapping has grades. A list has relevant ids. A list of lists is AND over OR.
    """
    if isinstance(value, Mapping):
        return {to_id(name): to_grade(grade) for name, grade in value.items()}, None
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        groups = tuple(tuple(dict.fromkeys(to_ids(item))) for item in value)
        if not all(groups):
            raise BadValue("a group of relevant documents is empty", "remove the group")
        return {name: 1 for group in groups for name in group}, groups
    return dict.fromkeys(to_ids(value), 1), None


def to_grade(value: Any) -> int:
    """Return a grade as a whole number, which may be written as `1.0`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or int(value) != value or not 0 <= value <= HIGHEST_GRADE:
        raise BadValue(f"the grade {show_value(value)} is not a whole number from 0", "grades are 0, 1, 2 …")
    return int(value)


def to_truth(value: Any) -> bool:
    """Return a boolean, which may be spelled as text or as 0 and 1."""
    known = value if isinstance(value, bool) else _TRUTHS.get(str(value).strip().lower())
    if known is None:
        raise BadValue(f"{show_value(value)} is neither true nor false", "write true or false")
    return known


def to_tags(value: Any) -> tuple[str, ...]:
    """Return tags: a list of texts, or one text with commas."""
    items = value if isinstance(value, list) else [part.strip() for part in to_text(value).split(",")]
    return tuple(dict.fromkeys(to_text(item) for item in items if item != ""))


def to_metadata(value: Any) -> dict[str, Any]:
    """Return metadata, which has to be a mapping."""
    if not isinstance(value, Mapping):
        raise BadValue(f"{show_value(value)} is not a mapping", "write metadata as an object")
    return dict(value)


def to_reply(value: Any) -> str:
    """Return a response: a text, or the last assistant's message of a list."""
    if not isinstance(value, list):
        return to_text(value)
    if len(value) == 1 and isinstance(value[0], Mapping) and not value[0].keys() & {*_ROLE_KEYS}:
        return _join_parts(value)
    said = [message for message in map(_to_message, value) if message.role == "assistant"]
    if not said:
        raise BadValue("the reply has no assistant's message", "write the response as text")
    return said[-1].content


def to_calls(value: Any) -> tuple[ToolCall, ...]:
    """Return the calls of tools that an agent made."""
    return read_tool_calls(_listed(value))


def to_usage(value: Any) -> Usage:
    """Return the token counts of a reply."""
    usage = read_usage(value)
    if usage is None:
        raise BadValue(f"{show_value(value)} has no token counts", 'write {"input_tokens": …, "output_tokens": …}')
    return usage


def to_number(kind: type[int | float], value: Any) -> int | float:
    """Return a number of this kind, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST_VALUE:
        raise BadValue(f"{show_value(value)} is not a number, 0 or more")
    return kind(value)


def to_expected_calls(value: Any) -> tuple[ExpectedCall, ...]:
    """Return the calls of tools that an agent should make."""
    try:
        return read_expected_calls(_listed(value))
    except ValueError as error:
        raise BadValue(str(error), "write calls with a name and arguments") from error


def to_checks(value: Any) -> tuple[Check, ...]:
    """Return the checks of a reply."""
    if not isinstance(value, list):
        raise BadValue(f"{show_value(value)} is no list of checks", 'write [{"name": "contains", "value": …}]')
    problem = next(filter(None, (explain_refusal(JsonlCheck, one) for one in value)), None)
    if problem:
        raise BadValue(problem)
    return tuple(JsonlCheck.model_validate(one).to_check() for one in value)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadValue(f"{show_value(value)} is no list of calls", 'write [{"name": …, "arguments": {…}}]')
    return value


Convert = Callable[[Any], Any]

CONVERTERS: Mapping[str, Convert] = {
    "id": to_sample_id,
    "input": to_question,
    "expected": to_answers,
    "context": to_passages,
    "reference_contexts": to_passages,
    "relevant": to_judgements,
    "answerable": to_truth,
    "tags": to_tags,
    "metadata": to_metadata,
    "response": to_reply,
    "retrieved_context_ids": to_ids,
    "expected_tools": to_expected_calls,
    "forbidden_tools": to_tags,
    "tool_calls": to_calls,
    "usage": to_usage,
    "latency_ms": partial(to_number, float),
    "steps": partial(to_number, int),
    "checks": to_checks,
}
"""The fields of a record and of its reply, each with the function that converts a value."""

IN_CELLS = frozenset(CONVERTERS) - {"id", "response"}
"""Fields whose cells may spell a list or a mapping."""


def converter_of(field: str, delimiter: str) -> Convert:
    """Return the function of a field. `delimiter`: separates passages within one text."""
    if delimiter and field in ("context", "reference_contexts"):
        return partial(to_passages, delimiter=delimiter)
    return CONVERTERS[field]
