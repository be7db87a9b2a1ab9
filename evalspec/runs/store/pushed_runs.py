"""Runs that were pushed from another machine: which files they have, and the mark that makes them read-only.

`pushed.json` beside the other files of a run is written by the server that received the run.
"""

import json
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from msgspec import DecodeError, Struct, to_builtins
from msgspec.json import decode

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.base.output_files import sync_folder
from evalspec.model.base import built
from evalspec.model.fingerprints import CiBuild
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, digest_file, store_errors, write_atomically
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.locks import LOCK_NAME
from evalspec.runs.store.run_log import BASELINE_NAME, DESCRIPTION_NAME, LOG_NAME, MARK_NAME, REPORT_NAME

REQUIRED_NAMES = (DESCRIPTION_NAME, INPUTS_NAME, LOG_NAME, REPORT_NAME)
PUSHED_NAMES = (*REQUIRED_NAMES, BASELINE_NAME)
"""The files of a run that are pushed: all that have checksums. `agent.log` has none, and is not redacted."""


class PushedFile(Struct, frozen=True):
    """A file of a run. `size`: in bytes. `sha256`: of its content, in hexadecimal digits."""

    name: str
    size: int
    sha256: str


class PushMark(Struct, frozen=True, rename="camel", kw_only=True):
    """Who pushed a run. `content`: the digest of what was pushed. `at`: time in UTC. `ci`: the build that pushed it."""

    content: str
    user: str
    at: str
    ci: CiBuild | None = None


def list_pushed_files(folder: Path) -> tuple[PushedFile, ...]:
    """Return the files of a run that are pushed. They are read whole, for their digests.

    Raises:
        StoreError: A file cannot be read.
    """
    found = []
    for name in PUSHED_NAMES:
        path = folder / name
        with store_errors(path):
            if name in REQUIRED_NAMES or path.exists():
                found.append(PushedFile(name, path.stat().st_size, digest_file(path)))
    return tuple(found)


def digest_content(files: Iterable[PushedFile]) -> str:
    """Return the digest of the content of a run, in any order of its files."""
    named = sorted((file.name, file.size, file.sha256) for file in files)
    return sha256(json.dumps(named).encode()).hexdigest()


def read_push_mark(folder: Path) -> PushMark | None:
    """Return who pushed a run. None: it was not pushed.

    Raises:
        StoreError: The mark cannot be read.
    """
    path = folder / MARK_NAME
    with store_errors(path):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        return decode(content, type=built(PushMark))
    except (DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: not the mark of a pushed run: {error}. restore it or remove the run") from error


def write_push_mark(folder: Path, mark: PushMark) -> None:
    """Write the mark of a pushed run.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(folder / MARK_NAME, [json.dumps(to_builtins(mark), indent=2).encode(), b"\n"])


def adopt_run(staged: Path, runs: Path, files: Iterable[PushedFile], mark: PushMark) -> None:
    """Move the checked files of another machine's run into a folder of runs in one step, as a run that never changes.

    Raises:
        OSError: There is a run with this name, or it cannot be written.
        StoreError: The mark cannot be written.
    """
    write_push_mark(staged, mark)
    (staged / LOCK_NAME).touch(PRIVATE_FILE)
    for file in files:
        with (staged / file.name).open("rb") as stream:
            os.fsync(stream.fileno())
    sync_folder(staged)
    runs.mkdir(PRIVATE_FOLDER, exist_ok=True)
    staged.rename(runs / staged.name)
    sync_folder(runs)


def digest_stored(folder: Path) -> str | None:
    """Return the digest of the content of a stored run, as it was pushed or is. None: it is not finished."""
    mark = read_push_mark(folder)
    if mark is not None:
        return mark.content
    try:
        return digest_content(list_pushed_files(folder))
    except StoreError:
        return None


def refuse_pushed(folder: Path, action: str) -> None:
    """Check that a run was not pushed from another machine. `action`: what cannot be done.

    Raises:
        InvalidInput: It was.
    """
    if (folder / MARK_NAME).exists():
        fix = "do that where the run was evaluated"
        raise InvalidInput(f"run {folder.name} cannot be {action}: it was pushed, so it is read-only", fix)
