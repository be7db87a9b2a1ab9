"""JSON templates with {{placeholders}}.

A string that is a single placeholder becomes the value itself (a list stays a list). Inside longer text, the value is
inserted as text. Values are data: they are not searched for placeholders, and not spliced into JSON text.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from evalspec.base.errors import ServiceError

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")

ValueOf = Callable[[str], Any]
"""Returns the value of a placeholder by its name."""


def fill_json(template: Any, value_of: ValueOf) -> Any:
    """Return the template with its placeholders replaced. Exceptions of `value_of` propagate."""
    if isinstance(template, str):
        return _fill_text(template, value_of)
    if isinstance(template, list):
        return [fill_json(item, value_of) for item in template]
    if isinstance(template, dict):
        return {key: fill_json(item, value_of) for key, item in template.items()}
    return template


def fill_path(template: str, value_of: ValueOf) -> str:
    """Return a path, perhaps with a query, with each value percent-encoded. Exceptions of `value_of` propagate.

    Raises:
        ServiceError: a value turns a segment of the path into `.` or `..`, which addresses another resource, or it is
            not valid Unicode.
    """
    with _refusing_surrogates():
        filled = _PLACEHOLDER.sub(lambda found: quote(as_text(value_of(found[1].strip())), safe=""), template)
    fixed = _PLACEHOLDER.sub("x", template)
    for segment, before in zip(_list_segments(filled), _list_segments(fixed), strict=True):
        if segment in (".", "..") and segment != before:
            raise ServiceError(f"a value makes a segment of the path '{segment}', which addresses another resource")
    return filled


def add_query(url: str, values: Mapping[str, Any]) -> str:
    """Return a url with values as query parameters. Values that are not text are written as JSON.

    Raises:
        ServiceError: a value is not valid Unicode.
    """
    with _refusing_surrogates():
        query = urlencode({key: as_text(value) for key, value in values.items()})
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


@contextmanager
def _refusing_surrogates() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        raise ServiceError("a value for the url has half a surrogate pair, which has no encoding") from error


def _list_segments(path: str) -> list[str]:
    """Return the segments of a path without its query. Encoded values cannot add a segment or a query."""
    return path.partition("?")[0].split("/")


def list_placeholders(template: Any) -> Iterator[str]:
    """Yield the names of all placeholders, in order."""
    if isinstance(template, str):
        yield from (name.strip() for name in _PLACEHOLDER.findall(template))
    elif isinstance(template, list | dict):
        for item in template.values() if isinstance(template, dict) else template:
            yield from list_placeholders(item)


def list_foreign_values(template: Any) -> Iterator[str]:
    """Yield problems: values that YAML has and JSON does not, and placeholders in keys, which are not replaced."""
    if isinstance(template, dict):
        for key, item in template.items():
            if not isinstance(key, str):
                yield f"the key {key!r} is not text; put it in quotes"
            elif _PLACEHOLDER.search(key):
                yield f"the key '{key}' contains a placeholder, but only values are replaced; move it to a value"
            yield from list_foreign_values(item)
    elif isinstance(template, list):
        for item in template:
            yield from list_foreign_values(item)
    elif isinstance(template, float) and not math.isfinite(template):
        yield f"{template} is not a JSON number; write a finite one"
    elif not isinstance(template, str | int | float | None):
        yield f"a {type(template).__name__} is not a JSON value; put it in quotes"


def as_text(value: Any) -> str:
    """Return a value for use inside longer text: text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _fill_text(text: str, value_of: ValueOf) -> Any:
    only = _PLACEHOLDER.fullmatch(text)
    if only:
        return value_of(only[1].strip())
    return _PLACEHOLDER.sub(lambda found: as_text(value_of(found[1].strip())), text)
