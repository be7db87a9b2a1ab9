"""What lists of runs show of one, read without its outline, samples and scores."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder, decode

from evalspec.base.json_text import compute_digest
from evalspec.model import VerdictStatus
from evalspec.model.base import built, project
from evalspec.model.fingerprints import (
    DatasetDigest,
    Description,
    Fingerprint,
    ManifestDigest,
    RetrieverDigest,
    digest_parts,
)
from evalspec.runs.store.run_log import DESCRIPTION_NAME, REPORT_NAME, STORE_VERSION

UNFINISHED = "unfinished"
UNREADABLE = "unreadable"
_HEAD_BYTES = 4096
_SERIES_LENGTH = 16
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


class StoredValue(Struct):
    """The value of a metric. `expected`: the samples that it should be over. `series`: see find_series."""

    value: float | None = None
    scored: int = 0
    expected: int = 0
    threshold: dict[str, float] | None = None
    series: str | None = None


class _Measured(Struct):
    name: str
    metrics: dict[str, StoredValue] = {}


class _Report(Struct):
    datasets: list[_Measured]


_VERDICTS = frozenset(str(status) for status in VerdictStatus)
_REPORT_DECODER = Decoder(built(_Report))


class RunRow(Struct, frozen=True):
    """One run. `state`: its verdict, UNFINISHED, or UNREADABLE with the reason in `error`.

    `partial`: null without a verdict. `recorded`: how its values were measured. `retrievers`: names by dataset.
    """

    id: str
    state: str
    partial: bool | None = None
    started_at: str | None = None
    recorded: Fingerprint = Fingerprint()
    retrievers: dict[str, str] = field(default_factory=dict)
    error: str | None = None


def read_row(folder: Path) -> RunRow:
    """Return the row of a run. Missing or damaged files make it UNREADABLE."""
    path = folder / DESCRIPTION_NAME
    try:
        found = decode(path.read_bytes(), type=built(DescriptionHead))
        state, partial = _find_state(folder / REPORT_NAME)
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
        partial=partial,
        started_at=fingerprint.started_at,
        recorded=fingerprint,
        retrievers={name: asked.name for name, asked in fingerprint.retrievers.items()},
        error=no_verdict if state == UNREADABLE else None,
    )


def read_values(folder: Path, recorded: Fingerprint) -> dict[str, dict[str, StoredValue]]:
    """Return the value of each metric by dataset, those with a threshold first.

    Nothing for a run that has no report, or one that cannot be read, which `read_row` reports.
    """
    try:
        report = _REPORT_DECODER.decode((folder / REPORT_NAME).read_bytes())
    except (OSError, MsgspecError, ValueError, RecursionError):
        return {}
    found = {}
    for dataset in report.datasets:
        for metric, one in dataset.metrics.items():
            one.series = find_series(recorded, dataset.name, metric)
        ordered = sorted(dataset.metrics.items(), key=lambda entry: not entry[1].threshold)
        found[dataset.name] = dict(ordered)
    return found


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


def _find_state(report: Path) -> tuple[str, bool | None]:
    """Return the verdict of a finished run and whether it is partial; UNFINISHED or UNREADABLE.

    The verdict is in the first lines of a report. If a later release moves it, the whole report is read.
    """
    try:
        with report.open("rb") as stream:
            found = _VERDICT.search(stream.read(_HEAD_BYTES)) or _VERDICT.search(stream.read())
    except FileNotFoundError:
        return UNFINISHED, None
    verdict = found[1].decode(errors="replace") if found else ""
    return (verdict, found[2] == b"true") if found and verdict in _VERDICTS else (UNREADABLE, None)
