"""Erase the texts of samples from a stored run. Scores stay, and so do the checksums: the files are written again.

Each file is replaced in one step. If the process is killed between two files, erasing the same samples again completes
the work.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.base.plural import counted
from evalspec.runs.store.damage import list_damage
from evalspec.runs.store.derived import remove_derived
from evalspec.runs.store.files import store_errors, write_atomically
from evalspec.runs.store.inputs import INPUTS_NAME, bare_record
from evalspec.runs.store.log_index import LogIndex
from evalspec.runs.store.log_records import (
    ERASED,
    NO_LONGER_KEPT,
    REPLY,
    REPORT,
    SCORES,
    TEXT,
    describe_repair,
    encode_record,
    read_log,
    without_erased_texts,
)
from evalspec.runs.store.pushed_runs import MARK_NAME
from evalspec.runs.store.run_log import (
    AGENT_LOG_NAME,
    BASELINE_NAME,
    DESCRIPTION_NAME,
    LOCK_NAME,
    LOG_NAME,
    REPORT_NAME,
    RunLog,
)
from evalspec.runs.store.stored_run import StoredRun, open_run

_KNOWN = {INPUTS_NAME, LOG_NAME, REPORT_NAME, BASELINE_NAME, DESCRIPTION_NAME, LOCK_NAME, AGENT_LOG_NAME, MARK_NAME}
_SAMPLES_SHOWN = 3
_AGENT_LOG = f"{NO_LONGER_KEPT}: the output of the agent could quote erased texts\n".encode()

Key = tuple[str, str]
"""A sample: the name of its dataset, and its id."""


class Wanted(Struct, frozen=True):
    """What to erase. `is_wanted`: whether a record of `inputs.jsonl` is.

    `asks`: whether bytes quote a question, which identifies a sample. `quotes`: whether they quote any such text.
    `metadata_kept`: metadata keys of erased samples to keep, for the slices of the run.
    """

    is_wanted: Callable[[Mapping[str, Any]], bool]
    asks: Callable[[bytes], bool]
    quotes: Callable[[bytes], bool]
    metadata_kept: Collection[str]


def find_samples(stored: StoredRun, wanted: Wanted) -> set[Key]:
    """Return the samples of a run whose texts are wanted, including those whose texts are erased already.

    Raises:
        StoreError: The run is damaged, so its texts cannot be found.
    """
    index = stored.read_index()
    if index.damage:
        raise StoreError(
            f"{index.damage[0]}. {describe_repair(stored.id)}, and `evalspec runs rm {stored.id}` removes it"
        )
    found = set(index.erased)
    for _, record in read_log(stored.folder / INPUTS_NAME):
        key = record["dataset"], record["id"]
        if key not in found and (wanted.is_wanted(record) or _is_asked(record, wanted)):
            found.add(key)
    for record in _read(stored):
        if record["kind"] in (REPLY, SCORES) and (record["dataset"], record["id"]) not in found:
            found |= {(record["dataset"], record["id"])} if _is_asked(record, wanted) else set()
    return found


def _is_asked(record: Mapping[str, Any], wanted: Wanted) -> bool:
    return wanted.asks(encode_record(record, 1))


def erase_samples(stored: StoredRun, wanted: Wanted, render_report: Callable[[StoredRun], Iterable[str]]) -> set[Key]:
    """Erase all texts that are wanted from a run, and return the samples. None if there is nothing to erase.

    `render_report`: renders the report of the run, after its samples are erased.

    Raises:
        StoreError: The run is damaged, another process is writing it, or it cannot be written.
    """
    with RunLog(stored.folder, redact=lambda value: value) as log:
        samples = find_samples(stored, wanted)
        _remove_leftovers(stored.folder, wanted, bool(samples))
        if not samples:
            return samples
        _rewrite(log, stored, samples, wanted)
        if stored.report.exists() and list_damage(stored.folder):
            log.write_report(render_report(open_run(stored.folder)), is_latest=False)
        remove_derived(stored.folder)
    return samples


def _rewrite(log: RunLog, stored: StoredRun, samples: Collection[Key], wanted: Wanted) -> None:
    old_inputs, old_log = stored.folder / INPUTS_NAME, stored.folder / LOG_NAME
    inputs = list(_encode(_erase_inputs(stored, samples, wanted)))
    lines = list(_encode(_erase_log(stored, samples)))
    with store_errors(old_log):
        is_new = b"".join(lines) != b"".join(_encode(_list_unfinished(stored)))
        is_new_input = b"".join(inputs) != old_inputs.read_bytes()
    agent_log = stored.folder / AGENT_LOG_NAME
    if agent_log.exists() and (is_new or agent_log.read_bytes() != _AGENT_LOG):
        write_atomically(agent_log, [_AGENT_LOG])
    if is_new or is_new_input:
        log.replace_lines(lines)
        log.replace_inputs(inputs)


def _list_unfinished(stored: StoredRun) -> Iterator[dict[str, Any]]:
    return (record for record in _read(stored) if record["kind"] != REPORT)


def _erase_log(stored: StoredRun, samples: Collection[Key]) -> Iterator[dict[str, Any]]:
    """Yield the records of a log without the texts of some samples, then a record for each of those samples.

    The record of the report is left out, because the report changes.
    """
    needed = {
        digest
        for record in _read(stored)
        if record["kind"] == REPLY and (record["dataset"], record["id"]) not in samples
        for digest in record.get("retrieved_texts") or ()
    }
    for record in _read(stored):
        if record["kind"] in (REPLY, SCORES):
            is_erased = (record["dataset"], record["id"]) in samples
            yield without_erased_texts(record) if is_erased else record
        elif record["kind"] == TEXT and record["digest"] in needed:
            yield record
    for dataset, name in sorted(samples):
        yield {"kind": ERASED, "dataset": dataset, "id": name}


def _erase_inputs(stored: StoredRun, samples: Collection[Key], wanted: Wanted) -> Iterator[dict[str, Any]]:
    for _, read in read_log(stored.folder / INPUTS_NAME):
        record = _without_tail(read)
        if (record["dataset"], record["id"]) in samples:
            record = {**bare_record(record, wanted.metadata_kept), "digest": None}
        yield record


def _read(stored: StoredRun) -> Iterator[dict[str, Any]]:
    return (_without_tail(record) for _, record in read_log(stored.folder / LOG_NAME))


def _without_tail(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("number", "crc")}


def _encode(records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    return (encode_record(record, number) for number, record in enumerate(records, 1))


def _remove_leftovers(folder: Path, wanted: Wanted, has_samples: bool) -> None:
    """Remove temporary files, copies of damaged logs and other files of a run's folder that may have wanted texts."""
    with store_errors(folder):
        for path in sorted(folder.iterdir()):
            if path.name in _KNOWN or not path.is_file() or path.is_symlink():
                continue
            is_temporary = path.name.startswith(".") and path.name.endswith(".tmp")
            is_copy = has_samples and path.name.startswith(f"{Path(LOG_NAME).stem}.damaged-")
            if is_temporary or is_copy or wanted.quotes(path.read_bytes()):
                path.unlink()


def refuse_erased(stored: StoredRun, index: LogIndex, action: str, datasets: Collection[str] = ()) -> None:
    """Check that no texts were erased from some datasets of a run. None: from any.

    Raises:
        InvalidInput: Some were, so the run cannot be resumed or scored again. `action`: what cannot be done.
    """
    names = sorted(name for dataset, name in index.erased if not datasets or dataset in datasets)
    if names:
        shown = ", ".join(names[:_SAMPLES_SHOWN]) + (", …" if len(names) > _SAMPLES_SHOWN else "")
        count = counted(len(names), "sample was", "samples were")
        message = (
            f"run {stored.id} cannot be {action}: the text of {count} erased, because a customer revoked it: {shown}"
        )
        raise InvalidInput(message, "start a new run; `evalspec report` shows the scores")
