"""Runs that are being pushed: `.evalspec/pushes/PUSH/`, which no list of runs sees.

A push has the files of one run, which arrive in chunks. The id of a push is the id of the run with the digest of its
content, so a push that was interrupted continues where it was, and different content is another push. A complete push
is checked in a process of its own and becomes a run in one step.
"""

import math
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from evalspec.base.errors import StoreError
from evalspec.model.base import built
from evalspec.model.fingerprints import CiBuild
from evalspec.model.verdicts import FUTURE_SECONDS
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, digest_file, store_errors, write_atomically
from evalspec.runs.store.locks import LOCK_NAME
from evalspec.runs.store.pushed_runs import (
    PushedFile,
    PushMark,
    adopt_run,
    digest_content,
    digest_stored,
    read_push_mark,
)
from evalspec.runs.store.run_store import is_run_name, prepare_root, read_timestamp
from evalspec.service.child_process import run_child
from evalspec.service.problems import ApiProblem, busy, conflict, not_found
from evalspec.service.settings import Project
from evalspec.service.stores import read_file_clock, require_store

PUSHES_NAME = "pushes"
IDLE_SECONDS = 86_400.0
"""How long a push may rest before it is removed."""

_MOST_OPEN = 16
_REPLACEABLE_SECONDS = 180.0
"""How long a push has to rest before a new one may take its place. A request with a chunk ends within a minute."""
_LONGEST_WAIT = 60.0
_LONGEST_RUN_ID = 64
_CHECK_SECONDS = 300
_LOCK_SECONDS = 2.0
_STATE_NAME = "push.json"
_RESULT_NAME = "faults.json"
_PUSH_ID = re.compile(r"([\w.-]{1,64})\.([0-9a-f]{64})", re.ASCII)
_CHECKING = threading.Lock()
"""One check at a time, because the check of a large run needs much memory."""


class Push(msgspec.Struct, frozen=True):
    """A push in progress: the files that were announced, and the CI build that pushes."""

    run_id: str
    files: tuple[PushedFile, ...]
    ci: CiBuild | None = None

    @property
    def id(self) -> str:
        """The id of the push."""
        return f"{self.run_id}.{digest_content(self.files)}"


class Received(msgspec.Struct, frozen=True):
    """How many bytes of a file have arrived."""

    name: str
    size: int
    received: int


class PushState(msgspec.Struct, frozen=True):
    """A push. `is_stored`: the run is in the store, and nothing is missing."""

    push_id: str
    run_id: str
    is_stored: bool
    files: tuple[Received, ...] = ()


def open_push(project: Project, push: Push, most_bytes: int, now: float) -> PushState:
    """Begin a push, or return what has arrived of it. `most_bytes`: the largest run. `now`: by the database.

    Raises:
        ApiProblem: 409: another run has this id. 413: the run is too large. 422: the id is not that of a run, or is of
            the future. 429: too many pushes are in progress.
        StoreError: The folder cannot be written.
    """
    _check_run_id(push.run_id, now)
    size = sum(file.size for file in push.files)
    if size > most_bytes:
        detail = f"the run has {size:,} bytes; the limit of this server is {most_bytes:,} (serve --max-push)"
        raise ApiProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    require_store(project)
    if _is_stored(project, push):
        return PushState(push.id, push.run_id, is_stored=True)
    remove_idle_pushes(project, IDLE_SECONDS)
    folder = _folder_of(project, push.id)
    with store_errors(folder):
        try:
            _begin(project, folder, push)
        except FileNotFoundError:  # a push of the same run ended meanwhile, and took the folder with it
            raise _busy() from None
    return _describe(folder, push)


def _begin(project: Project, folder: Path, push: Push) -> None:
    if not folder.is_dir():
        _make_room(folder.parent)
    prepare_root(project.root)
    for place in (folder.parent, folder, folder / push.run_id):
        place.mkdir(PRIVATE_FOLDER, exist_ok=True)
    for file in push.files:
        (folder / push.run_id / file.name).touch(PRIVATE_FILE)
    os.utime(folder)  # the push is not idle
    if not (folder / _STATE_NAME).exists():
        write_atomically(folder / _STATE_NAME, [msgspec.json.encode(push)])


def _check_run_id(run_id: str, now: float) -> None:
    moment = read_timestamp(Path(run_id)) if is_run_name(run_id) and len(run_id) <= _LONGEST_RUN_ID else None
    fault = None
    if moment is None:
        fault = "not the id of a run"
    elif moment.timestamp() > now + FUTURE_SECONDS:  # the ids of later runs have to follow
        fault = "a run of the future; set the clock of the machine that evaluated it"
    if fault is not None:
        errors = [{"field": "run_id", "message": fault}]
        raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"run_id: {fault}", errors=errors)


def _is_stored(project: Project, push: Push) -> bool:
    """Return whether the store has this run with this content.

    Raises:
        ApiProblem: 409: The store has different content under this id.
    """
    folder = project.store.runs / push.run_id
    if not os.path.lexists(folder):
        return False
    if digest_stored(folder) != digest_content(push.files):
        detail = f"run {push.run_id} is stored with different content; a stored run never changes. push a new run"
        raise conflict(detail)
    return True


def _make_room(root: Path) -> None:
    """Remove the pushes that rest longest, as those of a CI job that died, until there is room for another.

    Raises:
        ApiProblem: 429: Too many pushes are in progress.
    """
    found = sorted(_list_by_rest(root), reverse=True)
    spare = len(found) - _MOST_OPEN + 1
    for rest, folder in found:
        if spare > 0 and rest >= _REPLACEABLE_SECONDS:
            spare -= _remove_unless_held(folder)
    if spare > 0:
        wait = min(max(_REPLACEABLE_SECONDS - found[0][0], 1.0), _LONGEST_WAIT)
        limit = f"{len(found)} pushes to this namespace are in progress, which is the limit"
        detail = f"{limit}; one that gets no bytes for {_REPLACEABLE_SECONDS:.0f} s makes room. try again soon"
        raise ApiProblem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(math.ceil(wait))})


def _list_by_rest(root: Path) -> Iterator[tuple[float, Path]]:
    """Yield the pushes with the number of seconds since bytes were added."""
    now = read_file_clock(root) if root.is_dir() else 0.0
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        with suppress(FileNotFoundError):  # committed meanwhile
            yield now - folder.stat().st_mtime, folder


def _remove_unless_held(folder: Path) -> bool:
    """Remove a push and return True, unless a request about it is in progress, such as its check."""
    lock = FileLock(folder / LOCK_NAME, timeout=0)
    try:
        with lock, suppress(FileNotFoundError):  # committed meanwhile
            shutil.rmtree(folder)
    except Timeout:
        return False
    return True


def append_chunk(project: Project, push_id: str, name: str, offset: int, content: bytes) -> PushState:
    """Append a chunk to a file of a push, unless the file does not end at `offset`: then nothing changes.

    Raises:
        ApiProblem: 404: There is no such push or file. 413: the file would be larger than announced.
        StoreError: The file cannot be written.
    """
    with _holding(project, push_id) as (folder, push):
        file = next((one for one in push.files if one.name == name), None)
        if file is None:
            raise not_found(f"the push has no file '{name[:100]}'")
        path = folder / push.run_id / file.name
        with store_errors(path):
            if path.stat().st_size == offset:
                if offset + len(content) > file.size:
                    detail = f"{file.name} would be larger than its {file.size:,} bytes"
                    raise ApiProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
                _append(path, content, offset)
        return _describe(folder, push)


def _append(path: Path, content: bytes, offset: int) -> None:
    """Append bytes. If the disk is full, the file is as it was."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        try:
            stream.write(content)
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.ftruncate(stream.fileno(), offset)
            raise
        finally:
            with suppress(OSError):
                os.utime(path.parent.parent)  # the push is not idle


def commit_push(project: Project, push_id: str, user: str) -> tuple[PushState, bool]:
    """Make a complete push a run of the store. Return it, and whether the run is new.

    Raises:
        ApiProblem: 404: There is no such push. 409: bytes are missing, or another run has its id. 422: the run is not
            finished, or damaged; the push is removed. 503: another push is being checked.
        StoreError: The run cannot be stored.
    """
    found = _PUSH_ID.fullmatch(push_id)
    if found and _is_committed(project, *found.groups()):
        _remove_unless_held(_folder_of(project, push_id))
        return PushState(push_id, found[1], is_stored=True), False
    with _holding(project, push_id) as (folder, push):
        missing = [one.name for one in _describe(folder, push).files if one.received != one.size]
        if missing:
            raise conflict(f"the push is not complete: {', '.join(missing)}")
        is_new = not _is_stored(project, push)
        if is_new:
            faults = _list_faults(folder / push.run_id, push)
            if faults:
                shutil.rmtree(folder)
                detail = f"the run is refused: {faults[0]}. check it with `evalspec runs verify {push.run_id}`"
                raise ApiProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=[{"message": one} for one in faults])
            is_new = _store(project, folder / push.run_id, push, user)
        shutil.rmtree(folder, ignore_errors=True)  # the run is stored; what is left is removed when it is idle
    return PushState(push_id, push.run_id, is_stored=True), is_new


def _is_committed(project: Project, run_id: str, content: str) -> bool:
    """Return whether a push was committed before: its answer may have been lost."""
    if not is_run_name(run_id):
        return False
    mark = read_push_mark(project.store.runs / run_id)
    return mark is not None and mark.content == content


def _list_faults(run: Path, push: Push) -> list[str]:
    """Return why a pushed run cannot be stored. Its content is checked in another process, which may use it up."""
    with store_errors(run):
        for file in push.files:
            if digest_file(run / file.name) != file.sha256:
                return [f"{file.name}: the checksum does not match"]
    if not _CHECKING.acquire(blocking=False):
        raise busy("another push is being checked; try again soon")
    try:
        result = run.parent / _RESULT_NAME
        result.unlink(missing_ok=True)
        done = run_child("evalspec.service.push_check", str(run), str(result), timeout=_CHECK_SECONDS)
    except subprocess.TimeoutExpired:
        return ["its check takes too long"]
    finally:
        _CHECKING.release()
    try:
        faults = msgspec.json.decode(result.read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return [f"its check failed (exit code {done.returncode})"]
    return [fault.replace(f"{run}/", "").replace(str(run), push.run_id) for fault in faults]


def _store(project: Project, run: Path, push: Push, user: str) -> bool:
    """Move a checked run into the store in one step. Return False if another push of the same content was faster."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    mark = PushMark(content=digest_content(push.files), user=user, at=at, ci=push.ci)
    runs = project.store.runs
    with store_errors(runs):
        try:
            adopt_run(run, runs, push.files, mark)
        except OSError:
            if os.path.lexists(runs / push.run_id) and _is_stored(project, push):
                return False
            raise
    return True


@contextmanager
def _holding(project: Project, push_id: str) -> Iterator[tuple[Path, Push]]:
    """Yield the folder of a push, and the push. Requests about the same push wait for each other.

    Raises:
        ApiProblem: 404: There is no such push.
    """
    folder = _folder_of(project, push_id)
    if not _PUSH_ID.fullmatch(push_id) or not folder.is_dir():
        raise _gone()
    with store_errors(folder), _locked(folder):
        try:
            content = (folder / _STATE_NAME).read_bytes()
        except FileNotFoundError:  # it ended meanwhile, and acquiring the lock has made its folder again
            with suppress(OSError):
                (folder / LOCK_NAME).unlink()
                folder.rmdir()
            raise _gone() from None
        try:
            push = msgspec.json.decode(content, type=built(Push))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{folder / _STATE_NAME}: not a push: {error}. remove the folder") from error
        yield folder, push


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a push. A request waits for a moment only, because a check may take minutes."""
    lock = FileLock(folder / LOCK_NAME, timeout=_LOCK_SECONDS)
    try:
        held = lock.acquire()
    except Timeout:
        raise _busy() from None
    except FileNotFoundError:  # the push ended meanwhile
        raise _gone() from None
    with held:
        yield


def _busy() -> ApiProblem:
    return busy("another request about this push is in progress; try again soon")


def _gone() -> ApiProblem:
    return not_found("there is no such push", "begin again: POST /v1/pushes")


def _folder_of(project: Project, push_id: str) -> Path:
    return project.root / PUSHES_NAME / push_id


def _describe(folder: Path, push: Push) -> PushState:
    with store_errors(folder):
        sizes = [(folder / push.run_id / file.name).stat().st_size for file in push.files]
    files = tuple(Received(file.name, file.size, size) for file, size in zip(push.files, sizes, strict=True))
    return PushState(push.id, push.run_id, is_stored=False, files=files)


def remove_idle_pushes(project: Project, seconds: float, *, dry_run: bool = False) -> Sequence[str]:
    """Remove pushes to which nothing was added for so many seconds, and return their ids.

    A push that a request holds, such as one that is being checked, is left.

    Raises:
        StoreError: A folder cannot be removed.
    """
    root = project.root / PUSHES_NAME
    with store_errors(root):
        idle = [folder for rest, folder in _list_by_rest(root) if rest >= seconds]
        return [folder.name for folder in idle if dry_run or _remove_unless_held(folder)]


def list_pushes(project: Project) -> Sequence[str]:
    """Return the ids of the pushes in progress.

    Raises:
        StoreError: The folder cannot be read.
    """
    root = project.root / PUSHES_NAME
    with store_errors(root):
        return sorted(folder.name for folder in root.iterdir()) if root.is_dir() else []
