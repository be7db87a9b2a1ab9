"""agent.yaml from disk to a checked Manifest, with every error at once and at its line."""

from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.references import References
from evalspec.manifest.schema import Manifest
from evalspec.manifest.yaml_source import Place, YamlSource, load_yaml, render_path
from evalspec.registry import near_miss


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    """A manifest with what is needed to speak about it: its file, its lines, and its references."""

    manifest: Manifest
    source: YamlSource
    references: References
    path: Path

    def problem(self, place: Place, message: str, fix: str = "") -> Problem:
        """A problem at one field of this manifest."""
        return Problem(message, fix, self.source.file, self.source.line(place), render_path(place))


def load_manifest(path: Path) -> LoadedManifest:
    """Read and validate a manifest.

    Raises:
        InvalidInput: with all that is wrong in it.
    """
    source = load_yaml(path, str(path))
    if not isinstance(source.data, dict):
        fix = "start it with apiVersion: agentspec.io/v1"
        raise InvalidInput(Problem("the manifest must be a mapping of keys to values", fix, str(path), 1))
    try:
        manifest = Manifest.model_validate(source.data)
    except ValidationError as error:
        raise InvalidInput(_explain(details, source) for details in error.errors(include_url=False)) from error
    return LoadedManifest(manifest, source, References(path.parent), path)


def _explain(error: ErrorDetails, source: YamlSource) -> Problem:
    place = _place_in_file(error["loc"], source)
    message, fix = _message(error)
    return Problem(message, fix, source.file, source.line(place), render_path(place))


def _place_in_file(location: tuple[str | int, ...], source: YamlSource) -> Place:
    """Drop the steps that exist only in the model: a lone threshold or metric name is a list or object there."""
    place: Place = ()
    for step in location:
        longer = (*place, step)
        if longer in source.lines or (step == location[-1] and not isinstance(step, int)):
            place = longer
    return place[:-1] if place and place[-1] in ("bound",) else place


def _message(error: ErrorDetails) -> tuple[str, str]:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        return f"unknown key '{error['loc'][-1]}'", near_miss(str(error["loc"][-1]), known)
    if kind == "missing":
        return "this key is required", "add it"
    if kind == "literal_error":
        return f"{_shown(error['input'])} is not one of the accepted values", f"write {context['expected']}"
    if kind == "value_error":
        return str(context["error"]), ""
    if kind == "string_type" and isinstance(error["input"], int | float):
        return f"{_shown(error['input'])} is not text", "put it in quotes"
    text = error["msg"].removeprefix("Input should be ")
    if text != error["msg"]:
        return f"{_shown(error['input'])} is not accepted here", f"it should be {text}"
    return text[:1].lower() + text[1:], ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    """The keys that the model at a location accepts, as they are written in YAML."""
    model: Any = Manifest
    for step in location:
        fields = model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}
        by_alias = {field.alias or name: field.annotation for name, field in fields.items()}
        model = _model_within(by_alias[str(step)]) if step in by_alias else _model_within(model)
    return [field.alias or name for name, field in model.model_fields.items() if field.alias != "bound"]


def _model_within(annotation: Any) -> Any:
    """The pydantic model inside `list[Model]`, `Model | None` or `dict[str, list[Model]]`."""
    if get_origin(annotation) in (list, dict, Union, UnionType):
        inner = [_model_within(argument) for argument in get_args(annotation)]
        return next((model for model in inner if isinstance(model, type) and issubclass(model, BaseModel)), annotation)
    return annotation
