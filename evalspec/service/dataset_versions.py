"""Versions of datasets that came over the network: `NAME/VERSION`, a file or a folder. They are numbered from 1."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from evalspec.runs.store.files import store_errors
from evalspec.service.problems import ApiProblem, not_found

_LONGEST_NAME = 200
_VERSION = re.compile(r"[1-9]\d{0,8}")


def encode_name(name: str) -> str:
    """Return the folder of a dataset: its name, percent-encoded where it is not safe in a path.

    Raises:
        ApiProblem: 422: a folder cannot have this name.
    """
    fault = None
    if not name or not name.isprintable() or name != name.strip():
        fault = "a name has no control characters, and does not begin or end with a space"
    elif "/" in name or name in (".", ".."):
        fault = "a name has no /, and is not . or .., which a url cannot have"
    encoded = "" if fault else quote(name, safe=" ")
    if len(encoded) > _LONGEST_NAME:
        fault = f"a name has at most {_LONGEST_NAME} bytes, percent-encoded"
    if fault:
        errors = [{"field": "dataset_name", "message": fault}]
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"dataset_name: {fault}", errors=errors)
    return encoded.replace(".", "%2E", 1) if encoded.startswith(".") else encoded


def read_versions(folder: Path, suffix: str = "") -> list[int]:
    """Return the versions in the folder of a dataset, oldest first. `suffix`: of their files.

    Raises:
        StoreError: The folder cannot be read.
    """
    with store_errors(folder):
        names = [path.name for path in folder.iterdir() if path.name.endswith(suffix)] if folder.is_dir() else []
    stems = (name.removesuffix(suffix) for name in names)
    return sorted(int(stem) for stem in stems if _VERSION.fullmatch(stem))


def list_newest(root: Path, suffix: str = "") -> list[tuple[Path, int]]:
    """Return the folder of each dataset, by name, with its newest version.

    Raises:
        StoreError: A folder cannot be read.
    """
    with store_errors(root):
        folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    found = ((folder, read_versions(folder, suffix)) for folder in folders)
    return [(folder, versions[-1]) for folder, versions in found if versions]


def choose_version(name: str, versions: Sequence[int], wanted: int | None) -> int:
    """Return a version of a dataset, by default the newest. `versions`: oldest first.

    Raises:
        ApiProblem: 404: There is no such version.
    """
    if wanted is not None and wanted not in versions:
        raise not_found(f"dataset '{name[:100]}' has no version {wanted}", f"it has 1 to {versions[-1]}")
    return wanted or versions[-1]
