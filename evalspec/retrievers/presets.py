"""The wires of known retrieval services, for `search: {preset: …}`: each is part of its system in `formats/`."""

from evalspec.datasets.base import DATASETS, SearchPreset
from evalspec.manifest.retriever_schema import HttpRetriever, HttpSearch
from evalspec.registry import near_miss


def apply_preset(search: HttpSearch) -> HttpSearch:
    """The search with all parts that it leaves open taken from its preset, if that is known."""
    preset = _find_preset(search)
    if preset is None:
        return search
    said = search.model_dump(by_alias=True, exclude_unset=True)
    return HttpSearch.model_validate({**preset.parts, **said})


def find_preset_problems(options: HttpRetriever) -> list[tuple[tuple[str, ...], str]]:
    """What keeps presets from being applied, each problem with its place below `http`."""
    calls = {"search": options.search, "rerank": options.rerank}
    found = {kind: _find_problem(search) for kind, search in calls.items() if search is not None}
    return [((kind, problem[0]), problem[1]) for kind, problem in found.items() if problem is not None]


def _find_problem(search: HttpSearch) -> tuple[str, str] | None:
    if search.preset is None:
        return None
    preset = _find_preset(search)
    if preset is None:
        known = [known.name for known in DATASETS if known.preset is not None]
        return "preset", f"unknown preset '{search.preset}'; {near_miss(search.preset, known)}{DATASETS.note_plugins()}"
    if search.path is None and "path" not in preset.parts:
        return "path", f"preset {search.preset} needs {preset.needed_path}"
    return None


def _find_preset(search: HttpSearch) -> SearchPreset | None:
    known = DATASETS.find(search.preset) if search.preset else None
    return known.preset if known is not None and known.name == search.preset else None
