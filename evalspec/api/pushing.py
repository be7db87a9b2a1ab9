"""Push stored runs to a server of evalspec, and pull runs: `evalspec runs push`, `runs pull` and `evaluate --push`.

The files are sent in chunks as they are stored. A push that was interrupted continues where it was, and a run that the
other side has already is not sent again.
"""

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct, to_builtins
from msgspec.json import encode

from evalspec.api.server import REFUSED, PushServer, Say, ServerCalls, open_server
from evalspec.base.errors import InvalidInput, ServiceError, StoreError
from evalspec.base.foreign_text import inert
from evalspec.model.fingerprints import CiBuild
from evalspec.model.shards import refuse_shard
from evalspec.runs.runner.ci_variables import detect_ci_build
from evalspec.runs.store.damage import list_damage, refuse_damage
from evalspec.runs.store.files import PRIVATE_FOLDER, digest_file, store_errors
from evalspec.runs.store.locks import is_being_written
from evalspec.runs.store.pushed_runs import (
    PUSHED_NAMES,
    REQUIRED_NAMES,
    PushedFile,
    PushMark,
    adopt_run,
    digest_content,
    digest_stored,
    list_pushed_files,
)
from evalspec.runs.store.run_store import RunStore, is_run_name, prepare_root
from evalspec.runs.store.stored_run import open_run

_COMMIT_SECONDS = 900.0
"""The server checks the whole run."""
_STAGED = "pulls"
_PAGE = 200
_PAGE_BYTES = 64 * 1024**2
_MOST_BEGINNINGS = 3
_MOST_REFUSALS = 3
"""How often the server may refuse a chunk at the offset that it asked for."""


class PushedRun(Struct, frozen=True):
    """A run that a server has. `is_new`: it was not there before. `page`: its address."""

    run_id: str
    page: str
    is_new: bool


class _Received(Struct):
    name: str
    size: int
    received: int


class _State(Struct):
    push_id: str
    is_stored: bool
    files: list[_Received]
    chunk_bytes: int


def check_pushable(folder: Path) -> None:
    """Check that a run is finished and intact.

    Raises:
        InvalidInput: The run is not finished, or is being written.
        StoreError: The run is damaged.
    """
    stored = open_run(folder)
    refuse_shard(stored.id, stored.fingerprint, "pushed")
    if is_being_written(folder):
        raise InvalidInput(f"run {stored.id} is being written", "wait for its end, then push it")
    if not stored.report.is_file() or stored.read_index().report is None:
        fix = f"resume it: evalspec evaluate … --resume {stored.id}"
        raise InvalidInput(f"run {stored.id} is not finished", fix)
    refuse_damage(stored)


async def push_run(folder: Path, server: PushServer, say: Say) -> PushedRun:
    """Push a run, and return where the server shows it. `say`: is called with a line about each retry.

    Raises:
        InvalidInput: The run is not finished, or is being written, or the token does not permit to push.
        StoreError: The run is damaged.
        Unmeasurable: The server refused the run, or could not be reached in several attempts.
    """
    check_pushable(folder)
    files = list_pushed_files(folder)
    async with open_server(server, say) as calls:
        try:
            is_new = await _Pushing(calls).push(folder, files)
        except ServiceError as error:
            raise server.explain(f"run {folder.name} was not pushed", error) from error
    return PushedRun(folder.name, f"{server.url}/runs/{quote(folder.name)}", is_new)


def _announce(run_id: str, files: tuple[PushedFile, ...]) -> dict[str, Any]:
    ci = detect_ci_build(os.environ)
    named = {} if ci is None else {"ci": {name: getattr(ci, name) for name in ci.__struct_fields__}}
    return {"run_id": run_id, "files": to_builtins(files), **named}


def _refuse_other_files(asked: Sequence[_Received], announced: Sequence[PushedFile]) -> None:
    """Check that a server asks for the announced files: it could name any file of this machine.

    Raises:
        ServiceError: It asks for others.
    """
    if sorted((file.name, file.size) for file in asked) != sorted((file.name, file.size) for file in announced):
        raise ServiceError("the server asks for other files than those of the run; check --to")


class _Pushing:
    """The requests of one push."""

    def __init__(self, calls: ServerCalls) -> None:
        self._calls = calls

    async def push(self, folder: Path, files: tuple[PushedFile, ...]) -> bool:
        """Push a run unless the server has it, and return whether it was new.

        A push can vanish: another one of the same run was faster, or a server that was full made room.
        """
        for left in reversed(range(_MOST_BEGINNINGS)):
            state = await self._calls.request("POST", "/v1/pushes", _State, encode(_announce(folder.name, files)))
            if state.is_stored:
                return False
            _refuse_other_files(state.files, files)
            try:
                await self._send_files(folder, state)
                await self._commit(state.push_id)
                break
            except ServiceError as error:
                if error.status != HTTPStatus.NOT_FOUND or not left:
                    raise
        return True

    async def _send_files(self, folder: Path, state: _State) -> None:
        """Send what the server does not have yet."""
        for file in state.files:
            with (folder / file.name).open("rb") as content:
                refusals = 0
                while file.received < file.size:
                    content.seek(file.received)
                    chunk = content.read(min(max(state.chunk_bytes, 0), file.size - file.received))
                    received = await self._send_chunk(state.push_id, file, chunk)
                    refusals = 0 if received > file.received else refusals + 1
                    if not chunk or refusals > _MOST_REFUSALS:
                        raise ServiceError(f"{file.name} changed while it was pushed, or another push sends it too")
                    file.received = received

    async def _commit(self, push_id: str) -> None:
        """Have the server store what was sent.

        Raises:
            ServiceError: It did not.
        """
        state = await self._calls.request("POST", f"/v1/pushes/{push_id}/commit", _State, seconds=_COMMIT_SECONDS)
        if not state.is_stored:
            raise ServiceError("the server did not store it; check --to")

    async def _send_chunk(self, push_id: str, file: _Received, chunk: bytes) -> int:
        """Send a chunk, and return how many bytes of the file the server has."""
        place = f"/v1/pushes/{push_id}/files/{file.name}?offset={file.received}"
        state = await self._calls.request("PUT", place, _State, chunk, is_json=False)
        return next((one.received for one in state.files if one.name == file.name), 0)


class PulledRun(Struct, frozen=True):
    """A run that the store has. `is_new`: it was not there before."""

    run_id: str
    is_new: bool


class _Listed(Struct):
    runs: list[dict[str, Any]]
    next_cursor: str | None = None


class _Files(Struct):
    files: list[PushedFile]
    pushed_by: str | None = None
    pushed_at: str | None = None
    ci: CiBuild | None = None


async def pull_runs(
    names: Sequence[str] | None, store: RunStore, server: PushServer, say: Say
) -> tuple[list[PulledRun], list[str]]:
    """Pull runs into a store, and return them, and a line about each that was refused. `names`: ids; None: all runs.

    The files are as they were pushed. What a pull that was interrupted has received is not sent again. A run of the
    store never changes.

    Raises:
        InvalidInput: The token does not permit to read.
        Unmeasurable: The server could not be reached, or has no list of runs.
    """
    pulled, failed = [], []
    async with open_server(server, say) as calls:
        try:
            for name in names if names is not None else await _list_finished(calls):
                try:
                    pulled.append(await _pull(name, store, calls))
                except (InvalidInput, StoreError, ServiceError) as error:
                    if isinstance(error, ServiceError) and (error.retryable or error.status in REFUSED):
                        raise
                    failed.append(f"run {inert(name)} was not pulled: {inert(str(error))}")
        except ServiceError as error:
            raise server.explain("not everything was pulled", error) from error
    return pulled, failed


async def _list_finished(calls: ServerCalls) -> list[str]:
    found: dict[str, None] = {}
    cursor = ""
    while True:
        page = await calls.request("GET", f"/v1/runs?status=finished&limit={_PAGE}{cursor}", _Listed, most=_PAGE_BYTES)
        known = len(found)
        found |= dict.fromkeys(str(one.get("runId")) for one in page.runs)
        if page.next_cursor is None or not page.runs:
            return [*found][::-1]
        if len(found) == known:
            raise ServiceError("the server sends the same runs again and again; check --to")
        cursor = f"&cursor={quote(page.next_cursor, safe='')}"


async def _pull(name: str, store: RunStore, calls: ServerCalls) -> PulledRun:
    if not is_run_name(name):
        raise InvalidInput("this is not the id of a run", "the pages of the server show the ids")
    state = await calls.request("GET", f"/v1/runs/{quote(name)}/files", _Files)
    names = [file.name for file in state.files]
    if len(names) != len(set(names)) or not set(REQUIRED_NAMES) <= set(names) <= set(PUSHED_NAMES):
        raise ServiceError("the server names other files than those of a run")
    content = digest_content(state.files)
    if os.path.lexists(store.runs / name):
        if digest_stored(store.runs / name) != content:
            raise InvalidInput("it is stored here with different content", "remove it here to get that of the server")
        return PulledRun(name, is_new=False)
    staged = store.root / _STAGED / content / name
    prepare_root(store.root)
    kept = {path.name: path.stat().st_size for path in staged.glob("*")}
    missing = sum(max(0, file.size - kept.get(file.name, 0)) for file in state.files)
    free = shutil.disk_usage(store.root).free
    if missing > free:
        place = f"{free >> 20:,} MiB are free in {store.root}"
        raise InvalidInput(f"{missing >> 20:,} MiB of it are to be pulled, and {place}", "free more")
    with store_errors(staged):
        staged.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        for file in state.files:
            await _receive(staged / file.name, file, f"/v1/runs/{quote(name)}/files/{file.name}", calls)
        if damage := list_damage(staged):
            shutil.rmtree(staged.parent)
            raise StoreError(damage[0])
        at = state.pushed_at or datetime.now(UTC).isoformat(timespec="seconds")
        mark = PushMark(content=content, user=state.pushed_by or "the server", at=at, ci=state.ci)
        adopt_run(staged, store.runs, state.files, mark)
        shutil.rmtree(staged.parent, ignore_errors=True)
    return PulledRun(name, is_new=True)


async def _receive(path: Path, file: PushedFile, place: str, calls: ServerCalls) -> None:
    """Receive the rest of a file.

    Raises:
        ServiceError: What the server sent is not what it announced.
    """
    with path.open("ab") as stream:
        while (received := stream.tell()) < file.size:
            part = await calls.fetch("GET", f"{place}?offset={received}")
            if not part or received + len(part) > file.size:
                break
            stream.write(part)
    if path.stat().st_size != file.size or digest_file(path) != file.sha256:
        path.unlink()
        raise ServiceError(f"{file.name}: the checksum does not match; pull it again")
