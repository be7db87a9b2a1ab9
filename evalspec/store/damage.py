"""What is wrong with the files of a run: each line and file is checked against what was written."""

from collections.abc import Iterator
from pathlib import Path

from evalspec.errors import StoreError
from evalspec.store.files import digest_file, store_errors
from evalspec.store.inputs import INPUTS_NAME
from evalspec.store.log_index import LogIndex
from evalspec.store.log_records import describe_mending, read_lines
from evalspec.store.stored_run import StoredRun, open_run


def list_damage(folder: Path) -> list[str]:
    """What is damaged or missing in the folder of a run, a line each; empty where all is as it was written.

    A run that was ended too early is not damaged: what it has is whole.
    """
    try:
        stored = open_run(folder)
        index = stored.read_index()
        inputs = [*list_damaged_inputs(stored)] or [*_check_file(stored.folder / INPUTS_NAME, index.inputs)]
        return [*inputs, *index.damage, *_check_report(stored, index), *_check_baseline(stored)]
    except StoreError as error:
        return [str(error)]


def refuse_damage(stored: StoredRun) -> None:
    """See that a run is as it was written.

    Raises:
        StoreError: it is damaged; the first damage is named.
    """
    if damage := list_damage(stored.folder):
        raise StoreError(f"{damage[0]}. {describe_mending(stored.id)}")


def list_damaged_inputs(stored: StoredRun) -> Iterator[str]:
    """What is damaged or missing of the samples that a run selected.

    Raises:
        StoreError: they cannot be read.
    """
    path, count = stored.folder / INPUTS_NAME, 0
    for line in read_lines(path):
        count += 1
        if line.damage:
            yield line.damage
    selected = sum(dataset["selected"] for dataset in stored.fingerprint["datasets"])
    if count < selected:
        yield f"{path}: {count} of {selected} samples"


def _check_report(stored: StoredRun, index: LogIndex) -> Iterator[str]:
    if index.report is None and stored.report.exists():
        yield f"{index.path}: its end is missing: there is a report, and the log says nothing of it"
    if index.run not in (None, stored.id):
        yield f"{index.path}: it is the log of run {index.run}"
    yield from _check_file(stored.report, index.report)


def _check_baseline(stored: StoredRun) -> Iterator[str]:
    return _check_file(stored.baseline, stored.fingerprint.get("baselineSha256"))


def _check_file(path: Path, sha256: str | None) -> Iterator[str]:
    """A file of which only the digest is known, None where it was not written."""
    if sha256 is None:
        return
    with store_errors(path):
        if not path.exists():
            yield f"{path}: missing"
        elif digest_file(path) != sha256:
            yield f"{path}: damaged: it is not what was written"
