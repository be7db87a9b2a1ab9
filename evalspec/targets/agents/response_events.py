"""Events of a streamed response of OpenAI: what their types mean, for its wire and for mappings of any protocol."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import as_object
from evalspec.base.text import excerpt
from evalspec.targets.http.error_body import as_text, has_content, make_error

RESPONSE_END = "response.completed"
"""What a stream that was cut lacks."""

_ENDS = (RESPONSE_END, "response.incomplete", "response.failed")
_TEXTS = ("output_text", "refusal", "text")
_HOLDERS = ("content_part", "output_item")
"""Parts of types. Their `done` events have the whole, and a mapping says what to read of it."""

_STATUSES = {"rate_limit_exceeded": 429, "server_error": 500, "vector_store_timeout": 504}
"""Codes of errors that may pass, with the statuses of such errors."""


def find_type(event: Any) -> str:
    """Return the type of an event; empty if it has none."""
    kind = as_object(event).get("type")
    return kind if isinstance(kind, str) else ""


def has_answer_text(event: Any) -> bool:
    """Return whether the event is a piece of the answer's text."""
    return find_type(event) in [f"response.{name}.delta" for name in _TEXTS]


def has_other_text(event: Any) -> bool:
    """Return whether an event has text that is no answer, such as arguments, reasoning or a transcript, at any key.

    These events have the key of the answer's text, so a query cannot distinguish them.
    """
    place, *middle = find_type(event).split(".")
    step = middle.pop() if middle else ""
    return place == "response" and step in ("delta", "done") and bool(middle) and middle[-1] not in _TEXTS + _HOLDERS


def repeats_answer_text(event: Any) -> bool:
    """Return whether an event has a text of the answer as a whole, after its pieces."""
    return find_type(event) in [f"response.{name}.done" for name in _TEXTS]


def ends_response(event: Any) -> bool:
    """Return whether an event has the whole response, and is the last one."""
    return find_type(event) in _ENDS


def refuse_failed(event: Any) -> None:
    """Raise the error of the event `response.failed`.

    Raises:
        ServiceError: see `refuse_failure`.
    """
    if find_type(event) == "response.failed":
        refuse_failure({**as_object(event.get("response")), "status": "failed"})


def refuse_failure(response: Mapping[str, Any]) -> None:
    """Raise the error of a whole response. The service has given up, so only the error's code allows a retry.

    Raises:
        ServiceError: the response failed, or has an error.
    """
    error = response.get("error")
    if has_content(error) or response.get("status") == "failed":
        says = excerpt(as_text(error)) if has_content(error) else "without a reason"
        raise make_response_error(f"the response failed: {says}", error)


def make_response_error(message: str, error: Any, *, retryable: bool = False) -> ServiceError:
    """Return an error like `http.error_body.make_error`, with the statuses that OpenAI's codes stand for."""
    code = as_object(error).get("code")
    status = _STATUSES.get(code) if isinstance(code, str) else None
    return make_error(message, error if status is None else {"status": status}, retryable=retryable)
