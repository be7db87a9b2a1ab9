"""Building blocks of the manifest's models: value types, strict and lenient sections, and readable errors."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    StrictStr,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, core_schema

from evalspec.base.errors import split_fix
from evalspec.base.json_path import explain_bad_query
from evalspec.base.registry import find_close, near_miss

if TYPE_CHECKING:
    from evalspec.inputs.manifest.retriever_schema import RetrieverTarget

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Drop = Annotated[float, Field(strict=True, ge=0)]
DROP_KINDS = ("one number", "by metric")
Drops = Annotated[
    Annotated[Drop, Tag(DROP_KINDS[0])] | Annotated[dict[StrictStr, Drop], Field(min_length=1), Tag(DROP_KINDS[1])],
    Discriminator(lambda value: DROP_KINDS[isinstance(value, dict)]),
]
"""Decided by the type of the value, so that an error is about the kind that was written."""
Confidence = Annotated[float, Field(strict=True, gt=0, lt=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Seconds = Annotated[float, Field(strict=True, gt=0)]
Name = Annotated[StrictStr, Field(min_length=1)]
_MODULE_OBJECT = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
Steps = tuple[str | int, ...]
"""The way to a value in nested mappings and lists."""


def _name_something(text: str) -> str:
    if re.match(_MODULE_OBJECT, text) is None:
        raise ValueError(f"'{text}' is not an object in a module; write module:name")
    return text


def check_query(text: str) -> str:
    """Return a JSONPath query.

    Raises:
        ValueError: The text is none.
    """
    problem = explain_bad_query(text)
    if problem is not None:
        raise ValueError(problem)
    return text


ModuleObject = Annotated[
    StrictStr, AfterValidator(_name_something), Field(json_schema_extra={"pattern": _MODULE_OBJECT})
]


class UntitledKeys(GenerateJsonSchema):
    """Keys have no titles, which editors would show above the descriptions: "Readytimeoutseconds"."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's
        """Return False."""
        return False


class ManifestModel(BaseModel):
    """Unknown keys are errors; keys are camelCase in YAML and snake_case in Python.

    `defer_build`: pydantic builds the validator of the model that is read, not one for each model in it.
    """

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True, defer_build=True
    )


class Extensible(ManifestModel):
    """A strict section in which keys that start with `x-` are accepted and ignored."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {"^x-": {}}})

    @model_validator(mode="before")
    @classmethod
    def _without_extensions(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if not str(key).startswith("x-")}


class Lenient(ManifestModel):
    """Other tools' keys are accepted and ignored."""

    model_config = ConfigDict(extra="ignore")


def find_place(location: Steps, value: Any) -> Steps:
    """Return the steps of an error's location that are in the value. Others exist only in the model."""
    place: Steps = ()
    for step in location:
        if has_step(value, step):
            place, value = (*place, step), value[step]
    return place


def has_step(value: Any, step: str | int) -> bool:
    """Return whether a mapping has a key, or a list an index."""
    return step in value if isinstance(value, Mapping) else isinstance(value, list) and step in range(len(value))


def list_errors(error: ValidationError, model: type[BaseModel]) -> list[ErrorDetails]:
    """Return the errors of a value, without those of required keys that are there but misspelled."""
    found = error.errors(include_url=False)
    misspelled = {(*one["loc"][:-1], find_meant(one, model)) for one in found}
    return [one for one in found if one["type"] != "missing" or one["loc"] not in misspelled]


def find_meant(error: ErrorDetails, model: type[BaseModel]) -> str | None:
    """Return the key that an unknown key probably is; None for other errors."""
    *outer, key = error["loc"] or ("",)
    return find_close(str(key), sorted(_known_keys(model, outer))) if error["type"] == "extra_forbidden" else None


def explain_error(error: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    """Return the message and the fix for one validation error of `model`."""
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        return f"unknown key '{key}'", near_miss(key, _known_keys(model, error["loc"][:-1]))
    if kind == "missing":
        return "this key is required", _name_value(model, error["loc"])
    if kind in ("literal_error", "enum"):
        expected = _plain(context["expected"]).replace("'", '"')  # JSON has no other quotes
        return f"{_shown(given)} is not one of the accepted values", f"write {expected}"
    if kind == "value_error":
        return split_fix(str(context["error"]))
    if kind == "string_too_short":
        return "it is empty", "write a value, or remove the key"
    if kind == "too_short" and not given:
        return "it is empty", "write at least one, or remove the key if it is optional"
    if kind == "too_short":
        return f"it has {context['actual_length']}, and needs at least {context['min_length']}", "add what is missing"
    if kind == "string_type" and isinstance(given, int | float):
        return f"{_shown(given)} is not text", "put it in quotes"
    return _explain_type(error)


def _explain_type(error: ErrorDetails) -> tuple[str, str]:
    """Return message and fix of an error that says which values are right."""
    given = error["input"]
    if error["type"] in ("bool_type", "int_type", "float_type") and isinstance(given, str) and _is_quoted(given):
        return f"{_shown(given)} is text", "remove the quotes"
    text = error["msg"].removeprefix("Input should be ")
    if isinstance(given, dict) and error["type"] == "list_type":
        return "it is a mapping", "it should be a list"
    if text != error["msg"]:
        return f"{_shown(given)} is not accepted here", f"it should be {_plain(text)}"
    return text[:1].lower() + text[1:], ""


def _is_quoted(text: str) -> bool:
    """Return whether a text without its quotes is a number, true or false."""
    try:
        return isinstance(json.loads(text.lower()), int | float)
    except (ValueError, RecursionError):
        return False


def _name_value(root: type[BaseModel], location: Steps) -> str:
    """Return the fix for a missing key: its only value, or an example."""
    field, key = find_field(root, location), str(location[-1])
    if field is None:
        return "add it"
    written = f"{key}: {_render_flow(make_example(field))}"
    return f"add {written}" if get_origin(field.annotation) is Literal else f"add it, as in {written}"


def find_field(root: type[BaseModel], location: Steps) -> FieldInfo | None:
    """Return the field of a key at a location, None if no model has it."""
    found = (field for model in _models_at(root, location[:-1]) for key, field in _fields(model) if key == location[-1])
    return next(found, None)


_PLACEHOLDERS: Mapping[type, str] = {str: "TEXT", float: "NUMBER", int: "NUMBER"}


def make_example(field: FieldInfo) -> Any:
    """Return a value for a field: its own example, its only value, or one with placeholders such as TEXT."""
    return field.examples[0] if field.examples else _make_value(field.annotation)


def _make_value(annotation: Any) -> Any:
    arguments = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {key: make_example(field) for key, field in _fields(annotation) if field.is_required()}
    if get_origin(annotation) is list:
        return [_make_value(arguments[0])]
    if get_origin(annotation) is Literal:
        return arguments[0]
    if arguments and get_origin(annotation) is not dict:
        return _make_value(arguments[0])
    return _PLACEHOLDERS.get(annotation, "…")


def _render_flow(value: Any) -> str:
    """Return an example as YAML on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_render_flow(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_render_flow, value))}]"
    return f'"{value}"' if _is_quoted(str(value)) else str(value)


def _plain(expectation: str) -> str:
    """Return an expectation of pydantic in the words of YAML: mapping instead of dictionary, true instead of True."""
    words = {
        "a valid integer": "an integer",
        "valid dictionary": "mapping",
        "dictionary": "mapping",
        "valid ": "",
        "True": "true",
        "False": "false",
    }
    for python, plain in words.items():
        expectation = expectation.replace(python, plain)
    return expectation.split(" or instance of")[0]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _known_keys(root: Any, location: Sequence[str | int]) -> list[str]:
    """Return the keys that the models at a location accept, spelled as in the file."""
    return list(dict.fromkeys(key for model in _models_at(root, location) for key in list_keys(model)))


def list_keys(model: type[BaseModel], *, required: bool = False) -> list[str]:
    """Return the keys of a section, spelled as in the file. `required`: only those that it must have."""
    return [key for key, field in _fields(model) if field.is_required() or not required]


def _models_at(root: Any, location: Sequence[str | int]) -> list[type[BaseModel]]:
    models = [root]
    for step in location:
        annotations = [field.annotation for model in models for key, field in _fields(model) if key == str(step)]
        models = [inner for annotation in annotations for inner in _models_within(annotation)] or models
    return models


def _fields(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    return [(field.alias or name, field) for name, field in model.model_fields.items() if name != "bound"]


def _models_within(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models inside `list[Model]`, `Model | Other | None` or `dict[str, list[Model]]`."""
    if annotation is RetrieverVariants:
        return _models_within(RetrieverVariants.find_target_type())
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_within(argument)]


class RetrieverVariants(dict[str, "RetrieverTarget"]):
    """The variants of a target by their labels. A target without a grid has the label ""."""

    @staticmethod
    def find_target_type() -> Any:
        """Return `RetrieverTarget`, the union of all models of a target."""
        from evalspec.inputs.manifest.retriever_schema import RetrieverTarget

        return RetrieverTarget

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._read, json_schema_input_schema=core_schema.any_schema()
        )

    @classmethod
    def _read(cls, value: Any) -> "RetrieverVariants":
        from evalspec.inputs.manifest.retriever_schema import read_variants

        return cls(read_variants(value))
