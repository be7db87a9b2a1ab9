"""Pages of the samples of a run from its index, and single samples with all their texts from its files."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.model import DatasetResult, Run, Sample, SampleResult, StoredExchange
from evalspec.model.log import InputRecord
from evalspec.reports.rows import AttemptRow, read_attempts
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.log_index import LogIndex, StoredText
from evalspec.runs.store.log_records import decode_at
from evalspec.runs.store.run_log import LOG_NAME
from evalspec.service.kept_json import decode_kept
from evalspec.service.sample_index import (
    SampleRow,
    name_mark,
    name_sample,
    open_sample_index,
)

LEAST_TEXT = 3
"""Number of characters that a text to search needs at least: texts are found by sequences of three."""

_ROW = "s.position, s.dataset, s.result, s.question, s.response, s.input_place, s.places"


class SampleFilter(Struct, frozen=True):
    """Which samples to list. `failed`, `beyond`: of `metric`, or of any. `after`: only those after this position.

    `before`: only those before this position, the last one first.
    `failed`: no usable reply, or a score that could not be computed. `beyond`: a score beyond a threshold.
    `reason`: the samples that this reason of the verdict is about, by its number.
    """

    dataset: str | None = None
    metric: str | None = None
    failed: bool = False
    beyond: bool = False
    tags: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    text: str | None = None
    after: int = -1
    before: int | None = None
    reason: int | None = None

    def list_marks(self) -> list[str]:
        """Return the names of the marks that a sample needs."""
        metric = self.metric or ""
        named = [("dataset", self.dataset)] if self.dataset is not None else []
        named += [("metric", metric)] if metric and not self.failed else []
        named += [("failed", metric)] if self.failed else []
        named += [("beyond", metric)] if self.beyond else []
        named += [("reason", str(self.reason))] if self.reason is not None else []
        named += [("tag", tag) for tag in self.tags]
        named += [("slice", slice) for slice in self.slices]
        return [name_mark(kind, value) for kind, value in named]


class SampleDetails(Struct, frozen=True):
    """One sample with its attempts. Texts are empty if the run does not keep them."""

    row: SampleRow
    sample: Sample
    attempts: Sequence[AttemptRow]


def list_samples(run: Path, wanted: SampleFilter, limit: int) -> list[SampleRow]:
    """Return samples of a run in its order. Its index must be current.

    Raises:
        StoreError: The index cannot be read.
    """
    with open_sample_index(run) as database:
        marks = _find_marks(database, wanted.list_marks())
        if marks is None:
            return []
        statement, values = _build_statement(marks, wanted)
        return [_to_row(row) for row in database.execute(f"{statement} LIMIT {int(limit)}", values)]


def find_sample(run: Path, dataset: str, id: str) -> SampleDetails | None:
    """Return one sample of a run with all its texts, None if there is none. The index must be current.

    Raises:
        StoreError: The index or the files of the run cannot be read.
    """
    row = find_row(run, dataset, id)
    if row is None:
        return None
    sample = read_sample(run, row)
    exchanges = [] if row.question is None else list(read_stored_attempts(run, row, sample))
    part = DatasetResult(name=dataset, metrics={}, samples=(row.result,))
    single = Run(id=run.name, has_texts=bool(exchanges), datasets=(part,))
    return SampleDetails(row, sample, list(read_attempts(single, lambda: exchanges)))


def find_row(run: Path, dataset: str, id: str, index: sqlite3.Connection | None = None) -> SampleRow | None:
    """Return what the index knows of one sample, None if there is none. The index must be current.

    `index`: the open index, which is otherwise opened for this one sample.

    Raises:
        StoreError: The index cannot be read.
    """
    named = f"SELECT {_ROW} FROM samples s WHERE s.name = ?"  # noqa: S608 - a constant
    with nullcontext(index) if index is not None else open_sample_index(run) as database:
        found = database.execute(named, (name_sample(dataset, id),)).fetchone()
    return None if found is None else _to_row(found)


def list_results(run: Path, dataset: str) -> Iterator[tuple[SampleResult, bool]]:
    """Yield the results of a dataset, each with whether the texts are kept. The index must be current.

    Raises:
        StoreError: The index cannot be read.
    """
    asked = "SELECT result, question IS NOT NULL FROM samples WHERE dataset = ? ORDER BY position"
    with open_sample_index(run) as database:
        for result, is_kept in database.execute(asked, (dataset,)):
            yield decode_kept(result, SampleResult), bool(is_kept)


def _find_marks(database: sqlite3.Connection, names: Sequence[str]) -> list[int] | None:
    """Return the numbers of marks, rarest first. None: one of them is unknown, so that no sample has all."""
    asked = "SELECT mark, samples FROM mark_names WHERE name = ?"
    found = [database.execute(asked, (name,)).fetchone() for name in names]
    if None in found:
        return None
    return [mark for mark, _ in sorted(found, key=lambda row: int(row[1]))]


def _build_statement(marks: Sequence[int], wanted: SampleFilter) -> tuple[str, list[Any]]:
    """Return the statement for a page, and its values. Each part of it reads its rows in the order of the samples."""
    values: list[Any]
    is_after = wanted.before is None
    side, order, limit = (">", "ASC", wanted.after) if is_after else ("<", "DESC", wanted.before)
    if wanted.text is not None:
        source, place = "texts t", "t.rowid"
        conditions, values = ["texts MATCH ?"], [f'"{wanted.text.replace(chr(34), chr(34) * 2)}"']
    elif marks:
        first, *marks = marks
        source, place = "marks t", "t.position"
        conditions, values = ["t.mark = ?"], [first]
    else:
        asked = f"SELECT {_ROW} FROM samples s WHERE s.position {side} ? ORDER BY s.position {order}"  # noqa: S608
        return asked, [limit]
    joins = [f"CROSS JOIN marks m{n} ON m{n}.mark = ? AND m{n}.position = {place}" for n in range(len(marks))]
    joins.append(f"CROSS JOIN samples s ON s.position = {place}")
    parts = [*joins, f"WHERE {' AND '.join(conditions)} AND {place} {side} ? ORDER BY {place} {order}"]
    return f"SELECT {_ROW} FROM {source} {' '.join(parts)}", [*marks, *values, limit]  # noqa: S608


def _to_row(row: Sequence[Any]) -> SampleRow:
    position, dataset, result, question, response, input_place, places = row
    known = tuple((number, tuple(records), texts) for number, records, texts in json.loads(places))
    return SampleRow(position, dataset, decode_kept(result, SampleResult), question, response, input_place, known)


def read_sample(run: Path, row: SampleRow) -> Sample:
    """Return a sample with its texts from the files of its run."""
    path = run / INPUTS_NAME
    with store_errors(path), path.open("rb") as inputs:
        return decode_at(path, inputs, row.input_place, InputRecord).sample


def read_stored_attempts(run: Path, row: SampleRow, sample: Sample) -> Iterator[StoredExchange]:
    """Yield the attempts at a sample with their texts from the files of its run."""
    for _, places, texts in row.places:
        stored = {digest: StoredText(place, frozenset()) for digest, place in texts.items()}
        yield from LogIndex(run / LOG_NAME, texts=stored).read_at(places, sample)
