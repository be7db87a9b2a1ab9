"""The log of a run's batches: what was announced, what the provider has, and its answers. A run with one is batched."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from evalspec.base.errors import StoreError
from evalspec.base.output_files import sync_folder
from evalspec.model import JudgeUsage
from evalspec.model.base import built
from evalspec.runs.store.files import cut_torn_line, store_errors, write_atomically
from evalspec.scoring.judge.batch_records import BATCH_RECORD, BatchAnswer, BatchRecord, sum_batched

BATCH_LOG_NAME = "batches.jsonl"


class BatchLog:
    """The log of one run, whose lock the caller has. `hide`, `restore`: replace the secrets of a JSON value, and bring
    them back.
    """

    def __init__(self, folder: Path, hide: Callable[[Any], Any], restore: Callable[[Any], Any]) -> None:
        self._path = folder / BATCH_LOG_NAME
        self._hide, self._restore = hide, restore

    def read(self) -> list[BatchRecord]:
        """Return all records, with their secrets.

        Raises:
            StoreError: the log cannot be read.
        """
        return [_change_reply(record, self._restore) for record in _read(self._path)]

    def append(self, records: Sequence[BatchRecord]) -> None:
        """Write records. They survive a power failure as soon as this returns.

        Raises:
            StoreError: they cannot be written.
        """
        with store_errors(self._path), self._path.open("ab+", buffering=0) as file:
            cut_torn_line(file)
            content = memoryview(_encode(_change_reply(record, self._hide) for record in records))
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())


def begin_batch_log(folder: Path) -> None:
    """Write an empty log, which makes a run a batched one.

    Raises:
        StoreError: it cannot be written.
    """
    path = folder / BATCH_LOG_NAME
    with store_errors(path):
        path.touch()
        sync_folder(folder)


def is_batched(folder: Path) -> bool:
    """Return whether the judge of a run answers in batches."""
    return (folder / BATCH_LOG_NAME).is_file()


def read_batch_usage(folder: Path) -> Mapping[str, JudgeUsage]:
    """Return what the judge used for answers in batches, by metric; empty for a run without batches.

    Raises:
        StoreError: the log cannot be read.
    """
    return sum_batched(_read(folder / BATCH_LOG_NAME)) if is_batched(folder) else {}


def erase_batch_replies(folder: Path) -> None:
    """Remove all texts of a run's judge from its log of batches. The usage stays.

    Raises:
        StoreError: the log cannot be read or written.
    """
    if is_batched(folder):
        path = folder / BATCH_LOG_NAME
        write_atomically(path, [_encode(_change_reply(record, lambda _reply: None) for record in _read(path))])


def _change_reply(record: BatchRecord, change: Callable[[Any], Any]) -> BatchRecord:
    return replace(record, reply=change(record.reply)) if isinstance(record, BatchAnswer) else record


def _encode(records: Iterable[BatchRecord]) -> bytes:
    return b"".join(json.dumps(to_builtins(record)).encode() + b"\n" for record in records)


def _read(path: Path) -> list[BatchRecord]:
    """Return the records of a log. A line without its end was being written when a process was killed."""
    with store_errors(path):
        lines = path.read_bytes().split(b"\n")[:-1]
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(convert(json.loads(line), built(BATCH_RECORD)))  # msgspec reads no lone surrogate
        except (ValidationError, ValueError) as error:
            message = f"{path}:{number}: the log of batches is damaged, so what was submitted is unknown"
            raise StoreError(f"{message}. restore the file, or start a new run") from error
    return records
