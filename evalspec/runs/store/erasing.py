"""Erase the texts of samples from a stored run. Scores stay, and so do the checksums: the files are written again.

Each file is replaced in one step. If the process is killed between two files, erasing the same samples again completes
the work.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.base.plural import counted
from evalspec.model.log import (
    LOG_RECORD,
    NO_LONGER_KEPT,
    ControlsRecord,
    ErasedRecord,
    InputRecord,
    LogRecord,
    PeopleRecord,
    ReplyRecord,
    ReportRecord,
    ScoresRecord,
    SpansRecord,
    TextRecord,
    TraceRecord,
    TurnRecord,
)
from evalspec.runs.store.batch_log import BATCH_LOG_NAME, erase_batch_replies
from evalspec.runs.store.damage import list_damage
from evalspec.runs.store.derived import remove_derived
from evalspec.runs.store.files import store_errors, write_atomically
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.locks import LOCK_NAME
from evalspec.runs.store.log_index import LogIndex
from evalspec.runs.store.log_records import LogLine, describe_repair, encode_record, read_log, renumber
from evalspec.runs.store.run_log import (
    AGENT_LOG_NAME,
    BASELINE_NAME,
    DESCRIPTION_NAME,
    LOG_NAME,
    MARK_NAME,
    REPORT_NAME,
    RunLog,
)
from evalspec.runs.store.stored_run import StoredRun, open_run

_KNOWN = {INPUTS_NAME, LOG_NAME, REPORT_NAME, BASELINE_NAME, DESCRIPTION_NAME, LOCK_NAME, AGENT_LOG_NAME, MARK_NAME}
_OF_A_SAMPLE = ReplyRecord | TurnRecord | SpansRecord | TraceRecord | ScoresRecord
_SAMPLES_SHOWN = 3
_AGENT_LOG = f"{NO_LONGER_KEPT}: the output of the agent could quote erased texts\n".encode()

Key = tuple[str, str]
"""A sample: the name of its dataset, and its id."""


class Wanted(Struct, frozen=True):
    """What to erase. `is_wanted`: whether a record of `inputs.jsonl` is.

    `asks`: whether bytes quote a question, which identifies a sample. `quotes`: whether they quote any such text.
    `metadata_kept`: metadata keys of erased samples to keep, for the slices of the run.
    """

    is_wanted: Callable[[InputRecord], bool]
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
    for line, one in read_log(stored.folder / INPUTS_NAME, InputRecord):
        key = one.dataset, one.sample.id
        if key not in found and (wanted.is_wanted(one) or wanted.asks(line.text)):
            found.add(key)
    for line, record in _read(stored):
        if isinstance(record, _OF_A_SAMPLE) and (record.dataset, record.id) not in found:
            found |= {(record.dataset, record.id)} if wanted.asks(line.text) else set()
    return found


def erase_samples(stored: StoredRun, wanted: Wanted, render_report: Callable[[StoredRun], Iterable[str]]) -> set[Key]:
    """Erase all texts that are wanted from a run, and return the samples. None if there is nothing to erase.

    `render_report`: renders the report of the run, after its samples are erased.

    Raises:
        StoreError: The run is damaged, another process is writing it, or it cannot be written.
    """
    with RunLog(stored.folder, redact=lambda value: value) as log:
        samples = find_samples(stored, wanted)
        _erase_batches(stored.folder, wanted, bool(samples))
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
    inputs = _number(_erase_inputs(stored, samples, wanted))
    lines = _number(_erase_log(stored, samples, wanted.quotes))
    with store_errors(old_log):
        is_new = lines != _number(line.text for line, one in _read(stored) if not isinstance(one, ReportRecord))
        is_new_input = b"".join(inputs) != old_inputs.read_bytes()
    agent_log = stored.folder / AGENT_LOG_NAME
    if agent_log.exists() and (is_new or agent_log.read_bytes() != _AGENT_LOG):
        write_atomically(agent_log, [_AGENT_LOG])
    if is_new or is_new_input:
        log.replace_lines(lines)
        log.replace_inputs(inputs)


def _erase_log(stored: StoredRun, samples: Collection[Key], quotes: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield the lines of a log without the texts of some samples, then a line for each of those samples.

    `quotes`: whether a line quotes a text to erase.

    The record of the report is left out, because the report changes.
    """
    needed = {
        digest
        for _, record in _read(stored)
        if isinstance(record, ReplyRecord) and (record.dataset, record.id) not in samples
        for digest in record.retrieved_texts or ()
    }
    for line, record in _read(stored):
        if isinstance(record, ReplyRecord | ScoresRecord | TraceRecord):
            is_erased = (record.dataset, record.id) in samples
            yield encode_record(_erase(record), 1) if is_erased else line.text
        elif isinstance(record, TurnRecord | SpansRecord):
            yield from [] if (record.dataset, record.id) in samples else [line.text]
        elif isinstance(record, TextRecord):
            yield from [line.text] if record.digest in needed else []
        elif isinstance(record, PeopleRecord | ControlsRecord):
            # The verdict rests on their numbers. Only why a judge was not tested may quote something.
            yield from [] if quotes(line.text) else [line.text]
    for dataset, name in sorted(samples):
        yield encode_record(ErasedRecord(dataset, name), 1)


def _erase(record: ReplyRecord | ScoresRecord | TraceRecord) -> ReplyRecord | ScoresRecord | TraceRecord:
    """Return a record with measurements only. The reason of every score says why."""
    bare = record.without_texts(NO_LONGER_KEPT)
    if isinstance(bare, ReplyRecord | TraceRecord):
        return bare
    return replace(bare, scores={name: replace(one, reason=NO_LONGER_KEPT) for name, one in bare.scores.items()})


def _erase_inputs(stored: StoredRun, samples: Collection[Key], wanted: Wanted) -> Iterator[bytes]:
    for line, record in read_log(stored.folder / INPUTS_NAME, InputRecord):
        if (record.dataset, record.sample.id) in samples:
            bare = record.sample.without_texts(wanted.metadata_kept)
            yield encode_record(InputRecord(record.dataset, replace(bare, digest=None)), 1)
        else:
            yield line.text


def _read(stored: StoredRun) -> Iterator[tuple[LogLine, LogRecord]]:
    return read_log(stored.folder / LOG_NAME, LOG_RECORD)


def _number(lines: Iterable[bytes]) -> list[bytes]:
    return [renumber(line, number) for number, line in enumerate(lines, 1)]


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


def _erase_batches(folder: Path, wanted: Wanted, has_samples: bool) -> None:
    """Remove the texts of the judge's answers in batches, if they may quote what is erased."""
    path = folder / BATCH_LOG_NAME
    if path.is_file() and (has_samples or wanted.quotes(path.read_bytes())):
        erase_batch_replies(folder)


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
