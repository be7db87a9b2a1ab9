"""The head of a stored run: everything but its samples, read from its files without decoding them."""

import json
import re
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct, field
from msgspec.structs import asdict, replace

from evalspec.base.errors import StoreError
from evalspec.model import DatasetResult, Run
from evalspec.model.base import built, project
from evalspec.model.fingerprints import CiBuild, Description, Fingerprint
from evalspec.model.log import LOG_RECORD, ReportRecord
from evalspec.runs.store.ci_builds import clean_ci_build
from evalspec.runs.store.files import read_last_line, store_errors
from evalspec.runs.store.log_records import decode_line, describe_repair
from evalspec.runs.store.pushed_runs import read_push_mark
from evalspec.runs.store.run_log import DESCRIPTION_NAME, LOG_NAME, REPORT_NAME, STORE_VERSION, is_being_written
from evalspec.runs.store.run_rows import DescriptionHead, find_series
from evalspec.service.answers import describe
from evalspec.service.places import show_place
from evalspec.service.settings import Project

LEFT_OUT = ("samples", "diagnosis")
"""Fields of a dataset's result with an entry for each sample."""

_NAMED_TIME = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-")


class RunStatus(StrEnum):
    """Whether a run is complete. RUNNING: a process is writing it. INTERRUPTED: it can be resumed."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


DatasetHead = project(DatasetResult, "DatasetHead", {*DatasetResult.__struct_fields__} - {*LEFT_OUT})
RunHead = project(
    Run,
    "RunHead",
    {*Run.__struct_fields__} - {"fingerprint"},
    datasets=tuple[DatasetHead, ...],  # type: ignore[valid-type]
)
"""A Run without its samples and fingerprint."""


class DatasetRow(Struct, frozen=True):
    """One dataset of a run in the index. `metrics`: by name, the values that lists and trends show."""

    name: str
    selected: int
    metrics: dict[str, Any] = field(default_factory=dict)


class RunOrigin(Struct, frozen=True, omit_defaults=True):
    """Where a run is from: its CI build, and who pushed it from another machine, at a time in UTC. None: unknown."""

    ci: CiBuild | None = None
    pushed_by: str | None = None
    pushed_at: str | None = None

    @property
    def branch(self) -> str | None:
        """The branch of the CI build."""
        return None if self.ci is None else self.ci.branch


class RunEntry(Struct, frozen=True):
    """One run of the index. `started_at`: seconds since 1970. `details`: the head as JSON, if the run is finished.

    `partial`: whether the verdict is PARTIAL; None without a verdict.
    """

    id: str
    status: RunStatus
    started_at: float
    verdict: str | None = None
    manifest: str | None = None
    datasets: tuple[DatasetRow, ...] = ()
    error: str | None = None
    details: str | None = None
    origin: RunOrigin = RunOrigin()
    partial: bool | None = None

    @property
    def samples(self) -> int:
        """The number of samples of all datasets."""
        return sum(dataset.selected for dataset in self.datasets)


_SHOWN = ("value", "interval", "statistic", "direction", "scored", "expected", "not_applicable", "threshold", "passed")
"""The fields of a summary that lists and trends show."""


def read_entry(project: Project, folder: Path) -> RunEntry:
    """Return the entry of a run. A damaged run has the cause in `error`."""
    try:
        return _read(project, folder)
    except StoreError as error:
        return RunEntry(folder.name, RunStatus.DAMAGED, _named_time(folder), error=str(error))


def _read(project: Project, folder: Path) -> RunEntry:
    described = _read_description(folder)
    if described is None:
        return RunEntry(folder.name, RunStatus.RUNNING, _named_time(folder))
    return replace(_read_described(project, folder, described), origin=_read_origin(folder, described))


def _read_origin(folder: Path, described: Description) -> RunOrigin:
    """Return where a run is from. The build that evaluated it counts more than the build that pushed it."""
    mark = read_push_mark(folder)
    given = described.fingerprint.ci
    own = None if given is None else clean_ci_build(asdict(given))
    if mark is None:
        return RunOrigin(own)
    return RunOrigin(own or mark.ci, mark.user, mark.at)


def _read_described(project: Project, folder: Path, described: Description) -> RunEntry:
    fingerprint = described.fingerprint
    manifest = None if fingerprint.manifest is None else show_place(fingerprint.manifest.path, project.folder)
    started_at = _named_time(folder)
    status = find_status(folder)
    if status is not RunStatus.FINISHED:
        datasets = tuple(DatasetRow(one.name, one.selected) for one in fingerprint.datasets)
        return RunEntry(folder.name, status, started_at, None, manifest, datasets)
    try:
        head: Any = _read_head(folder)
    except StoreError as error:
        datasets = tuple(DatasetRow(one.name, one.selected) for one in fingerprint.datasets)
        return RunEntry(folder.name, RunStatus.DAMAGED, started_at, None, manifest, datasets, str(error))
    rows = tuple(DatasetRow(one.name, one.selected, _pick_values(one, fingerprint)) for one in head.datasets)
    details = json.dumps(describe(head, ("id", "schema_version")))
    known = RunEntry(folder.name, status, started_at, str(head.verdict), manifest, rows, None, details)
    return replace(known, partial=head.partial)


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


def _pick_values(dataset: Any, recorded: Fingerprint) -> dict[str, Any]:
    return {
        name: {key: describe(getattr(summary, key)) for key in _SHOWN}
        | {"series": find_series(recorded, dataset.name, name)}
        for name, summary in dataset.metrics.items()
    }


def _named_time(folder: Path) -> float:
    """Return the time in a run's name, to the millisecond: names sort in the order in which runs were started."""
    found = _NAMED_TIME.match(folder.name)
    try:
        return datetime.strptime(f"{found[1]}+0000", "%Y%m%dT%H%M%S.%f%z").timestamp() if found else 0.0
    except ValueError:
        return 0.0
