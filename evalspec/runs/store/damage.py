"""Integrity checks of stored runs: every line and file is checked against its checksum."""

from collections.abc import Callable, Iterator
from pathlib import Path

from evalspec.base.errors import StoreError
from evalspec.runs.store.files import digest_file, store_errors
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.log_index import LogIndex
from evalspec.runs.store.log_records import describe_repair, read_lines
from evalspec.runs.store.stored_run import StoredRun, open_run


def list_damage(folder: Path) -> list[str]:
    """Return what is damaged or missing in a run's folder, one line per problem. Empty if the run is intact.

    An unfinished run is not damaged.
    """
    return _list(folder, StoredRun.read_index)


def refuse_damage(stored: StoredRun) -> None:
    """Check that a run is as it was written, by its checksums. Its records are checked when they are read.

    Raises:
        StoreError: The run is damaged. The message names the first problem.
    """
    if damage := _list(stored.folder, StoredRun.read_seal):
        raise StoreError(f"{damage[0]}. {describe_repair(stored.id)}")


def _list(folder: Path, read: Callable[[StoredRun], LogIndex]) -> list[str]:
    try:
        stored = open_run(folder)
        index = read(stored)
        inputs = [*list_damaged_inputs(stored)] or [*_check_file(stored.folder / INPUTS_NAME, index.inputs)]
        return [*inputs, *index.damage, *_check_report(stored, index), *_check_baseline(stored)]
    except StoreError as error:
        return [str(error)]


def list_damaged_inputs(stored: StoredRun) -> Iterator[str]:
    """Return what is damaged or missing in `inputs.jsonl`, the selected samples of a run.

    Raises:
        StoreError: The file cannot be read.
    """
    path, count = stored.folder / INPUTS_NAME, 0
    for line in read_lines(path):
        count += 1
        if line.damage:
            yield line.damage
    selected = sum(dataset.selected for dataset in stored.fingerprint.datasets)
    if count < selected:
        yield f"{path}: {count} of {selected} samples"


def _check_report(stored: StoredRun, index: LogIndex) -> Iterator[str]:
    if index.report is None and stored.report.exists():
        yield f"{index.path}: the end is missing: there is a report, but the log has no record of it"
    if index.run not in (None, stored.id):
        yield f"{index.path}: this is the log of run {index.run}"
    yield from _check_file(stored.report, index.report)


def _check_baseline(stored: StoredRun) -> Iterator[str]:
    return _check_file(stored.baseline, stored.fingerprint.baseline_sha256)


def _check_file(path: Path, sha256: str | None) -> Iterator[str]:
    """Yield the problem of a file whose content should have a digest. None: the file was not written."""
    if sha256 is None:
        return
    with store_errors(path):
        if not path.exists():
            yield f"{path}: missing"
        elif digest_file(path) != sha256:
            yield f"{path}: damaged: the checksum does not match"
