"""The text of a reply: read strictly as JSON, or quoted in a message."""

import json
import re
from collections.abc import Callable
from typing import Any

from evalspec.errors import ServiceError
from evalspec.jsonl import parse_json

_EXCERPT_LENGTH = 160
_LONE_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def excerpt(text: str, longest: int = _EXCERPT_LENGTH) -> str:
    """Return the beginning of a text on one line, in quotes; `nothing` where it is blank."""
    line = one_line(text[: 4 * longest])
    if not line:
        return "nothing"
    is_whole = len(text) <= 4 * longest and len(line) <= longest
    return f"'{line}'" if is_whole else f"'{line[: longest - 1]}…'"


def decode_reply(raw: bytes) -> str:
    """UTF-8 text of a reply, with or without a byte order mark.

    Raises:
        ServiceError: another encoding.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the reply is not UTF-8 text (byte {error.start + 1}); JSON in UTF-8 was expected"
        raise ServiceError(message) from error


def parse_reply_json(text: str, what: str = "the reply", quote: Callable[[str], str] = excerpt) -> Any:
    """JSON by the standard: NaN, Infinity and keys given twice are refused. `what` names the text in messages, and
    `quote` makes an excerpt of it.

    Half a surrogate pair, as agents that cut text between UTF-16 units send, becomes U+FFFD, because no UTF-8 file
    could hold it.

    Raises:
        ServiceError: not JSON, with where and why.
    """
    try:
        value = parse_json(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        message = f"{what} is not valid JSON ({error.msg} at {place}); JSON was expected, got {quote(text)}"
        raise ServiceError(message) from error
    except ValueError as error:
        raise ServiceError(f"{what} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ServiceError(f"{what} is JSON nested too deeply to be read") from error
    return _without_lone_surrogates(value) if _LONE_SURROGATE_ESCAPE.search(text) else value


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value
