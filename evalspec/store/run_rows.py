"""Rows of `evalspec runs list`, read without the outline, samples and scores."""

import re
from pathlib import Path

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder

from evalspec.model import VerdictStatus
from evalspec.model.base import built
from evalspec.store.run_log import DESCRIPTION_NAME, REPORT_NAME, STORE_VERSION

UNFINISHED = "unfinished"
UNREADABLE = "unreadable"
_HEAD_BYTES = 4096
_VERDICT = re.compile(rb'^  "verdict": "([^"\n]*)",?\r?$', re.M)


class _Dataset(Struct):
    name: str
    selected: int
    sha256: str | None = None
    selection: str | None = field(name="selectionSha256", default=None)


class _Retriever(Struct):
    name: str


class _Fingerprint(Struct):
    started_at: str = field(name="startedAt")
    datasets: list[_Dataset]
    retrievers: dict[str, _Retriever] = {}


class _Description(Struct):
    store_version: int = field(name="storeVersion")
    fingerprint: _Fingerprint


class StoredValue(Struct):
    """The value of a metric. `expected`: the samples that it should be over."""

    value: float | None = None
    scored: int = 0
    expected: int = 0
    threshold: dict[str, float] | None = None


class _Measured(Struct):
    name: str
    metrics: dict[str, StoredValue] = {}


class _Report(Struct):
    datasets: list[_Measured]


_VERDICTS = frozenset(str(status) for status in VerdictStatus)
_DECODER = Decoder(built(_Description))
_REPORT_DECODER = Decoder(built(_Report))


class RunRow(Struct, frozen=True):
    """One run. `state`: its verdict, UNFINISHED, or UNREADABLE with the reason in `error`.

    `datasets`: number of selected samples by dataset. `selections`: what identifies the samples of a dataset, by its
    name: runs are on the same samples where it is equal. `retrievers`: name of the retriever by dataset.
    """

    id: str
    state: str
    started_at: str | None = None
    datasets: dict[str, int] = field(default_factory=dict)
    selections: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    retrievers: dict[str, str] = field(default_factory=dict)
    error: str | None = None


def read_row(folder: Path) -> RunRow:
    """Return the row of a run. Missing or damaged files make it UNREADABLE."""
    path = folder / DESCRIPTION_NAME
    try:
        found = _DECODER.decode(path.read_bytes())
        state = _find_state(folder / REPORT_NAME)
    except FileNotFoundError:
        return RunRow(folder.name, UNREADABLE, error=f"there is no {path.name}. `evalspec runs prune` removes it")
    except OSError as error:
        return RunRow(folder.name, UNREADABLE, error=f"{path}: {error.strerror or error}. check the path")
    except (MsgspecError, ValueError, RecursionError) as error:
        return RunRow(folder.name, UNREADABLE, error=f"{path}: not the description of a run: {error}")
    if found.store_version != STORE_VERSION:
        message = f"{path}: written by another version of evalspec (layout {found.store_version})"
        return RunRow(folder.name, UNREADABLE, error=message)
    no_verdict = f"{folder / REPORT_NAME}: no verdict found. `evalspec report {folder.name}` recreates the report"
    fingerprint = found.fingerprint
    return RunRow(
        id=folder.name,
        state=state,
        started_at=fingerprint.started_at,
        datasets={dataset.name: dataset.selected for dataset in fingerprint.datasets},
        selections={dataset.name: (dataset.sha256, dataset.selection) for dataset in fingerprint.datasets},
        retrievers={name: asked.name for name, asked in fingerprint.retrievers.items()},
        error=no_verdict if state == UNREADABLE else None,
    )


def read_values(folder: Path) -> dict[str, dict[str, StoredValue]]:
    """Return the value of each metric by dataset, those with a threshold first.

    Nothing for a run that has no report, or one that cannot be read, which `read_row` reports.
    """
    try:
        report = _REPORT_DECODER.decode((folder / REPORT_NAME).read_bytes())
    except (OSError, MsgspecError, ValueError, RecursionError):
        return {}
    found = {}
    for dataset in report.datasets:
        ordered = sorted(dataset.metrics.items(), key=lambda entry: not entry[1].threshold)
        found[dataset.name] = dict(ordered)
    return found


def _find_state(report: Path) -> str:
    """Return the verdict of a finished run, UNFINISHED or UNREADABLE.

    The verdict is in the first lines of a report. If a later release moves it, the whole report is read.
    """
    try:
        with report.open("rb") as stream:
            found = _VERDICT.search(stream.read(_HEAD_BYTES)) or _VERDICT.search(stream.read())
    except FileNotFoundError:
        return UNFINISHED
    verdict = found[1].decode(errors="replace") if found else ""
    return verdict if verdict in _VERDICTS else UNREADABLE
