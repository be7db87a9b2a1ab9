"""Answers of the API: records of evalspec as JSON with snake_case names, and pydantic models that document them.

The JSON report has the same names in camelCase. A new field of a record is in the answers and in OpenAPI at once.
"""

import functools
import json
import operator
from collections.abc import Collection, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import Response
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields
from pydantic import BaseModel, Field, create_model

JSON_TYPE = "application/json"


def describe(value: Any, left_out: Collection[str] = ()) -> Any:
    """Return a record as a JSON-serializable value. Keys of mappings are data, so they are unchanged.

    `left_out`: names of fields of the record itself to leave out.
    """
    if isinstance(value, Struct):
        named = ((name, getattr(value, name)) for name in value.__struct_fields__ if name not in left_out)
        return {name: describe(item) for name, item in named if item is not UNSET}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return value


def render_answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON-serializable value as a response, without the checks of a pydantic model.

    It is ASCII, because texts of a run may have lone surrogates, which UTF-8 cannot represent.
    """
    content = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Response(content, status, headers, JSON_TYPE)


def file_headers(name: str) -> dict[str, str]:
    """Return the headers of a file to download. A browser that shows it nevertheless runs no script of it."""
    own = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Cache-Control": "no-store"}
    return {**own, "Content-Disposition": f'attachment; filename="{name}"'}


@functools.cache
def model_of(record: type[Struct], name: str, left_out: Collection[str] = ()) -> type[BaseModel]:
    """Return the pydantic model of what `describe` returns for a record. `left_out`: hashable, as in `describe`."""
    hints = get_type_hints(record, include_extras=True)
    shown = [field for field in fields(record) if field.name not in left_out]
    known: dict[str, Any] = {field.name: _to_field(hints[field.name]) for field in shown}
    summary = (record.__doc__ or "").partition("\n\n")[0]
    return create_model(name, __doc__=" ".join(summary.split()), __config__={"defer_build": True}, **known)


def _to_field(hint: Any) -> tuple[Any, Any]:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    said = next((note.description for note in notes if isinstance(note, Meta) and note.description), None)
    default = None if UnsetType in get_args(hint) else ...
    return _translate(hint), Field(default, description=said)


def _translate(hint: Any) -> Any:
    """Return a type with records replaced by their models, and without what msgspec alone understands."""
    if get_origin(hint) is Annotated:
        return _translate(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, Struct):
        return model_of(hint, hint.__name__)
    if hint is UnsetType:
        return None
    arguments = get_args(hint)
    if not arguments or isinstance(arguments[0], str):
        return hint
    translated = tuple(one if one is Ellipsis else _translate(one) for one in arguments)
    if isinstance(hint, UnionType):
        return functools.reduce(operator.or_, translated)
    origin: Any = get_origin(hint)
    return origin[translated]
