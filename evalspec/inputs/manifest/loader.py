"""Read agent.yaml into a validated Manifest. All errors are reported at once, each with its line."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import find_close
from evalspec.inputs.manifest.fields import (
    DROP_KINDS,
    explain_error,
    find_field,
    find_meant,
    find_place,
    has_step,
    list_errors,
    list_keys,
    make_example,
)
from evalspec.inputs.manifest.references import References, UnresolvedReference
from evalspec.inputs.manifest.schema import Manifest, Metadata, Spec
from evalspec.inputs.manifest.yaml_source import Place, YamlSource, load_yaml, render_path
from evalspec.model.verdicts import BaselineOrigin

_ROUNDS = 4
"""How often invalid parts are left out."""
_NEEDED: frozenset[Place] = frozenset({(), ("spec",), ("spec", "evaluation")})
"""Parts without which there is nothing to check."""
_OF_DATASETS = (".csv", ".tsv", ".jsonl", ".parquet")
_API, _GATE = ("spec", "api"), ("spec", "evaluation", "ciGate")
_SECTIONS = ((Manifest, ()), (Metadata, ("metadata",)), (Spec, ("spec",)))
"""The sections that other tools may add keys to."""
_UNIQUE = ("spec", "evaluation", "path")
"""Required keys that nothing can stand in for."""


class LoadedManifest(Struct, frozen=True):
    """A validated manifest, with its file, line numbers and references.

    `fetched`: the file of the baseline that a server has, None without one, and its origin. None: nobody looked yet.
    """

    manifest: Manifest
    source: YamlSource
    references: References
    path: Path
    fetched: tuple[Path | None, BaselineOrigin] | None = None

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
    problems = _correct_sections(source)
    try:
        manifest = Manifest.model_validate(source.data)
    except ValidationError as error:
        problems += [_explain(details, source) for details in list_errors(error, Manifest)]
    if problems:
        raise InvalidInput(problems)
    return LoadedManifest(manifest, source, References(path.parent), path)


class PartialManifest(Struct, frozen=True):
    """A manifest with errors. `loaded`: its valid parts; None if too little is valid.

    `doubtful`: beginnings of the fields about which the other checks of `loaded` may say what is not true of the
    manifest, because a value there was left out.
    """

    problems: Sequence[Problem]
    loaded: LoadedManifest | None = None
    doubtful: tuple[str, ...] = ()

    def list_further(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield the problems of other checks that are not consequences of what was left out of the manifest."""
        own = self.loaded.source.file if self.loaded else ""
        new = (one for one in problems if one not in self.problems)
        yield from (one for one in new if one.file not in ("", own) or not one.field.startswith(self.doubtful))


def load_valid_parts(path: Path) -> PartialManifest:
    """Read a manifest, and leave out what is not valid, so that the rest can be checked too.

    Unknown keys are renamed if they are probably misspelled, and an example stands in for a required value. Other
    errors take the value, or what it is part of, away.

    Raises:
        InvalidInput: the file is not readable as a manifest.
    """
    source = _read_source(path)
    problems = _correct_sections(source)
    doubtful: set[str] = set()
    renamed: list[Place] = []
    for attempt in range(_ROUNDS):
        try:
            manifest = Manifest.model_validate(source.data)
        except ValidationError as error:
            found = list_errors(error, Manifest)
            new = [details for details in found if not attempt or _is_within(details["loc"], renamed)]
            problems += [_explain(details, source) for details in new]
            doubtful |= {part for details in found for part in _list_doubtful(details, is_first=not attempt)}
            lost = [details for details in found if attempt or not _stand_in(details, source.data)]
            removed = {_place_in_data(details, attempt, source.data) for details in lost}
            if removed & _NEEDED:
                break
            for place in sorted(removed, key=len, reverse=True):
                meant = _find_meant(place, found)
                if meant is not None:
                    source.rename(place, meant)
                    renamed.append((*place[:-1], meant))
                else:
                    _take_out(source.data, place)
        else:
            loaded = LoadedManifest(manifest, source, References(path.parent), path)
            return PartialManifest(problems, loaded, tuple(doubtful))
    return PartialManifest(problems)


def _correct_sections(source: YamlSource) -> list[Problem]:
    """Return a problem for each key that misspells one that evalspec reads, and rename it.

    Other tools may have their own keys. In `spec`, none of AgentSpec's is like one of those that are read. Elsewhere, a
    key is a misspelling only if a required one is missing.
    """
    problems = []
    for model, place in _SECTIONS:
        section = source.data.get(place[0]) if place else source.data
        keys = list_keys(model)
        for key in list(section) if isinstance(section, dict) else ():
            known = keys if model is Spec else [name for name in list_keys(model, required=True) if name not in section]
            meant = None if key in keys or str(key).startswith("x-") else find_close(str(key), known)
            if meant is not None:
                problems.append(source.problem((*place, key), f"unknown key '{key}'", f"did you mean '{meant}'?"))
                source.rename((*place, key), meant)
    return problems


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
    if source.data.keys() == {"spec"}:  # an evaluation alone, as AgentSpec's pages show it
        source.data.update(apiVersion="agentspec.io/v1", kind="AgentSpec", metadata={"name": path.stem})
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
    meant = (find_meant(error, Manifest) for error in errors if error["loc"][-1:] == place[-1:])
    return next(filter(None, meant), None)


def _stand_in(error: ErrorDetails, data: Any) -> bool:
    """Return whether an example can stand in for a value that is missing or not the only one; put it in place."""
    *outer, key = error["loc"]
    field = find_field(Manifest, error["loc"])
    if field is None or key in _UNIQUE or error["type"] not in ("missing", "literal_error") or not field.is_required():
        return False
    section = _reach(data, outer)
    if isinstance(section, dict):
        section[key] = make_example(field)
    return isinstance(section, dict)


def _take_out(data: Any, place: Place) -> None:
    """Remove what is at a place."""
    section = _reach(data, place[:-1])
    if has_step(section, place[-1]):
        section.pop(place[-1])


def _reach(data: Any, place: Sequence[str | int]) -> Any:
    """Return the value at a place, None if there is none."""
    for step in place:
        data = data[step] if has_step(data, step) else None
    return data


def _is_within(location: Place, places: Sequence[Place]) -> bool:
    return any(location[: len(place)] == place for place in places)


def _find_nuls(value: Any, place: Place) -> Iterator[Place]:
    """Yield the place of each value or key that contains a NUL character."""
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and "\0" in step:
                yield (*place, step)
            yield from _find_nuls(item, (*place, step))
    elif isinstance(value, str) and "\0" in value:
        yield place


def _list_doubtful(error: ErrorDetails, *, is_first: bool) -> Iterator[str]:
    """Yield the beginning of the fields whose checks may depend on the value with this error; none for most keys."""
    location = error["loc"]
    is_harmless = is_first and (error["type"] == "extra_forbidden" or _is_within(location, [_GATE]))
    if location[:1] == ("spec",) and not is_harmless:
        yield render_path(_API) if _is_within(location, [_API]) else ""


def _explain(error: ErrorDetails, source: YamlSource) -> Problem:
    return source.problem(_place_in_file(error["loc"], source), *explain_error(error, Manifest))


def _place_in_file(location: tuple[str | int, ...], source: YamlSource) -> Place:
    """Return the place without steps that exist only in the model.

    The model wraps a single threshold in a list and a metric name in an object, and knows two kinds of maxDrop.
    """
    place: Place = ()
    for step in location:
        longer = (*place, step)
        if longer in source.lines or (step == location[-1] and not isinstance(step, int)):
            place = longer
    return place[:-1] if place and place[-1] in ("bound", *DROP_KINDS) else place
