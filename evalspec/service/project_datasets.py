"""The datasets of a project: those that its manifests name, those that were posted, and files that were uploaded."""

import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import Problem
from evalspec.base.registry import near_miss
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.loader import LoadedManifest, load_manifest
from evalspec.inputs.manifest.references import References, UnresolvedReference
from evalspec.runs.planning.datasets import make_source
from evalspec.service.posted_datasets import DATASET_FORMAT, dataset_path, find_summary
from evalspec.service.problems import not_found
from evalspec.service.run_jobs import resolve_manifest
from evalspec.service.settings import Project
from evalspec.service.uploaded_datasets import find_upload

_SUFFIXES = (".yaml", ".yml")
_MARK = b"agentspec.io"
_HEAD_BYTES = 4096
_MOST_MANIFESTS = 50
_MOST_LOOKED_AT = 1000
_MOST_FILES = 10_000


class DatasetPlace(Struct, frozen=True, omit_defaults=True):
    """One dataset. `manifest`: the one that names it, as a path in the project; None: it was posted or uploaded.

    `version`: of a posted or uploaded dataset. `is_posted`: whether retrievers can be evaluated over it.
    """

    name: str
    manifest: str | None = None
    version: int | None = None
    is_posted: bool = field(default=False, name="posted")


class FoundDataset(Struct, frozen=True):
    """A dataset with its files. `loaded`, `config`: of the manifest that names it. `size`: in bytes.

    `signature`: of names, sizes and times of its files and of the manifest. `problems`: why it is not read.
    """

    place: DatasetPlace
    source: Source | None
    format: str | None
    signature: str
    size: int
    loaded: LoadedManifest | None = None
    config: DatasetConfig | None = None
    problems: tuple[Problem, ...] = ()


def list_manifests(project: Project) -> list[str]:
    """Return the manifests in the folder of a project and the folders in it, as paths in the project."""
    files = islice(_walk(project.folder), _MOST_LOOKED_AT)
    found = [path for path in files if path.suffix in _SUFFIXES and _is_manifest(path, project)]
    return [str(path.relative_to(project.folder)) for path in found[:_MOST_MANIFESTS]]


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, then those of the folders in it. Hidden ones are left out."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    yield from (entry for entry in entries if entry.is_file())
    for inner in (entry for entry in entries if entry.is_dir() and not entry.is_symlink()):
        try:
            yield from sorted(one for one in inner.iterdir() if one.is_file() and not one.name.startswith("."))
        except OSError:  # such a folder has no manifest that the server could read
            continue


def _is_manifest(path: Path, project: Project) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        return _MARK in head and path.resolve().is_relative_to(project.folder)
    except OSError:
        return False


def load_project_manifest(project: Project, name: str) -> LoadedManifest:
    """Return a manifest of a project.

    Raises:
        InvalidInput: It is not in the project, or is invalid.
    """
    loaded = load_manifest(project.folder / resolve_manifest(project.folder, name))
    return replace(loaded, references=References(loaded.path.parent, project.find_variables(os.environ)))


def find_dataset(project: Project, place: DatasetPlace) -> FoundDataset:
    """Return a dataset with its files. Nothing of them is read.

    Raises:
        ApiProblem: 404: There is none.
        InvalidInput: The manifest is invalid.
        StoreError: A posted or uploaded file cannot be read.
    """
    if place.manifest is not None:
        return find_in_manifest(project, load_project_manifest(project, place.manifest), place)
    if place.is_posted:
        version = find_summary(project, place.name, place.version).version
        path, format = project.folder / dataset_path(project, place.name, version), DATASET_FORMAT
    else:
        upload = find_upload(project, place.name, place.version)
        version, path, format = upload.version, upload.path, None
    shown = DatasetPlace(place.name, None, version, place.is_posted)
    signature, size = _sign([path])
    return FoundDataset(
        shown, Source(path, str(path.relative_to(project.folder)), takes_files=False), format, signature, size
    )


def find_in_manifest(project: Project, loaded: LoadedManifest, place: DatasetPlace) -> FoundDataset:
    """Return a dataset of a manifest with its files. One whose files are not in the project has a problem.

    Raises:
        ApiProblem: 404: The manifest names no such dataset.
    """
    configs = {config.name: config for config in loaded.manifest.spec.evaluation.datasets}
    if place.name not in configs:
        fix = near_miss(place.name, configs) if configs else "it names none"
        raise not_found(f"{place.manifest} names no dataset '{place.name[:100]}'", fix)
    config = configs[place.name]
    try:
        path, corpus = loaded.references.path(config.path), config.corpus and loaded.references.path(config.corpus)
        files = [one for one in (path, corpus) if one]
        problems = tuple(problem for one in files if (problem := _explain_outside(one, project, place)))
    except UnresolvedReference as error:
        problems = (error.at(place.manifest or "", None, "path"),)
        return FoundDataset(place, None, config.format, "", 0, loaded, config, problems)
    if problems:
        return FoundDataset(place, None, config.format, "", 0, loaded, config, problems)
    signature, size = _sign([loaded.path, *files])
    source = make_source(config, path, corpus or None)
    return FoundDataset(place, source, config.format, signature, size, loaded, config)


def _explain_outside(path: Path, project: Project, place: DatasetPlace) -> Problem | None:
    """Return the problem of a file or folder that is not in the project, or has links that leave it."""
    for file in (path, *_list_links(path)):
        try:
            is_inside = file.resolve().is_relative_to(project.folder)
        except (OSError, RuntimeError):
            is_inside = False
        if not is_inside:
            message = f"the files of '{place.name}' are outside the project's folder, so the server does not read them"
            return Problem(message, "copy them into the project", place.manifest or "", field="path")
    return None


def _list_links(path: Path) -> list[Path]:
    found = islice(path.rglob("*"), _MOST_FILES) if path.is_dir() else ()
    return [file for file in found if file.is_symlink()]


def _sign(paths: list[Path]) -> tuple[str, int]:
    """Return a hash of names, sizes and times of files and of the files in folders, and their size in bytes."""
    digest, size = sha256(), 0
    for path in paths:
        for file in (path, *(islice(sorted(path.rglob("*")), _MOST_FILES) if path.is_dir() else ())):
            try:
                known = file.stat()
            except OSError:
                continue  # whoever reads it says why it cannot be read
            digest.update(
                f"{file}:{known.st_size}:{known.st_mtime_ns}:{known.st_ino}\n".encode(errors="surrogateescape")
            )
            size += known.st_size if file.is_file() else 0
    return digest.hexdigest(), size
