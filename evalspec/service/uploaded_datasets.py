"""Files of samples that are uploaded: each version is `.evalspec/uploads/NAME/VERSION/data.SUFFIX`, and never changes.

A file waits in a staging folder with a random name until its author has seen the preview. `serving.py` deletes what
nobody confirms.
"""

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from filecmp import cmp
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from evalspec.base.errors import StoreError
from evalspec.base.jsonl import GZIP_MAGIC
from evalspec.base.output_files import replace_file, sync_folder
from evalspec.base.registry import near_miss
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, store_errors
from evalspec.runs.store.run_store import prepare_root
from evalspec.service.dataset_versions import choose_version, encode_name, list_newest, read_versions
from evalspec.service.kept_json import decode_kept, encode_kept
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.settings import Project
from evalspec.service.stores import read_file_clock

UPLOADS_NAME = "uploads"
STAGING_NAME = "staging"
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv")
MOST_BYTES = 8 * 1_048_576
STAGING_SECONDS = 3600.0
"""How long a file waits to be confirmed."""

_MOST_WAITING = 5
"""How many files of one user wait. Older ones are deleted."""
_ABOUT_NAME = "about.json"
_DATA_NAME = "data"
_CHUNK = 1_048_576
_TOKEN = re.compile(r"[0-9a-f]{32}")
_ALREADY = "it was stored or discarded already, or has expired. upload the file again"


class StagedFile(Struct, frozen=True):
    """A file that waits to be confirmed. `name`: the proposed name of the dataset. `user`: who may see it.

    `found`: what was found in it, so that the preview reads the file only once.
    """

    token: str
    name: str
    user: str
    suffix: str
    found: Any

    @property
    def data_name(self) -> str:
        """The name of the file in its folder."""
        return f"{_DATA_NAME}{self.suffix}"


class UploadedDataset(Struct, frozen=True):
    """One version of an uploaded dataset. `path`: its file. `uploaded_at`: seconds since 1970. `size`: in bytes."""

    name: str
    version: int
    path: Path
    uploaded_at: float
    size: int

    @property
    def moment(self) -> datetime:
        """When it was uploaded."""
        return datetime.fromtimestamp(self.uploaded_at, UTC)


def stage_file(
    project: Project, stream: BinaryIO, file_name: str, name: str, user: str, look_at: Callable[[Path], Any]
) -> StagedFile:
    """Keep a file until its author has seen the preview. Only the suffix of its own name is used.

    `look_at`: returns what is found in the file. One that cannot be looked at is deleted.

    Raises:
        ApiProblem: 413: It is too large. 415: It is packed, or has no known suffix. 422: it is empty, or the dataset
            cannot have this name.
        StoreError: It cannot be written.
    """
    suffix = next((one for one in SUFFIXES if file_name.lower().endswith(one)), None)
    if suffix is None:
        detail = f"this is no file of samples; choose one that ends with {', '.join(SUFFIXES)}"
        raise ApiProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    encode_name(name)
    token = secrets.token_hex(16)
    folder = _staging(project) / token
    path = folder / f"{_DATA_NAME}{suffix}"
    prepare_root(project.root)
    with store_errors(folder):
        folder.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        folder.mkdir(PRIVATE_FOLDER)
    try:
        with store_errors(folder):
            replace_file(path, _bounded(stream), mode=PRIVATE_FILE)
        staged = StagedFile(token, name, user, suffix, look_at(path))
        with store_errors(folder):
            replace_file(folder / _ABOUT_NAME, [encode_kept(staged)], mode=PRIVATE_FILE)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for older in _list_waiting(project, user)[_MOST_WAITING:]:
        discard_staged(project, older)
    return staged


def _list_waiting(project: Project, user: str) -> list[str]:
    """Return the tokens of the waiting files of a user, newest first."""
    found = []
    for folder in _staging(project).iterdir():
        with suppress(ApiProblem, OSError):  # another user's, or confirmed at this moment
            find_staged(project, folder.name, user)
            found.append((folder.stat().st_mtime_ns, folder.name))
    return [token for _, token in sorted(found, reverse=True)]


def _bounded(stream: BinaryIO) -> Iterator[bytes]:
    size = 0
    while chunk := stream.read(_CHUNK):
        if not size and chunk.startswith(GZIP_MAGIC):
            raise ApiProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "packed files are not accepted; unpack it first")
        size += len(chunk)
        if size > MOST_BYTES:
            detail = f"the file is larger than {MOST_BYTES:,} bytes; copy it into the folder of the project instead"
            raise ApiProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
        yield chunk
    if not size:
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "the file is empty; choose one with samples")


def find_staged(project: Project, token: str, user: str) -> tuple[StagedFile, Path]:
    """Return a waiting file of a user, and its path.

    Raises:
        ApiProblem: 404: There is none.
    """
    if not _TOKEN.fullmatch(token):
        raise not_found("there is no such upload")
    folder = _staging(project) / token
    try:
        staged = decode_kept((folder / _ABOUT_NAME).read_bytes(), StagedFile)
    except (OSError, ValueError):
        raise not_found("there is no such upload", _ALREADY) from None
    path = folder / staged.data_name
    if staged.user != user or staged.suffix not in SUFFIXES or not path.is_file():
        raise not_found("there is no such upload", _ALREADY)
    return staged, path


def discard_staged(project: Project, token: str) -> None:
    """Delete a waiting file, which `find_staged` has found."""
    shutil.rmtree(_staging(project) / token, ignore_errors=True)


def delete_expired(project: Project) -> None:
    """Delete the files that have waited too long.

    Raises:
        StoreError: The folder cannot be read.
    """
    root = _staging(project)
    if not root.is_dir():
        return
    with store_errors(root):
        folders, oldest = list(root.iterdir()), read_file_clock(root) - STAGING_SECONDS
    for folder in folders:
        with suppress(OSError):  # it is confirmed or discarded at this moment
            if folder.lstat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def store_upload(project: Project, staged: StagedFile, name: str) -> UploadedDataset:
    """Make a waiting file the next version of a dataset, unless it equals the newest one. Return the version.

    Raises:
        ApiProblem: 404: It was stored already. 422: the dataset cannot have this name.
        StoreError: It cannot be written.
    """
    root, waiting = project.root / UPLOADS_NAME / encode_name(name), _staging(project) / staged.token
    with store_errors(root):
        root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        while True:
            newest = max(read_versions(root), default=0)
            known = _describe(name, root, newest) if newest else None
            if known is not None and _is_equal(known.path, waiting / staged.data_name):
                discard_staged(project, staged.token)
                return known
            try:
                # claims the version: no folder is ever replaced
                os.rename(waiting, root / str(newest + 1))  # noqa: PTH104 - Path.rename is the same
                break
            except FileNotFoundError:
                raise not_found("there is no such upload", _ALREADY) from None
            except OSError:
                if newest + 1 not in read_versions(root):
                    raise
        (root / str(newest + 1) / _ABOUT_NAME).unlink(missing_ok=True)
        sync_folder(root)
    return _describe(name, root, newest + 1)


def _is_equal(one: Path, other: Path) -> bool:
    try:
        return one.suffix == other.suffix and cmp(one, other, shallow=False)
    except OSError:
        return False


def list_uploads(project: Project) -> list[UploadedDataset]:
    """Return the newest version of each uploaded dataset, by name.

    Raises:
        StoreError: A folder cannot be read.
    """
    from urllib.parse import unquote

    root = project.root / UPLOADS_NAME
    with store_errors(root):
        return [_describe(unquote(folder.name), folder, version) for folder, version in list_newest(root)]


def list_upload_versions(project: Project, name: str) -> list[int]:
    """Return the versions of an uploaded dataset, oldest first. Empty if there is none of this name."""
    return read_versions(project.root / UPLOADS_NAME / encode_name(name))


def find_upload(project: Project, name: str, version: int | None = None) -> UploadedDataset:
    """Return a version of an uploaded dataset, by default the newest.

    Raises:
        ApiProblem: 404: There is no such dataset or version.
        StoreError: It cannot be read.
    """
    versions = list_upload_versions(project, name)
    if not versions:
        known = [one.name for one in list_uploads(project)]
        raise not_found(f"no dataset '{name[:100]}' was uploaded", near_miss(name, known) if known else "upload one")
    chosen = choose_version(name, versions, version)
    return _describe(name, project.root / UPLOADS_NAME / encode_name(name), chosen)


def _describe(name: str, root: Path, version: int) -> UploadedDataset:
    """Return a version.

    Raises:
        StoreError: Its file is gone.
    """
    folder = root / str(version)
    for suffix in SUFFIXES:
        path = folder / f"{_DATA_NAME}{suffix}"
        if path.is_file():
            known = path.stat()
            return UploadedDataset(name, version, path, known.st_mtime, known.st_size)
    raise StoreError(f"{folder}: the file of the dataset is gone. restore or remove the folder")


def _staging(project: Project) -> Path:
    return project.root / STAGING_NAME
