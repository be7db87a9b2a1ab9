"""The JSON Schemas of records, for the documents of commands and of the service."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from evalspec.model.base import Record
from evalspec.model.fingerprints import Fingerprint


def describe_records(records: Iterable[type[Struct]], places: str) -> dict[str, Any]:
    """Return the JSON Schemas (2020-12) of records and of their parts, by name.

    `places`: how schemas refer to each other, with `{name}`. The parts of a fingerprint are left out, unless they are
    among the records.
    """
    from msgspec.json import schema_components

    asked = {record.__name__: record for record in records}
    _, found = schema_components(tuple(asked.values()), ref_template=places)
    if Fingerprint.__name__ in found:  # what it says may change at any time
        found[Fingerprint.__name__] = {"title": Fingerprint.__name__, "type": "object"}
    found = _keep_parts(found, asked, places)
    brief = {record.__name__ for record in _list_kinds(Record) if record.__struct_config__.omit_defaults}
    for name, definition in found.items():
        if name not in brief:
            _require_what_is_written(definition)
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].partition("\n\n")[0].split())
    return found


def _list_kinds(record: type[Record]) -> Iterator[type[Record]]:
    yield record
    for kind in record.__subclasses__():
        yield from _list_kinds(kind)


def _keep_parts(found: dict[str, Any], names: Iterable[str], places: str) -> dict[str, Any]:
    """Return the definitions of these names, and of what they refer to."""
    kept, waiting = set[str](), set(names)
    while waiting:
        name = waiting.pop()
        kept.add(name)
        text = json.dumps(found[name])
        waiting |= {other for other in found if json.dumps(places.format(name=other)) in text} - kept
    return {name: definition for name, definition in found.items() if name in kept}


def describe_document(record: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a document that is a record."""
    definitions = describe_records([record], "#/$defs/{name}")
    reference = f"#/$defs/{record.__name__}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": reference, "$defs": definitions}


def _require_what_is_written(definition: dict[str, Any]) -> None:
    """Make fields with a default required, because documents contain them. Remove optional fields, which they omit."""
    required = set(definition.get("required", ()))
    properties = {
        name: {key: item for key, item in kind.items() if key != "default"}
        for name, kind in definition.get("properties", {}).items()
        if name in required or "default" in kind
    }
    if properties:
        definition |= {"properties": properties, "required": list(properties)}
