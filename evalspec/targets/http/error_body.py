"""Detect errors in replies with status 200, and statuses that are worth a retry."""

import json
from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.text import decode_reply, excerpt, parse_reply_json

THROTTLED = (429, 503, 529)
"""Statuses of an overloaded service. Anthropic uses 529."""

_TRANSIENT = (408, 425, 429)
_STATUS_KEYS = ("code", "status", "statusCode", "status_code")

_MARKS_OF_ERRORS: Mapping[str, tuple[str | bool, ...]] = {
    "status": ("error", "fail", "failed", "failure"),
    "type": ("error", "exception"),
    "success": (False,),
    "ok": (False,),
    "isError": (True,),
}
_FINDINGS = ("errors", "exception", "fault")
"""Keys that describe an error if they have content."""

_ERROR_CODES = (400, 599)
"""Range of error codes at the keys in _STATUS_KEYS, as in HTTP. Other numbers, such as 1000, may mean success."""


def is_transient(status: int) -> bool:
    """Return whether a retry may succeed after an HTTP status."""
    return status >= 500 or status in _TRANSIENT


def parse_error(value: Any, *, retryable: bool = False) -> ServiceError | None:
    """Return the `error` in the JSON of a reply with status 200; None if it is absent or empty.

    `retryable`: as in `make_error`.
    """
    error = value.get("error") if isinstance(value, dict) else None
    if not has_content(error):
        return None
    return make_error(f"the reply has an error: {excerpt(as_text(error))}", error, retryable=retryable)


def make_error(message: str, value: Any, *, retryable: bool = False) -> ServiceError:
    """Return an error that is retryable by the HTTP status in a JSON value, or by `retryable` if there is none."""
    status = _status_within(value)
    return ServiceError(
        message,
        retryable=retryable if status is None else is_transient(status),
        throttled=status in THROTTLED,
    )


def is_marked_as_error(value: Mapping[str, Any]) -> bool:
    """Return whether a reply is marked as an error, so that its text may not be an answer."""
    return bool(_find_marks(value))


def refuse_mark(value: Any, *, retryable: bool = False) -> None:
    """Raise the error of a reply without an answer that only a mark identifies as one.

    Raises:
        ServiceError: see `parse_error`.
    """
    marks = _find_marks(value) if isinstance(value, dict) else {}
    if marks:
        message = f"the reply is marked as an error and has no answer: {excerpt(as_text(marks))}"
        raise make_error(message, value, retryable=retryable)


def _find_marks(value: Mapping[str, Any]) -> dict[str, Any]:
    status = _status_within(value)
    return {
        key: said
        for key, said in value.items()
        if _plain(said) in _MARKS_OF_ERRORS.get(key, ())
        or (key in _FINDINGS and has_content(said))
        or (key in _STATUS_KEYS and (_is_error_code(said) or (status is not None and str(said) == str(status))))
    }


def _plain(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _is_error_code(value: Any) -> bool:
    return isinstance(value, int | float) and _ERROR_CODES[0] <= value <= _ERROR_CODES[1]


def parse_error_object(body: str) -> Any:
    """Return `error` of a JSON body or the whole value; None if it is not JSON. Gemini wraps it in a list of one."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return find_error(value) if isinstance(value, dict) else value


def find_error(reply: Mapping[str, Any]) -> Any:
    """Return `error` of a JSON object, with the `error_description` of OAuth 2.0; the object itself if it has none."""
    error, more = reply.get("error", reply), reply.get("error_description")
    return f"{error}: {more}" if isinstance(error, str) and isinstance(more, str) else error


def find_message(body: str) -> str:
    """Return `error.message`, `error` or `message` of a JSON object, as in most services; else the whole body.

    OpenRouter's message says nothing. The provider's error is in `metadata.raw`.
    """
    error = parse_error_object(body)
    metadata = error.get("metadata") if isinstance(error, dict) else None
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str) and isinstance(raw, str):
        return f"{message}: {find_message(raw)}"
    return message if isinstance(message, str) else body


def refuse_error_body(raw: bytes) -> None:
    """Raise the error in a body. A body that is not JSON has none.

    Raises:
        ServiceError: see `parse_error`.
    """
    try:
        error = parse_error(parse_reply_json(decode_reply(raw)))
    except ServiceError:
        return
    if error is not None:
        raise error


def has_content(value: Any) -> bool:
    """Return whether a JSON value contains anything but null, false, 0 and blank text."""
    left = [value]  # a reply may be nested too deeply for recursion
    while left:
        item = left.pop()
        if isinstance(item, dict | list):
            left.extend(item.values() if isinstance(item, dict) else item)
        elif item.strip() if isinstance(item, str) else item:
            return True
    return False


def as_text(error: Any) -> str:
    """Return the text of an error, or its JSON."""
    try:
        return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    except RecursionError:
        return "[…]"


def _status_within(error: Any) -> int | None:
    """Return the HTTP status in an error object, given as a number or in digits."""
    named = [str(error.get(key)) for key in _STATUS_KEYS] if isinstance(error, dict) else []
    return next((int(text) for text in named if len(text) == 3 and text.isdecimal() and text[0] in "45"), None)
