"""The JSON Schema of a manifest, which editors use to complete, check and explain the file."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from evalspec.inputs.manifest.retriever_schema import WITHOUT_GRID, RetrieverTarget
from evalspec.inputs.manifest.schema import Manifest


class UntitledKeys(GenerateJsonSchema):
    """Keys have no titles, which editors would show above the descriptions: "Readytimeoutseconds"."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's
        """Return False."""
        return False


def manifest_json_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a manifest, including the short forms that validation expands.

    `parameters`: the schemas of the parameters of metrics, by name. A metric of the project may have others.
    """
    schema = Manifest.model_json_schema(by_alias=True, schema_generator=UntitledKeys)
    definitions = schema["$defs"]
    _also(definitions, "MetricEntry", {"type": "string", "minLength": 1})
    definitions["MetricEntry"]["anyOf"][1]["properties"] |= parameters
    definitions["MetricEntry"]["anyOf"][1]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    _also(definitions, "Limit", {"type": "number"})
    _also(definitions, "CiGate", {"type": "boolean"})
    definitions["Limit"]["anyOf"][1]["properties"].pop("bound")
    retrievers = retriever_json_schema("#/$defs/{model}")
    definitions |= retrievers.pop("$defs")
    definitions["EvaluationConfig"]["properties"]["retrievers"]["additionalProperties"] = retrievers
    for model in ("EvaluationConfig", "DatasetConfig"):
        thresholds = definitions[model]["properties"]["thresholds"]
        limits = thresholds["additionalProperties"]
        thresholds["additionalProperties"] = {"anyOf": [limits["items"], limits]}
    return schema


def _also(definitions: dict[str, Any], name: str, short_form: dict[str, Any]) -> None:
    whole = definitions[name]
    definitions[name] = {"description": whole.pop("description"), "anyOf": [short_form, whole]}


def retriever_json_schema(ref_template: str) -> dict[str, Any]:
    """Return the JSON Schema of a retriever as written in the file, with its `$defs`."""
    target = TypeAdapter(RetrieverTarget)
    schema = target.json_schema(by_alias=True, ref_template=ref_template, schema_generator=UntitledKeys)
    for definition in schema["$defs"].values():
        fields = definition.get("properties", {})
        for name, field in list(fields.items()) if "topK" in fields else ():
            if name not in map(to_camel, WITHOUT_GRID):
                of_key = {part: field.pop(part) for part in ("default", "description") if part in field}
                fields[name] = {"anyOf": [field, {"type": "array", "items": field, "minItems": 1}], **of_key}
    return schema
