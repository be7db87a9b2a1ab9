"""The head of a stored run: everything but its samples, read from its files without decoding them."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import MsgspecError
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.model.base import built
from evalspec.model.fingerprints import Description, Fingerprint
from evalspec.model.listed_runs import DatasetRow, ListedValue, RunEntry, RunKind, RunStatus, list_value
from evalspec.model.log import LOG_RECORD, ReportRecord
from evalspec.runs.store.files import read_last_line, store_errors
from evalspec.runs.store.locks import is_being_written
from evalspec.runs.store.log_records import decode_line, describe_repair
from evalspec.runs.store.run_log import DESCRIPTION_NAME, LOG_NAME, REPORT_NAME, STORE_VERSION
from evalspec.runs.store.run_rows import DescriptionHead, find_series, name_time, read_origin
from evalspec.service.places import show_place
from evalspec.service.run_records import RunHead
from evalspec.service.settings import Project

_SIGNED = (DESCRIPTION_NAME, REPORT_NAME, LOG_NAME)


def read_entry(project: Project, folder: Path) -> tuple[RunEntry, Any]:
    """Return the entry of a run and, if it is finished, its RunHead. A damaged run has the cause in `error`."""
    try:
        return _read(project, folder)
    except StoreError as error:
        return replace(_start(folder, RunStatus.DAMAGED), error=str(error)), None


def sign_files(folder: str, status: str | None) -> str:
    """Return sizes and times of the files of a run. Of a run in progress, it only counts that it is in progress.

    A file that was restored with its old time has another time of change.

    `folder`: as text, because pathlib is slow for thousands of runs. `status`: as in the index, None if the run is not
    in it.
    """
    described, report, log = [_sign_file(f"{folder}{os.sep}{name}") for name in _SIGNED]
    is_open = report == "-" or status in (RunStatus.RUNNING, RunStatus.INTERRUPTED)
    return f"{described},{report},{'writing' if is_open and is_being_written(Path(folder)) else log}"


def _sign_file(path: str) -> str:
    try:
        found = os.stat(path)  # noqa: PTH116 - for three files of each of thousands of runs
    except FileNotFoundError:
        return "-"
    return f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}"


def _start(folder: Path, status: RunStatus) -> RunEntry:
    return RunEntry(folder.name, status, name_time(folder))


def _read(project: Project, folder: Path) -> tuple[RunEntry, Any]:
    described = _read_description(folder)
    if described is None:
        return _start(folder, RunStatus.RUNNING), None
    fingerprint = described.fingerprint
    known = replace(
        _start(folder, find_status(folder)),
        manifest=None if fingerprint.manifest is None else show_place(fingerprint.manifest.path, project.folder),
        kind=RunKind.RETRIEVER if fingerprint.retrievers else RunKind.AGENT,
        datasets=tuple(DatasetRow(one.name, one.selected) for one in fingerprint.datasets),
        origin=read_origin(folder, described),
    )
    if known.status is not RunStatus.FINISHED:
        return known, None
    try:
        head: Any = _read_head(folder)
    except StoreError as error:
        return replace(known, status=RunStatus.DAMAGED, error=str(error)), None
    rows = tuple(DatasetRow(one.name, one.selected, _list_values(one, fingerprint)) for one in head.datasets)
    return replace(known, verdict=str(head.verdict), partial=head.partial, datasets=rows), head


def find_status(folder: Path) -> RunStatus:
    """Return whether a run is complete, from the end of its log. Its report is from before it was resumed otherwise.

    Raises:
        StoreError: The log or the lock cannot be read.
    """
    if (folder / REPORT_NAME).exists() and _read_digest(folder) is not None:
        return RunStatus.FINISHED
    return RunStatus.RUNNING if is_being_written(folder) else RunStatus.INTERRUPTED


def _read_digest(folder: Path) -> str | None:
    """Return the digest of the report that the last line of the log has. None: the run is not finished."""
    path = folder / LOG_NAME
    with store_errors(path), path.open("rb") as log:
        line = read_last_line(log)
    try:
        record = decode_line(line, LOG_RECORD, str(path))
    except StoreError:
        return None
    return record.sha256 if isinstance(record, ReportRecord) else None


def _read_description(folder: Path) -> Description | None:
    """Return the description of a run. None: its process is about to write it."""
    path = folder / DESCRIPTION_NAME
    try:
        with store_errors(path):
            content = path.read_bytes() if path.exists() else None
        if content is None and is_being_written(folder):
            return None
        found = msgspec.json.decode(content or b"", type=built(DescriptionHead))
    except (MsgspecError, ValueError, RecursionError) as error:
        missing = not path.exists()
        fault = f"there is no {path.name}" if missing else f"not the description of a run: {error}"
        raise StoreError(f"{path}: {fault}. remove the run") from error
    if found.store_version != STORE_VERSION:
        raise StoreError(f"{path}: written by another version of evalspec (layout {found.store_version})")
    return found


def _read_head(folder: Path) -> Any:
    """Return the head of a finished run, whose report must be the one that the log names."""
    path = folder / REPORT_NAME
    with store_errors(path):
        content = path.read_bytes()
    if sha256(content).hexdigest() != _read_digest(folder):
        raise StoreError(f"{path}: damaged: the checksum does not match. {describe_repair(folder.name)}")
    try:
        return msgspec.json.decode(content, type=built(RunHead))
    except (MsgspecError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not a report of this version of evalspec: {error}") from error


def _list_values(dataset: Any, recorded: Fingerprint) -> dict[str, ListedValue]:
    return {
        name: list_value(summary, find_series(recorded, dataset.name, name))
        for name, summary in dataset.metrics.items()
    }
