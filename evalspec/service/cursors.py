"""Cursors of lists: where the next page begins, as a text that only this API reads."""

import base64
import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from math import isfinite
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import Field

from evalspec.base.foreign_text import encodable
from evalspec.service.problems import ApiProblem

Cursor = Annotated[str | None, Query(max_length=2000, description="`next_cursor` of the previous page.")]
NextCursor = Annotated[
    str | None, Field(description="Send it as `cursor` for the next page; null: this is the last one.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="Entries of a page, at most.")]

Entry = TypeVar("Entry")

_BEYOND_INTEGERS = 2**63


def encode_cursor(*place: float | str) -> str:
    """Return the cursor of a place in a list: values by which the list is sorted."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def cut_page(
    found: Sequence[Entry], limit: int, find_place: Callable[[Entry], Sequence[float | str]]
) -> tuple[Sequence[Entry], str | None]:
    """Return the entries of a page and the cursor of the next one; None: this is the last one.

    `found`: an entry more than the page has, if there are more. `find_place`: the values of an entry by which the list
    is sorted.
    """
    shown = found[:limit]
    return shown, encode_cursor(*find_place(shown[-1])) if len(found) > limit else None


def decode_cursor(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """Return the place of a cursor, None without one. `kinds`: the types of its values.

    Raises:
        ApiProblem: 400: It is not a cursor of such a list.
    """
    if cursor is None:
        return None
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, RecursionError):
        raise _refuse() from None
    if not _fits(place, kinds):
        raise _refuse()
    return tuple(place)


def _fits(place: Any, kinds: Sequence[type]) -> bool:
    if not isinstance(place, list) or len(place) != len(kinds):
        return False
    return all(type(value) is kind and _is_storable(value) for value, kind in zip(place, kinds, strict=True))


def _is_storable(value: Any) -> bool:
    """Return whether any database can compare a value with its own."""
    if isinstance(value, str):
        return "\0" not in value and encodable(value) == value
    return isfinite(value) and 0 <= value < _BEYOND_INTEGERS


def _refuse() -> ApiProblem:
    return ApiProblem(HTTPStatus.BAD_REQUEST, "this is not a cursor of this list; send `next_cursor` of a page of it")
