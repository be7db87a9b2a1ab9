"""The index of the samples of one run: an SQLite file beside the run, with which a page of 100,000 samples is quick.

It follows from the files of the run, and is written again when they change. docs/adr/0025 says why it exists.
"""

import errno
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from logging import WARNING
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import EvalspecError, StoreError
from evalspec.base.foreign_text import cut, encodable
from evalspec.inputs.datasets.filters import list_spellings
from evalspec.model import DatasetResult, Run, Sample, SampleResult, SampleStatus, ScoreStatus, Threshold
from evalspec.model.log import InputRecord, ReplyRecord
from evalspec.reports.affected_samples import AffectedSamples, find_affected
from evalspec.reports.markup.run_content import build_content
from evalspec.runs.store.derived import derived_folder, sign_run
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, DiskFull, store_error, store_errors
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.log_index import AttemptKey, LogIndex
from evalspec.runs.store.log_records import decode_at, read_log
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.service.kept_json import encode_kept
from evalspec.service.logs import configure_logs, log_event
from evalspec.verdict.summary import in_slice

LONGEST_MARK = 300
"""Longest tag or slice, in characters, by which samples are found."""

FAILED = "sample index failed"
EXIT_FULL = 28
"""There is no space for the index: trying again may help."""

_INDEX_NAME = "samples.db"
_EXCERPT = 300
_ROWS_AT_ONCE = 1000
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE run (signature TEXT NOT NULL, samples INTEGER NOT NULL, content BLOB NOT NULL);
CREATE TABLE samples (
    position INTEGER PRIMARY KEY, name TEXT NOT NULL, dataset TEXT NOT NULL, result BLOB NOT NULL,
    question TEXT, response TEXT, input_place INTEGER NOT NULL, places TEXT NOT NULL
);
CREATE TABLE marks (mark INTEGER, position INTEGER, PRIMARY KEY (mark, position)) WITHOUT ROWID;
CREATE TABLE mark_names (mark INTEGER PRIMARY KEY, name TEXT NOT NULL, samples INTEGER NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='trigram');
"""
_INDEXES = """
CREATE UNIQUE INDEX samples_by_name ON samples (name);
CREATE UNIQUE INDEX marks_by_name ON mark_names (name);
"""


class SampleRow(Struct, frozen=True):
    """One sample of the index. `question`, `response`: their beginnings, None if the run does not keep texts.

    `input_place`: byte offset in inputs.jsonl. `places`: for each attempt, byte offsets in the log of its reply, its
    scores, and its retrieved texts by digest.
    """

    position: int
    dataset: str
    result: SampleResult
    question: str | None
    response: str | None
    input_place: int
    places: tuple[tuple[int, tuple[int, ...], dict[str, int]], ...]


def index_path(run: Path) -> Path:
    """Return the path of a run's index, which may not exist."""
    return derived_folder(run) / _INDEX_NAME


def name_sample(dataset: str, id: str) -> str:
    """Return a text that identifies a sample of a run. It is ASCII, whatever the id is."""
    return json.dumps([dataset, id])


def name_mark(kind: str, value: str = "") -> str:
    """Return the name of a mark, by which samples are found: a tag, a slice, a failed metric, a reason."""
    return json.dumps([kind, value])


def is_current(run: Path) -> bool:
    """Return whether the index of a run exists and follows from its present files."""
    try:
        with open_sample_index(run) as database:
            row = database.execute("SELECT signature FROM run").fetchone()
    except StoreError:
        return False
    return bool(row) and row[0] == sign_run(run)


@contextmanager
def open_sample_index(run: Path) -> Iterator[sqlite3.Connection]:
    """Yield the index of a run for reading.

    Raises:
        StoreError: There is no index, or it cannot be read.
    """
    path = index_path(run)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def write_sample_index(run: Path) -> None:
    """Write the index of a run. An existing one is replaced in one step.

    Raises:
        StoreError: The run is damaged, its files have changed meanwhile, or the index cannot be written.
    """
    signature, path = sign_run(run), index_path(run)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    with store_errors(path):
        path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        written.unlink(missing_ok=True)
        written.touch(PRIVATE_FILE)
    try:
        with closing(sqlite3.connect(written, isolation_level=None)) as database:
            _fill(database, open_run(run), signature)
        with store_errors(path):
            written.replace(path)
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise store_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
        raise StoreError(f"{path}: {error}") from error
    finally:
        written.unlink(missing_ok=True)
    if sign_run(run) != signature:  # perhaps texts were erased, which the index still has
        path.unlink(missing_ok=True)
        raise StoreError(f"{run}: the run has changed meanwhile. try again")


def _fill(database: sqlite3.Connection, stored: StoredRun, signature: str) -> None:
    database.executescript(_SCHEMA)
    marks = _Marks()
    run = _read_run(stored)
    concerned = find_affected(run)
    rows = _list_rows(stored, run, marks, _list_reasons(run, concerned))
    database.execute("BEGIN")
    count = 0
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        database.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [row[0] for row in part])
        texts = [(row[0][0], row[1]) for row in part if row[1] is not None]
        database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", texts)
        count += len(part)
    database.executemany("INSERT INTO marks VALUES (?, ?)", marks.list_pairs())
    database.executemany("INSERT INTO mark_names VALUES (?, ?, ?)", marks.list_names())
    content = encode_kept(build_content(run, concerned))
    database.execute("INSERT INTO run VALUES (?, ?, ?)", (signature, count, content))
    database.execute("COMMIT")
    database.executescript(_INDEXES)


class _Marks:
    """The samples of each mark."""

    def __init__(self) -> None:
        self._positions: dict[str, list[int]] = {}

    def add(self, position: int, names: Iterable[str]) -> None:
        """Add a sample, by position, to marks."""
        for name in set(names):
            self._positions.setdefault(name, []).append(position)

    def list_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield every mark, by number, with the position of every sample."""
        for number, name in enumerate(self._positions):
            yield from ((number, position) for position in self._positions[name])

    def list_names(self) -> Iterator[tuple[int, str, int]]:
        """Yield the number, the name and the number of samples of every mark."""
        for number, (name, positions) in enumerate(self._positions.items()):
            yield number, name, len(positions)


def _read_run(stored: StoredRun) -> Run:
    """Return the run of the report. An interrupted run is reconstructed from its log."""
    from evalspec.model.report_reading import read_report
    from evalspec.runs.runner.reread import conclude_stored
    from evalspec.runs.store.damage import refuse_damage

    refuse_damage(stored)
    return read_report(stored.report) if stored.report.is_file() else conclude_stored(stored)


def _list_reasons(run: Run, concerned: Sequence[AffectedSamples | None]) -> dict[str, dict[str, list[int]]]:
    """Return the numbers of the reasons that are about a sample, by dataset and id of the sample."""
    reasons: dict[str, dict[str, list[int]]] = {dataset.name: {} for dataset in run.datasets}
    for number, found in enumerate(concerned):
        if found is not None:
            dataset = run.datasets[found.dataset]
            for place in found.places:
                reasons[dataset.name].setdefault(dataset.samples[place].id, []).append(number)
    return reasons


def _list_rows(
    stored: StoredRun, run: Run, marks: _Marks, reasons: Mapping[str, Mapping[str, Sequence[int]]]
) -> Iterator[tuple[tuple[Any, ...], str | None]]:
    """Yield a row per sample in the order of the run, with the text to search. Adds the marks of each sample."""
    index, path = stored.read_whole_index(), stored.folder / INPUTS_NAME
    results = {dataset.name: iter(dataset.samples) for dataset in run.datasets}
    datasets = {dataset.name: dataset for dataset in run.datasets}
    for position, (line, record) in enumerate(read_log(path, InputRecord)):
        dataset, sample = record.dataset, record.sample
        result = next(results.get(dataset, iter(())), None)
        if result is None or result.id != sample.id:
            raise StoreError(f"{path}:{line.at}: not a sample of this run. the file was changed; restore it")
        marks.add(position, _list_marks(datasets[dataset], result))
        marks.add(position, (name_mark("reason", str(number)) for number in reasons[dataset].get(sample.id, ())))
        places = [_find_places(index, AttemptKey(dataset, sample.id, n)) for n in range(1, stored.outline.repeats + 1)]
        question, responses = _read_texts(stored, index, dataset, sample)
        shown = (_begin(question), _begin(responses[0] if responses else None))
        head = (position, name_sample(dataset, sample.id), dataset, encode_kept(result))
        whole = None if question is None else encodable("\n".join([question, *responses]))
        yield (*head, *shown, line.place, json.dumps([one for one in places if one])), whole


def _find_places(index: LogIndex, key: AttemptKey) -> tuple[int, list[int], dict[str, int]] | None:
    """Return the number of an attempt with the byte offsets of its records, None if there is no such attempt."""
    found = index.attempts.get(key)
    if found is None:
        return None
    digests = _read_digests(index, found.places[0]) if index.texts else ()
    return key.attempt, found.places, {digest: index.texts[digest].place for digest in digests}


def _read_digests(index: LogIndex, place: int) -> Sequence[str]:
    with store_errors(index.path), index.path.open("rb") as log:
        return decode_at(index.path, log, place, ReplyRecord).retrieved_texts or ()


def _read_texts(stored: StoredRun, index: LogIndex, dataset: str, sample: Sample) -> tuple[str | None, list[str]]:
    """Return the question and the responses of a sample; None and nothing if the run does not keep them."""
    if not stored.outline.has_texts or (dataset, sample.id) in index.erased:
        return None, []
    exchanges = index.read_exchanges(iter([(dataset, sample)]), stored.outline.repeats)
    return sample.question, [one.exchange.response for one in exchanges if one.exchange.reply is not None]


def _list_marks(dataset: DatasetResult, result: SampleResult) -> Iterator[str]:
    yield name_mark("dataset", dataset.name)
    for tag in result.tags:
        yield name_mark("tag", tag)
    for slice in _list_slices(result):
        if len(slice) <= LONGEST_MARK:
            yield name_mark("slice", slice)
    failed = [metric for metric, score in result.scores.items() if score.status is ScoreStatus.FAILED]
    if failed or result.status is SampleStatus.FAILED:
        yield name_mark("failed")
    for metric in failed:
        yield name_mark("failed", metric)
    for metric, score in result.scores.items():
        if score.status is not ScoreStatus.NOT_APPLICABLE:
            yield name_mark("metric", metric)
    for limit in dataset.thresholds:
        if _is_beyond(result, limit):
            yield name_mark("beyond")
            yield name_mark("beyond", limit.metric)


def _is_beyond(result: SampleResult, limit: Threshold) -> bool:
    score = result.scores.get(limit.metric)
    if score is None or score.value is None:
        return False
    return not limit.holds(score.value) and in_slice(result, limit.slice)


def _list_slices(result: SampleResult) -> Iterator[str]:
    """Yield the names of slices that `in_slice` finds the sample in."""
    yield from result.tags
    yield from result.slices
    for key, value in result.metadata.items():
        yield from (f"{key}={spelling}" for spelling in list_spellings(value))


def _begin(text: str | None) -> str | None:
    return None if text is None else encodable(cut(text, _EXCERPT))


def main() -> int:
    """Write the index of the run whose folder is the argument. The last line of the log has the error, if any."""
    configure_logs()
    try:
        write_sample_index(Path(sys.argv[1]))
    except EvalspecError as error:
        log_event(FAILED, level=WARNING, error=str(error))
        return EXIT_FULL if isinstance(error, DiskFull) else int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
