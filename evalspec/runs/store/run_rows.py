"""What lists of runs show of one, read without its outline, samples and scores."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, decode
from msgspec.structs import asdict, replace

from evalspec.base.errors import StoreError
from evalspec.base.json_text import compute_digest
from evalspec.model import VerdictStatus
from evalspec.model.base import built, project
from evalspec.model.fingerprints import (
    CiBuild,
    DatasetDigest,
    Description,
    Fingerprint,
    ManifestDigest,
    RetrieverDigest,
    digest_parts,
)
from evalspec.model.listed_runs import DatasetRow, ListedValue, RunKind, RunOrigin, RunStatus, StoredRunEntry
from evalspec.runs.store.locks import is_being_written
from evalspec.runs.store.run_log import DESCRIPTION_NAME, MARK_NAME, REPORT_NAME, STORE_VERSION

_HEAD_BYTES = 4096
_SERIES_LENGTH = 16
_NAMED_TIME = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-")
_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_VERDICT = re.compile(rb'^  "verdict": "([^"\n]*)",\r?\n  "partial": (true|false),?\r?$', re.M)


_DatasetHead = project(DatasetDigest, "DatasetDigestHead", ("name", "selected", "samples_sha256", "metric_identities"))
_RetrieverHead = project(RetrieverDigest, "RetrieverDigestHead", ("name",))
_ManifestHead = project(ManifestDigest, "ManifestDigestHead", ("path",))
_FingerprintHead = project(
    Fingerprint,
    "FingerprintHead",
    ("started_at", "manifest", "datasets", "retrievers", "judge_refused", "judge_models", "ci"),
    manifest=_ManifestHead | None,
    datasets=tuple[_DatasetHead, ...],  # type: ignore[valid-type]
    retrievers=Mapping[str, _RetrieverHead],  # type: ignore[valid-type]
)
DescriptionHead = project(
    Description, "DescriptionHead", ("store_version", "fingerprint"), fingerprint=_FingerprintHead
)
"""A Description with what lists of runs show, which is decoded in half the time."""


class _Measured(Struct):
    name: str
    metrics: dict[str, ListedValue] = {}


class _Report(Struct):
    datasets: list[_Measured]


_VERDICTS = frozenset(str(status) for status in VerdictStatus)
_REPORT_DECODER = Decoder(built(_Report))


class RunRow(Struct, frozen=True):
    """One run. `recorded`: how its values were measured."""

    entry: StoredRunEntry
    recorded: Fingerprint = Fingerprint()


def read_row(folder: Path) -> RunRow:
    """Return the row of a run, without its values and labels. Missing or damaged files make it DAMAGED."""
    path = folder / DESCRIPTION_NAME
    try:
        found = decode(path.read_bytes(), type=built(DescriptionHead))
        return RunRow(_describe(folder, found), found.fingerprint)
    except FileNotFoundError:
        message = f"there is no {path.name}. `evalspec runs prune` removes it"
    except OSError as error:
        message = f"{path}: {error.strerror or error}. check the path"
    except StoreError as error:
        message = str(error)
    except (MsgspecError, ValueError, RecursionError) as error:
        message = f"{path}: not the description of a run: {error}"
    return RunRow(_start(folder, RunStatus.DAMAGED, message))


def _start(folder: Path, status: RunStatus, error: str | None = None) -> StoredRunEntry:
    """Return what the name of a run's folder says of it."""
    return StoredRunEntry(folder.name, status, name_time(folder), error=error)


def name_time(folder: Path) -> str:
    """Return the time in a run's name as ISO 8601 in UTC, to the millisecond. Without one, it is that of 1970."""
    found = _NAMED_TIME.match(folder.name)
    try:
        moment = datetime.strptime(f"{found[1]}+0000", "%Y%m%dT%H%M%S.%f%z") if found else _UNKNOWN_TIME
    except ValueError:
        moment = _UNKNOWN_TIME
    return moment.isoformat(timespec="milliseconds")


def _describe(folder: Path, found: Description) -> StoredRunEntry:
    """Return the entry of a run whose description can be read.

    Raises:
        StoreError: Another version of evalspec wrote the run, or its lock or the mark of a push cannot be read.
    """
    if found.store_version != STORE_VERSION:
        path = folder / DESCRIPTION_NAME
        raise StoreError(f"{path}: written by another version of evalspec (layout {found.store_version})")
    status, verdict, partial = _find_state(folder)
    no_verdict = f"{folder / REPORT_NAME}: no verdict found. `evalspec report {folder.name}` recreates the report"
    fingerprint = found.fingerprint
    return replace(
        _start(folder, status),
        verdict=verdict,
        partial=partial,
        manifest=None if fingerprint.manifest is None else fingerprint.manifest.path,
        kind=RunKind.RETRIEVER if fingerprint.retrievers else RunKind.AGENT,
        error=no_verdict if status is RunStatus.DAMAGED else None,
        origin=read_origin(folder, found),
        datasets=tuple(DatasetRow(one.name, one.selected) for one in fingerprint.datasets),
        retrievers={name: asked.name for name, asked in fingerprint.retrievers.items()},
    )


def read_origin(folder: Path, described: Description) -> RunOrigin:
    """Return where a run is from. The build that evaluated it counts more than the build that pushed it.

    Raises:
        StoreError: The mark of a pushed run cannot be read.
    """
    given = described.fingerprint.ci
    own = None if given is None else _clean(given)
    if not (folder / MARK_NAME).exists():
        return RunOrigin(own)
    from evalspec.runs.store.pushed_runs import read_push_mark

    mark = read_push_mark(folder)
    return RunOrigin(own) if mark is None else RunOrigin(own or mark.ci, mark.user, mark.at)


def _clean(given: CiBuild) -> CiBuild | None:
    from evalspec.runs.store.ci_builds import clean_ci_build

    return clean_ci_build(asdict(given))


def read_values(folder: Path, recorded: Fingerprint) -> dict[str, dict[str, ListedValue]]:
    """Return the value of each metric by dataset, those with a threshold first.

    Nothing for a run that has no report, or one that cannot be read, which `read_row` reports.
    """
    try:
        report = _REPORT_DECODER.decode((folder / REPORT_NAME).read_bytes())
    except (OSError, MsgspecError, ValueError, RecursionError):
        return {}
    return {one.name: _order_values(one, recorded) for one in report.datasets}


def _order_values(dataset: _Measured, recorded: Fingerprint) -> dict[str, ListedValue]:
    ordered = sorted(dataset.metrics.items(), key=lambda entry: not entry[1].threshold)
    return {metric: replace(found, series=find_series(recorded, dataset.name, metric)) for metric, found in ordered}


def find_series(recorded: Fingerprint, dataset: str, metric: str) -> str | None:
    """Return a digest that is equal in two runs if they measured the same: samples and formula.

    The formula includes the judge, if it has one, and the models that it stated. None: the run has no such dataset, or
    does not say what is in it.
    """
    for one in recorded.datasets:
        if one.name == dataset and one.samples_sha256:
            formula = digest_parts(one.metric_identities.get(metric, {}))
            refused = recorded.judge_refused if "judge" in formula else {}
            stated = sorted(recorded.judge_models) if "judge" in formula else ()
            return compute_digest([one.samples_sha256, metric, formula, refused, *stated])[:_SERIES_LENGTH]
    return None


def _find_state(folder: Path) -> tuple[RunStatus, str | None, bool | None]:
    """Return the status of a run, and the verdict of a finished one with whether it is partial.

    The verdict is in the first lines of a report. If a later release moves it, the whole report is read.

    Raises:
        StoreError: The lock of an unfinished run cannot be opened.
    """
    try:
        with (folder / REPORT_NAME).open("rb") as stream:
            found = _VERDICT.search(stream.read(_HEAD_BYTES)) or _VERDICT.search(stream.read())
    except FileNotFoundError:
        return RunStatus.RUNNING if is_being_written(folder) else RunStatus.INTERRUPTED, None, None
    verdict = found[1].decode(errors="replace") if found else ""
    if not found or verdict not in _VERDICTS:
        return RunStatus.DAMAGED, None, None
    return RunStatus.FINISHED, verdict, found[2] == b"true"
