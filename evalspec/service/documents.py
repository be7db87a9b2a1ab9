"""Answers that are documents of evalspec: records as commands print them, with their own JSON Schemas in OpenAPI."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Response
from msgspec import Struct, to_builtins
from pydantic import ConfigDict, WithJsonSchema

from evalspec.model.json_schemas import describe_records
from evalspec.service.answers import render_answer

_MARK = "x-record"
_PLACES = "#/components/schemas/{name}"
_EXAMPLES: dict[type[Struct], Struct | None] = {}


def document_type(record: type[Struct], example: Struct | None = None) -> Any:
    """Return a type for pydantic that OpenAPI describes by the schema of a record. `example`: of a whole answer."""
    _EXAMPLES[record] = example or _EXAMPLES.get(record)
    return Annotated[Any, WithJsonSchema({_MARK: record.__name__})]


def to_json(record: Struct) -> dict[str, Any]:
    """Return a record as a JSON value."""
    found: dict[str, Any] = to_builtins(record, str_keys=True)
    return found


def show_example(example: Any) -> ConfigDict:
    """Return the configuration of an answer. `example`: of a whole one, for OpenAPI."""
    return ConfigDict(json_schema_extra={"examples": [example]})


def body_config(example: Any = None, *, strict: bool = True) -> ConfigDict:
    """Return the configuration of a body, whose unknown keys are refused. `strict`: values of other types are, too."""
    shown = ConfigDict() if example is None else show_example(example)
    return ConfigDict(extra="forbid", strict=strict) | shown


def page_example(name: str, record: Struct, **more: Any) -> ConfigDict:
    """Return the configuration of a page of records, with an example. `name`: of the list. `more`: other fields."""
    shown = json.loads(json.dumps(to_json(record)))
    return show_example({name: [shown], **more, "next_cursor": None})


def render_document(record: Struct, status: int = 200) -> Response:
    """Return a record as a response."""
    return render_answer(to_json(record), status)


def complete_schemas(document: dict[str, Any]) -> None:
    """Add the schemas of all records to an OpenAPI document, and refer to them."""
    _refer(document)
    schemas = describe_records(_EXAMPLES, _PLACES)
    for record, example in _EXAMPLES.items():
        if example is not None:
            schemas[record.__name__]["examples"] = [to_json(example)]
    document["components"]["schemas"] |= schemas


def _refer(value: Any) -> None:
    """Replace the marks of records by references."""
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        _refer(item)
    if isinstance(value, dict) and _MARK in value:
        value["$ref"] = _PLACES.format(name=value.pop(_MARK))
