"""Read agent.yaml into a validated Manifest. All errors are reported at once, each with its line."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.manifest.fields import DROP_KINDS, KEY_KINDS, explain_error, find_place, has_step
from evalspec.inputs.manifest.references import References, UnresolvedReference
from evalspec.inputs.manifest.schema import Manifest
from evalspec.inputs.manifest.yaml_source import Place, YamlSource, load_yaml, render_path

_ROUNDS = 4
"""How often invalid parts are left out."""
_LEAST_DEPTH = 2
"""Parts that are at most this deep, such as spec.evaluation, are not left out: little would be left to check."""
_OF_DATASETS = (".csv", ".tsv", ".jsonl", ".parquet")
_GATE = ("spec", "evaluation", "ciGate")
_MEANT = re.compile(r"did you mean '(.*)'\?")


class LoadedManifest(Struct, frozen=True):
    """A validated manifest, with its file, line numbers and references."""

    manifest: Manifest
    source: YamlSource
    references: References
    path: Path

    def problem(self, place: Place, message: str, fix: str = "") -> Problem:
        """Return a problem located at one field of this manifest."""
        return self.source.problem(place, message, fix)

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
    source = _read_source(path)
    try:
        manifest = Manifest.model_validate(source.data)
    except ValidationError as error:
        raise InvalidInput(_explain(details, source) for details in error.errors(include_url=False)) from None
    return LoadedManifest(manifest, source, References(path.parent), path)


class PartialManifest(Struct, frozen=True):
    """A manifest with errors. `loaded`: its valid parts; None if too little is valid.

    `is_whole`: nothing but unknown keys and settings of the gate was left out, so what the other checks say of `loaded`
    is true of the manifest.
    """

    problems: Sequence[Problem]
    loaded: LoadedManifest | None = None
    is_whole: bool = True


def load_valid_parts(path: Path) -> PartialManifest:
    """Read a manifest, and leave out what is not valid, so that the rest can be checked too.

    Unknown keys are renamed if they are probably misspelled. Other errors take the value, or what it is part of, away.

    Raises:
        InvalidInput: the file is not readable as a manifest.
    """
    source = _read_source(path)
    data, is_whole = deepcopy(source.data), True
    problems: list[Problem] = []
    for attempt in range(_ROUNDS):
        try:
            manifest = Manifest.model_validate(data)
        except ValidationError as error:
            found = error.errors(include_url=False)
            problems = problems or [_explain(details, source) for details in found]
            is_whole = is_whole and not attempt and all(map(_concerns_nothing_else, found))
            removed = {_place_in_data(details, attempt, data) for details in found}
            if any(len(place) <= _LEAST_DEPTH for place in removed):
                break
            for place in sorted(removed, key=len, reverse=True):
                _take_out(data, place, _find_meant(place, found))
        else:
            return PartialManifest(problems, LoadedManifest(manifest, source, References(path.parent), path), is_whole)
    return PartialManifest(problems)


def _read_source(path: Path) -> YamlSource:
    if "\0" in str(path):
        raise InvalidInput(Problem("the path of the manifest contains a NUL character", "remove it", field="manifest"))
    if path.suffix.lower() in _OF_DATASETS and path.is_file():
        fix = f"write one: evalspec connect URL --data {path}, or evalspec init --agent MODULE:FUNCTION --data {path}"
        raise InvalidInput(Problem("is a dataset, not a manifest", fix, str(path)))
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
    return source


def _place_in_data(error: ErrorDetails, attempt: int, data: Any) -> Place:
    """Return the place to take out for an error: in the second attempt what contains it, and so on.

    Steps that exist only in the model are left out.
    """
    place = find_place(error["loc"], data)
    missing = error["type"] == "missing"
    return place[: len(place) - attempt] if attempt and not missing else place


def _find_meant(place: Place, errors: Sequence[ErrorDetails]) -> str | None:
    """Return the key that an unknown key probably is, or None."""
    for error in errors:
        if error["type"] == "extra_forbidden" and error["loc"][-1] == place[-1]:
            found = _MEANT.fullmatch(explain_error(error, Manifest)[1])
            return found[1] if found else None
    return None


def _take_out(data: Any, place: Place, meant: str | None) -> None:
    """Remove what is at a place, or give it its right name, unless that exists."""
    for step in place[:-1]:
        if not has_step(data, step):
            return
        data = data[step]
    if not has_step(data, place[-1]):
        return
    value = data.pop(place[-1])
    if meant is not None and isinstance(data, dict):
        data.setdefault(meant, value)


def _find_nuls(value: Any, place: Place) -> Iterator[Place]:
    """Yield the place of each value or key that contains a NUL character."""
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and "\0" in step:
                yield (*place, step)
            yield from _find_nuls(item, (*place, step))
    elif isinstance(value, str) and "\0" in value:
        yield place


def _concerns_nothing_else(error: ErrorDetails) -> bool:
    """Return whether the checks of other keys do not depend on the key with this error."""
    return error["type"] == "extra_forbidden" or error["loc"][: len(_GATE)] == _GATE


def _explain(error: ErrorDetails, source: YamlSource) -> Problem:
    return source.problem(_place_in_file(error["loc"], source), *explain_error(error, Manifest))


def _place_in_file(location: tuple[str | int, ...], source: YamlSource) -> Place:
    """Return the place without steps that exist only in the model.

    The model wraps a single threshold in a list and a metric name in an object, and knows two kinds of maxDrop and
    of apiKey.
    """
    place: Place = ()
    for step in location:
        longer = (*place, step)
        if longer in source.lines or (step == location[-1] and not isinstance(step, int)):
            place = longer
    return place[:-1] if place and place[-1] in ("bound", *DROP_KINDS, *KEY_KINDS) else place
