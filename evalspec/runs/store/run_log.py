"""Write one run: its fingerprint, its log of replies and scores, its report. One process writes a run at a time."""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.base.output_files import sync_folder
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.log import (
    WITHHELD,
    Change,
    ControlsRecord,
    InputRecord,
    LogRecord,
    PeopleRecord,
    ReplyRecord,
    ReportRecord,
    ScoresRecord,
    SpansRecord,
    StoredRecord,
    TextRecord,
    TraceRecord,
    TurnRecord,
    change_texts,
)
from evalspec.runs.store.files import (
    GroupSync,
    cut_torn_line,
    digest_file,
    read_last_line,
    replace_link,
    store_error,
    store_errors,
    write_atomically,
)
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.locks import LOCK_NAME, acquire_lock
from evalspec.runs.store.log_index import LogIndex, read_log_index
from evalspec.runs.store.log_records import change_fingerprint, encode_record, parse_number, read_lines, renumber

STORE_VERSION = 4
DESCRIPTION_NAME = "run.json"
LOG_NAME = "samples.jsonl"
MARK_NAME = "pushed.json"
REPORT_NAME = "report.json"
BASELINE_NAME = "baseline.json"
LATEST_NAME = "latest"
AGENT_LOG_NAME = "agent.log"

_TEXT_DIGEST_LENGTH = 32


_Stored = TypeVar("_Stored", bound=StoredRecord)


def _is_doubtful(_line: bytes) -> bool:
    return False


class RunLog:
    """The open log of one run, a context manager. Not thread-safe.

    Opening locks the folder and removes a partial line that a killed process left. Without `texts`, only measurements
    are written. `redact`: redacts the secrets of a JSON value. It is skipped for lines that have no secrets according
    to `is_clean`. `describe`: returns the digests of the values that may be redacted.

    Raises:
        StoreError: The folder cannot be written, or another process is writing this run.
    """

    def __init__(
        self,
        folder: Path,
        *,
        redact: Change,
        is_clean: Callable[[bytes], bool] = _is_doubtful,
        describe: Callable[[], Mapping[str, str]] = dict,
        texts: bool = True,
    ) -> None:
        self.folder = folder
        """As messages show it."""
        self.place = folder.absolute()
        """Where it is, also if the agent changes the working directory."""
        self._redact, self._is_clean, self._describe, self._texts = redact, is_clean, describe, texts
        self.description: tuple[Fingerprint, Any] | None = None
        """The fingerprint and the outline of `run.json`."""
        self._path = self.place / LOG_NAME
        self._failure: str | None = None
        lock = acquire_lock(folder)
        if lock is None:
            raise StoreError(f"{folder}: another evalspec process is writing this run. wait for it or stop it")
        self._lock = lock
        try:
            with store_errors(self._path):
                self._file = self._path.open("ab+", buffering=0)
                cut_torn_line(self._file)
                self._number = parse_number(read_last_line(self._file)) or 0
                sync_folder(folder)
        except StoreError:
            self._lock.release()
            raise
        self._stored_texts: set[str] = set()
        self.held: list[bytes] | None = None
        """Lines that wait for the end of `together`; None: none waits."""
        self._sync = GroupSync(self._file.fileno())

    @property
    def id(self) -> str:
        """The run's id: UTC time and short id."""
        return self.folder.name

    def write_description(self, fingerprint: Fingerprint, outline: Any) -> None:
        """Write `run.json`: the fingerprint, the outline with the thresholds, and the layout version.

        Raises:
            StoreError: The file cannot be written.
        """
        self._refuse_failed()
        if references := self._describe():
            fingerprint = replace(fingerprint, references={**references, **fingerprint.references})
        self.description = fingerprint, outline
        described = to_builtins(change_fingerprint(fingerprint, self._redact))
        document = {"storeVersion": STORE_VERSION, "fingerprint": described, "outline": outline}
        document["sha256"] = compute_checksum(document)
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        write_atomically(self.place / DESCRIPTION_NAME, [text.encode()])

    def write_inputs(self, records: Iterable[InputRecord], metadata_kept: Collection[str]) -> None:
        """Write `inputs.jsonl`. `metadata_kept`: metadata keys to store even without texts.

        Raises:
            StoreError: The file cannot be written.
        """
        kept = records if self._texts else (record.without_texts(metadata_kept) for record in records)
        lines = (self._encode(record, number) for number, record in enumerate(kept, 1))
        self._refuse_failed()
        write_atomically(self.place / INPUTS_NAME, lines)

    def write_baseline(self, content: bytes) -> None:
        """Write `baseline.json`, a copy of the run's baseline. Baselines are committed to git and have no secrets.

        Raises:
            StoreError: The file cannot be written.
        """
        write_atomically(self.place / BASELINE_NAME, [content])

    def append(self, record: ReplyRecord | TurnRecord | ScoresRecord | SpansRecord | TraceRecord) -> None:
        """Append one record, or what it has besides texts if these are not stored.

        The record survives a kill immediately, but in `together`, and a power failure about a second later.

        Raises:
            StoreError: The record cannot be written. Earlier records are intact. The log accepts no more records.
        """
        kept = record if self._texts else record.without_texts(WITHHELD)
        if kept is None:
            return
        if isinstance(kept, ReplyRecord) and kept.reply and kept.reply.trace:
            for part in self._take_out_texts(self._redact_record(kept)):
                self._append(part)
        else:
            self._write(self._encode(kept, self._number + 1))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the records of the block in one piece at its end, also after an error. Until then, a kill loses them.

        A line costs as much to write as to make.

        Raises:
            StoreError: As in `append`.
        """
        held = self.held = []
        try:
            yield
        finally:
            self.held = None
            if held:
                self._put(held)

    def conclude_with(self, record: PeopleRecord | ControlsRecord) -> None:
        """Append what the run is concluded with, besides its scores.

        Raises:
            StoreError: The record cannot be written.
        """
        self._append(record)

    def _encode(self, record: StoredRecord, number: int) -> bytes:
        """Return a line with its secrets redacted. Most lines have none, as a check of their bytes shows."""
        line = encode_record(record, number)
        return line if self._is_clean(line) else encode_record(self._redact_record(record), number)

    def _redact_record(self, record: _Stored) -> _Stored:
        """Return the record redacted. First store how to recognise a value that is redacted for the first time."""
        redacted = change_texts(record, self._redact)
        if self.description and self._describe().keys() - self.description[0].references.keys():
            self.write_description(*self.description)
        return redacted

    def _take_out_texts(self, record: ReplyRecord) -> Iterator[LogRecord]:
        """Yield the texts of a retriever's reply that are not stored yet, then the record that refers to them."""
        if record.reply is None or record.reply.retrieved_contexts is None:
            yield record
            return
        digests = []
        for text in record.reply.retrieved_contexts:
            digests.append(sha256(text.encode(errors="surrogatepass")).hexdigest()[:_TEXT_DIGEST_LENGTH])
            if digests[-1] not in self._stored_texts:
                self._stored_texts.add(digests[-1])
                yield TextRecord(digests[-1], text)
        reply = replace(record.reply, retrieved_contexts=None)
        yield replace(record, reply=reply, retrieved_texts=tuple(digests))

    def _refuse_failed(self, *, is_final: bool = True) -> None:
        """Raise if an earlier write failed: the log accepts no more records.

        `is_final`: the write replaces a file of the run, so also raise if another process has taken over the run. A
        record needs no such check: it goes to the file that was the log before.
        """
        if self._sync.failure and not self._failure:
            self._failure = str(store_error(self._path, self._sync.failure))
        if is_final and self._is_seized():
            self._failure = f"{self.folder}: another process has taken over this run"
        if self._failure:
            raise StoreError(self._failure)

    def _is_seized(self) -> bool:
        with store_errors(self._path):
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())

    def _append(self, record: LogRecord) -> None:
        self._write(encode_record(record, self._number + 1))

    def _write(self, line: bytes) -> None:
        self._number += 1
        if self.held is None:
            self._put([line])
        else:
            self.held.append(line)

    def _put(self, lines: Sequence[bytes]) -> None:
        self._refuse_failed(is_final=False)
        try:
            self._write_whole(b"".join(lines))
        except OSError as error:
            failure = store_error(self._path, error)
            self._failure = str(failure)
            raise failure from error
        self._sync.written(len(lines))

    def go_on_from(self, index: LogIndex) -> LogIndex:
        """Prepare to append to the existing log, repair it if it is damaged, and return its current index.

        `index`: the index of the log. A repair keeps the intact lines, and a copy of the damaged file.

        Raises:
            StoreError: The log cannot be written.
        """
        if index.damage:
            self._mend(index)
            index = read_log_index(self._path, index.restore)
        self._stored_texts.update(index.texts)
        return index

    def _mend(self, index: LogIndex) -> None:
        places = {place for attempt in index.attempts.values() for place in attempt.places}
        places |= {text.place for text in index.texts.values()}
        kept = [line.text for line in read_lines(self._path) if line.place in places]
        lines = [renumber(line, number) for number, line in enumerate(kept, 1)]
        with store_errors(self._path):
            aside = next(path for path in self._names_aside() if not path.exists())
            os.link(self._path, aside)
        self.replace_lines(lines)

    def replace_lines(self, lines: Iterable[bytes]) -> None:
        """Replace the whole log in one step. `lines`: encoded records, numbered from 1.

        Raises:
            StoreError: The log cannot be written. It is unchanged.
        """
        self._refuse_failed()
        with store_errors(self._path):
            self._sync.close()
            self._file.close()  # Windows replaces no open file
            try:
                write_atomically(self._path, lines)
            finally:
                self._file = self._path.open("ab+", buffering=0)
                self._number = parse_number(read_last_line(self._file)) or 0
                self._sync = GroupSync(self._file.fileno())

    def replace_inputs(self, lines: Iterable[bytes]) -> None:
        """Replace `inputs.jsonl` in one step. `lines`: encoded records, numbered from 1.

        Raises:
            StoreError: The file cannot be written. It is unchanged.
        """
        write_atomically(self.place / INPUTS_NAME, lines)

    def _names_aside(self) -> Iterator[Path]:
        return (self._path.with_name(f"{self._path.stem}.damaged-{number}.jsonl") for number in count(1))

    def write_report(self, parts: Iterable[str], *, is_latest: bool = True) -> None:
        """Write the concatenated parts to `report.json`, and point `latest` at this run unless it is an older one.

        The digest is logged before the file gets its name. `latest` is a relative symbolic link in the folder of the
        runs. The text is not redacted here: it is rendered from a redacted Run (reporters.redaction).

        Raises:
            StoreError: The file cannot be written.
        """
        self._refuse_failed()
        write_atomically(self.place / REPORT_NAME, self._log_digest(parts))
        if is_latest:
            replace_link(self.place.parent / LATEST_NAME, self.id)

    def _log_digest(self, parts: Iterable[str]) -> Iterator[bytes]:
        """Yield the parts as bytes, then append the digest of the whole to the log."""
        digest = sha256()
        for part in parts:
            encoded = part.encode()
            digest.update(encoded)
            yield encoded
        path = self.place / INPUTS_NAME
        with store_errors(path):
            inputs = digest_file(path) if path.exists() else None
        self._append(ReportRecord(self.id, digest.hexdigest(), inputs))

    def close(self) -> None:
        """Sync the log to disk and release the lock. A second call does nothing.

        Raises:
            StoreError: Some of the log may not have reached the disk.
        """
        if self._file.closed:
            return
        try:
            with store_errors(self._path):
                self._sync.close()
        finally:
            self._file.close()
            self._lock.release()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write_whole(self, line: bytes) -> None:
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError:
            with suppress(OSError):  # a torn last line is harmless: nothing follows it, and readers ignore it
                cut_torn_line(self._file)
            raise


def compute_checksum(document: Mapping[str, Any]) -> str:
    """Return the digest of `run.json` without its `sha256` key, independent of formatting."""
    checked = {key: value for key, value in document.items() if key != "sha256"}
    return sha256(json.dumps(checked, sort_keys=True).encode()).hexdigest()


def seize(folder: Path) -> None:
    """Take a run away from a process that holds it but may be stopped. The caller knows that it must not continue.

    Lock and log become new files of the same names, so that the other process writes to files without a name. It
    cannot replace the other files of the run, because it checks first whether the log is still its own.

    Raises:
        StoreError: The folder cannot be written.
    """
    log = folder / LOG_NAME
    with store_errors(log):
        content = log.read_bytes() if log.exists() else b""
    write_atomically(folder / LOCK_NAME, [])
    write_atomically(log, [content])
