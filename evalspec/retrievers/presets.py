"""The wires of known retrieval services, for `search: {preset: …}`: each is part of its system in `formats/`."""

from evalspec.datasets.base import DATASETS, SearchPreset, find_system
from evalspec.manifest.retriever_schema import HttpSearch
from evalspec.registry import near_miss


def apply_preset(search: HttpSearch) -> HttpSearch:
    """Return the search with all parts that it leaves open taken from its preset, if that is known.

    Raises:
        InvalidInput: another package's preset is not valid.
    """
    preset = _find_preset(search)
    if preset is None:
        return search
    said = search.model_dump(by_alias=True, exclude_unset=True)
    with DATASETS.blaming(search.preset or ""):
        return HttpSearch.model_validate({**preset.parts, **said})


def check_preset(search: HttpSearch) -> tuple[str, str] | None:
    """Return the key and the message of what keeps the preset from being applied, if anything does."""
    if search.preset is None:
        return None
    preset = _find_preset(search)
    if preset is None:
        known = [system.name for system in DATASETS if system.preset is not None]
        return "preset", f"unknown preset '{search.preset}'; {near_miss(search.preset, known)}{DATASETS.note_plugins()}"
    if search.path is None and "path" not in preset.parts:
        return "path", f"preset {search.preset} needs {preset.needed_path}"
    return None


def _find_preset(search: HttpSearch) -> SearchPreset | None:
    system = find_system(search.preset) if search.preset else None
    return system.preset if system else None
