"""Read agent.yaml into a validated Manifest. All errors are reported at once, each with its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.fields import explain_error
from evalspec.manifest.references import References, UnresolvedReference
from evalspec.manifest.schema import Manifest
from evalspec.manifest.yaml_source import Place, YamlSource, load_yaml, render_path


class LoadedManifest(Struct, frozen=True):
    """A validated manifest, with its file, line numbers and references."""

    manifest: Manifest
    source: YamlSource
    references: References
    path: Path

    def problem(self, place: Place, message: str, fix: str = "") -> Problem:
        """Return a problem located at one field of this manifest."""
        return Problem(message, fix, self.source.file, self.source.line(place), render_path(place))

    def resolve(self, value: Any, place: Place, problems: list[Problem]) -> Any:
        """Return the value with its references resolved, in lists and mappings too. Append failures to `problems`."""
        if isinstance(value, dict):
            return {key: self.resolve(item, (*place, key), problems) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*place, index), problems) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return self.references.resolve(value)
        except UnresolvedReference as error:
            problems.append(self.problem(place, error.message, error.fix))
            return value


def load_manifest(path: Path) -> LoadedManifest:
    """Read and validate a manifest.

    Raises:
        InvalidInput: with every problem in the file.
    """
    if "\0" in str(path):
        raise InvalidInput(Problem("the path of the manifest contains a NUL character", "remove it", field="manifest"))
    source = load_yaml(path, str(path))
    if not isinstance(source.data, dict):
        fix = "start it with apiVersion: agentspec.io/v1"
        raise InvalidInput(Problem("the manifest must be a mapping of keys to values", fix, str(path), 1))
    problems = [
        Problem("this text contains a NUL character", "remove it", str(path), source.line(place), shown)
        for place in _find_nuls(source.data, ())
        if (shown := render_path(place).replace("\0", "\\0"))
    ]
    if problems:
        raise InvalidInput(problems)
    try:
        manifest = Manifest.model_validate(source.data)
    except ValidationError as error:
        raise InvalidInput(_explain(details, source) for details in error.errors(include_url=False)) from None
    return LoadedManifest(manifest, source, References(path.parent), path)


def _find_nuls(value: Any, place: Place) -> Iterator[Place]:
    """Yield the place of each value or key that contains a NUL character."""
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and "\0" in step:
                yield (*place, step)
            yield from _find_nuls(item, (*place, step))
    elif isinstance(value, str) and "\0" in value:
        yield place


def _explain(error: ErrorDetails, source: YamlSource) -> Problem:
    place = _place_in_file(error["loc"], source)
    message, fix = explain_error(error, Manifest)
    return Problem(message, fix, source.file, source.line(place), render_path(place))


def _place_in_file(location: tuple[str | int, ...], source: YamlSource) -> Place:
    """Return the place without steps that exist only in the model.

    The model wraps a single threshold in a list and a metric name in an object.
    """
    place: Place = ()
    for step in location:
        longer = (*place, step)
        if longer in source.lines or (step == location[-1] and not isinstance(step, int)):
            place = longer
    return place[:-1] if place and place[-1] in ("bound",) else place
