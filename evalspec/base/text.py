"""Text of replies: strict JSON parsing, and excerpts and urls for messages."""

import json
import re
from collections.abc import Callable
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.jsonl import parse_json

_EXCERPT_LENGTH = 160
_USERINFO = re.compile(r"^([^/?#]*//)[^/?#]*@")
_LONE_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def strip_userinfo(url: str) -> str:
    """Return a url without user and password, which are stored and shown nowhere."""
    return _USERINFO.sub(r"\1", url)


def one_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def excerpt(text: str, longest: int = _EXCERPT_LENGTH) -> str:
    """Return the beginning of a text on one line, in quotes; `nothing` if it is blank."""
    line = one_line(text[: 4 * longest])
    if not line:
        return "nothing"
    is_whole = len(text) <= 4 * longest and len(line) <= longest
    return f"'{line}'" if is_whole else f"'{line[: longest - 1]}…'"


def shorten_name(name: str, longest: int) -> str:
    """Return a name; a longer one is cut, and a digest of the whole follows."""
    from hashlib import sha256  # few names are so long

    return name if len(name) <= longest else f"{name[:longest]}-{sha256(name.encode()).hexdigest()[:8]}"


def decode_reply(raw: bytes) -> str:
    """Return the UTF-8 text of a reply, with or without a byte order mark.

    Raises:
        ServiceError: the reply has another encoding.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse_encoding(error.start) from error


def refuse_encoding(position: int) -> ServiceError:
    """Return the error for a reply that is not UTF-8 at a position, counted from 0."""
    return ServiceError(f"the reply is not UTF-8 text (byte {position + 1}); JSON must be UTF-8")


def parse_event(data: str) -> Any:
    """Return the JSON value of an event of a stream.

    Raises:
        ServiceError: the data is not JSON.
    """
    return parse_reply_json(data, "an event of the stream")


def parse_reply_json(text: str, what: str = "the reply", quote: Callable[[str], str] = excerpt) -> Any:
    """Return the value of JSON by the standard: NaN, Infinity and duplicate keys are refused.

    `what`: the name of the text in messages. `quote`: makes an excerpt of it. A lone surrogate, from agents that cut
    text between UTF-16 units, becomes U+FFFD, because UTF-8 files cannot contain it.

    Raises:
        ServiceError: the text is not JSON. The message says where and why.
    """
    try:
        value = parse_json(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        message = f"{what} is not valid JSON ({error.msg} at {place}): {quote(text)}"
        raise ServiceError(message) from error
    except ValueError as error:
        raise ServiceError(f"{what} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ServiceError(f"{what} is JSON that is nested too deeply") from error
    return _without_lone_surrogates(value) if _LONE_SURROGATE_ESCAPE.search(text) else value


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value
