"""What a query gives to the search request of a retriever, and which placeholders take it.

`{{input}}` is the whole input of a query, `{{input.KEY}}` a field of it and `{{metadata.KEY}}` a value of the sample's
metadata. A key with dots names a nested value.
"""

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import RetrieverError
from evalspec.base.json_text import change_values
from evalspec.inputs.datasets.filters import ABSENT, find_path, find_value
from evalspec.inputs.datasets.query_input import MEDIA_TYPES, QueryInput
from evalspec.targets.retrievers.base import SearchRequest

QUERY = "query"
WHOLE = "input"
OPEN_NAMES = ("input.KEY", "metadata.KEY")
"""How placeholders with a key are shown in messages."""

_FIELD, _METADATA = "input.", "metadata."


def is_of_query(name: str) -> bool:
    """Return whether a placeholder takes a value from a query besides its question."""
    return name == WHOLE or any(name.startswith(prefix) and name != prefix for prefix in (_FIELD, _METADATA))


def takes_input(name: str) -> bool:
    """Return whether a placeholder takes a query's input or a field of it, which may be the question."""
    return is_of_query(name) and not name.startswith(_METADATA)


def find_given(name: str, fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> Any:
    """Return the value of such a placeholder, ABSENT if the query has none."""
    if name == WHOLE:
        return fields
    source = fields if name.startswith(_FIELD) else metadata
    return find_value(source, name.partition(".")[2])


def fill_from_query(names: Collection[str], request: SearchRequest) -> dict[str, Any]:
    """Return the values of those placeholders that take more than the question.

    Raises:
        RetrieverError: the query has no value for one of them.
    """
    found = {name: find_given(name, request.input, request.metadata) for name in names if is_of_query(name)}
    for name, value in found.items():
        if value is ABSENT:
            raise RetrieverError(f"search: the request has {{{{{name}}}}}, but the query has no such value")
    return {name: change_values(value, _encode_file) for name, value in found.items()}


def _encode_file(value: Any) -> Any:
    if not isinstance(value, Path):
        return value
    return f"data:{MEDIA_TYPES[value.suffix.lower()]};base64,{b64encode(value.read_bytes()).decode()}"


def list_unfilled(names: Collection[str], given: QueryInput, metadata: Mapping[str, Any]) -> list[str]:
    """Return the placeholders for which a query has no value. Null is a value."""
    wanted = sorted(name for name in names if is_of_query(name))
    return [name for name in wanted if find_given(name, given.fields, metadata) is ABSENT]


def list_untaken(names: Collection[str], given: QueryInput) -> list[str]:
    """Return the fields of an input that no placeholder takes, nested ones with dots."""
    if WHOLE in names:
        return []
    paths = [find_path(given.fields, name.removeprefix(_FIELD)) for name in names if name.startswith(_FIELD)]
    taken = {path for path in paths if path is not None}
    if QUERY in names and given.question_key is not None:
        taken.add((given.question_key,))
    return [".".join(path) for path in _walk_untaken(given.fields, (), taken)]


def _walk_untaken(
    fields: Mapping[str, Any], above: tuple[str, ...], taken: Collection[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    for key, value in fields.items():
        path = (*above, key)
        if path in taken:
            continue
        if isinstance(value, Mapping) and any(other[: len(path)] == path for other in taken):
            yield from _walk_untaken(value, path, taken)
        else:
            yield path
