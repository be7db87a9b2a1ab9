"""Find a value in nested mappings by a dotted key, as conditions and placeholders name it."""

from collections.abc import Mapping
from typing import Any

ABSENT = object()
"""What `find_value` returns if there is no value."""


def find_path(value: Any, key: str) -> tuple[str, ...] | None:
    """Return the keys that lead to the value of a key, None if there is none.

    A key that contains dots itself comes before nested mappings.
    """
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return (key,)
    head, dot, rest = key.partition(".")
    below = find_path(value[head], rest) if dot and head in value else None
    return None if below is None else (head, *below)


def find_value(value: Any, key: str) -> Any:
    """Return the value of a key, ABSENT if there is none. None is a value."""
    path = find_path(value, key)
    if path is None:
        return ABSENT
    for step in path:
        value = value[step]
    return value
