"""Write samples as records of a foreign system, and list what they cannot represent.

A loss is what differs after a sample is written and read again, so the lists can never be incomplete.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DatasetContent, DatasetFormat, ReadingNotes, Source, Written, list_relevant
from evalspec.inputs.datasets.delimited import render_cell, write_delimited
from evalspec.inputs.datasets.jsonl_lines import list_fields
from evalspec.inputs.datasets.located import refuse_empty
from evalspec.inputs.datasets.losses import list_default_losses, list_document_losses
from evalspec.inputs.datasets.parquet_table import TextColumn, infer_types, write_rows
from evalspec.inputs.datasets.record_files import FileRow
from evalspec.inputs.datasets.record_form import BadField, RecordForm
from evalspec.model import Sample

_CELLS = (".csv", ".tsv")
_COMPARED = {
    "id": "the ids",
    "user_input": "the conversation before the last question",
    "references": "all the right answers",
    "retrieved_contexts": "the passages that the agent had",
    "reference_contexts": "the passages that contain the answer",
    "groups": "which relevant documents are alternatives",
    "answerable": "which questions can be answered",
    "expected_tools": "which tools should be called",
    "forbidden_tools": "which tools must not be called",
    "max_steps": "how many steps are allowed",
    "expected_state": "what the world should be like afterwards",
    "turns": "what the user says after the first turn",
    "user": "whom a model plays",
    "tags": "the tags",
    "metadata": "the metadata",
}
_JUDGEMENTS = "which documents are relevant"
_GRADES = "grades other than 1, and that a document is judged not relevant"

Record = dict[str, Any]


class Writer(Struct, frozen=True):
    """How to write samples as records of a form.

    `columns`: by field, the column to write if it is not the first of the form, or a dotted path for nested objects.
    The field `metadata` with the column `*` makes a column of each key. `omits`: fields of the form that are not
    written. `complete`: makes a record whole. `has_many_answers`, `has_conversations`: whether the columns of the
    answer and the question take lists. `arguments_key`: the name of the arguments of a call. `list_key`: writes one
    JSON document with the records under this key. `suffix`: of files whose name has another or none.
    """

    form: RecordForm
    columns: Mapping[str, str] = {}
    omits: Collection[str] = ()
    complete: Callable[[Record, Sample], Record] = lambda record, _: record
    has_many_answers: bool = False
    has_conversations: bool = False
    arguments_key: str = "arguments"
    list_key: str = ""
    suffix: str = ".jsonl"

    def list_losses(self, content: DatasetContent) -> list[str]:
        """Return what records cannot represent of a content."""
        lost: Counter[str] = Counter()
        for sample in content.samples:
            lost.update(self._compare(sample, is_cells=self.suffix in _CELLS))
        total = len(content.samples)
        losses = [f"{what} ({count} of {total} samples)" for what, count in lost.items()]
        return losses + list_document_losses(content) + list_default_losses(content)

    def write(self, content: DatasetContent, path: Path) -> Written:
        """Write the samples in the container of the path's suffix: JSON Lines, a JSON list, CSV, TSV or Parquet.

        Raises:
            InvalidInput: no sample can be written, or a cell or column cannot hold a value.
        """
        is_cells = self._suffix_of(path) in _CELLS

        def records() -> Iterator[Record]:
            kept = (s for s in content.samples if self._read_back(s, is_cells=is_cells) is not None)
            return (self._to_cells(self.to_record(s)) if is_cells else self.to_record(s) for s in kept)

        count = sum(1 for _ in records())
        refuse_empty(count, path)
        _CONTAINERS.get(self._suffix_of(path), _write_lines)(records, path, self.list_key)
        if self._suffix_of(path) != self.suffix:
            self._verify(content, path)
        return Written(count)

    def _suffix_of(self, path: Path) -> str:
        return path.suffix if path.suffix in _CONTAINERS else self.suffix

    def to_record(self, sample: Sample) -> Record:
        """Return a sample as a record, without what the record cannot represent."""
        record: Record = {}
        columns = {**{field: names[0] for field, names in self.form.columns.items()}, **self.columns}
        values = list_fields(sample) | {"relevant": self._spell_relevant(sample)}
        values["expected_tools"] = self._spell_calls(sample)
        if not self.has_conversations:
            values["input"] = sample.question
        if not self.has_many_answers:
            values["expected"] = sample.reference
        for field, value in values.items():
            if value is not None and field in columns and field not in self.omits:
                _put(record, columns[field], value)
        return self.complete(record, sample)

    def can_hold(self, sample: Sample) -> bool:
        """Return whether a reader would accept the record of a sample."""
        return self._read_back(sample, is_cells=False) is not None

    def _spell_calls(self, sample: Sample) -> list[Record] | None:
        if sample.expected_tools is None:
            return None
        calls = map(to_builtins, sample.expected_tools)
        return [{self.arguments_key if key == "arguments" else key: call[key] for key in call} for call in calls]

    def _spell_relevant(self, sample: Sample) -> Any:
        if sample.groups is not None:
            return [list(group) for group in sample.groups]
        if sample.qrels is None or all(grade == 1 for grade in sample.qrels.values()):
            return None if sample.qrels is None else list(sample.qrels)
        return dict(sample.qrels) if self.suffix in _CELLS else list_relevant(sample)

    def _read_back(self, sample: Sample, *, is_cells: bool) -> Sample | None:
        """Return the sample that a reader would get, None if it would refuse the record."""
        record = self.to_record(sample)
        if is_cells:
            record = {key: text for key, text in self._to_cells(record).items() if text}
        try:
            return self.form.parse(FileRow(0, record, is_cells)).sample
        except BadField:
            return None

    def _to_cells(self, record: Record) -> dict[str, str]:
        """Return a record with the text of each cell."""
        delimiter = self.form.delimiter
        joined = {
            key: delimiter.join(value)
            for key, value in record.items()
            if delimiter and isinstance(value, list) and all(isinstance(item, str) for item in value)
        }
        return {key: render_cell(value) for key, value in (record | joined).items()}

    def _compare(self, sample: Sample, *, is_cells: bool) -> Iterator[str]:
        """Yield what of a sample is lost."""
        read = self._read_back(sample, is_cells=is_cells)
        if read is None:
            yield "samples that the format rejects, such as those with a blank question"
            return
        for field, what in _COMPARED.items():
            if getattr(read, field) != getattr(sample, field) or (
                field == "metadata" and json.dumps(read.metadata) != json.dumps(sample.metadata)
            ):
                yield what
        if any(check not in read.checks for check in sample.checks):  # an answer may be written as one more check
            yield "the checks"
        if read.qrels != sample.qrels:
            has_column = read.qrels is not None and sample.qrels is not None
            yield _GRADES if has_column else _JUDGEMENTS

    def _verify(self, content: DatasetContent, path: Path) -> None:
        """Check that the file has what its records have, because cells and columns have fewer types than JSON."""
        wanted = (self._read_back(sample, is_cells=False) for sample in content.samples)
        expected = [replace(sample, line=None) for sample in wanted if sample is not None]
        notes = ReadingNotes()
        found = [replace(sample, line=None) for sample in self.form.read(Source(path, path.name), notes)]
        if found != expected:
            pairs = zip(expected, [*found, *[None] * len(expected)], strict=False)
            first, other = next(((one, other) for one, other in pairs if one != other), (None, None))
            lost = [
                what for field, what in _COMPARED.items() if other and getattr(first, field) != getattr(other, field)
            ]
            message = f"{path.suffix} cannot hold the sample '{first.id if first else ''}' unchanged"
            message += f": {', '.join(lost)} would differ" if lost else ""
            raise InvalidInput(Problem(message, "write it as .jsonl", path.name))


def _put(record: Record, column: str, value: Any) -> None:
    """Set a value at a dotted path. The column `*` spreads a mapping, except over columns that are set."""
    if column == "*":
        record |= {key: item for key, item in value.items() if key not in record}
        return
    *outer, last = column.split(".")
    for key in outer:
        record = record.setdefault(key, {})
    known = record.get(last)
    record[last] = {**value, **known} if isinstance(known, dict) and isinstance(value, dict) else value


_Records = Callable[[], Iterable[Record]]


def _write_lines(records: _Records, path: Path, _key: str) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records())


def _write_json(records: _Records, path: Path, key: str) -> None:
    opening, closing = (f'{{\n"{key}": [', "]\n}\n") if key else ("[", "]\n")
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(opening)
        for number, record in enumerate(records()):
            file.write((",\n" if number else "\n") + json.dumps(record, ensure_ascii=False))
        file.write(f"\n{closing}")


def _write_cells(records: _Records, path: Path, _key: str) -> None:
    write_delimited(records(), list(dict.fromkeys(key for record in records() for key in record)), path)


def _write_table(records: _Records, path: Path, _key: str) -> None:
    columns = dict.fromkeys(key for record in records() for key in record)
    types = infer_types(records)
    texts: Sequence[TextColumn] = ()
    kept = {name: types[name] for name in columns if name in types}
    write_rows(({key: record.get(key) for key in kept} for record in records()), texts, kept, path)


_CONTAINERS = {
    ".jsonl": _write_lines,
    ".json": _write_json,
    ".csv": _write_cells,
    ".tsv": _write_cells,
    ".parquet": _write_table,
}


def make_format(
    name: str,
    summary: str,
    form: RecordForm,
    recognises: Callable[[Path, bytes], bool],
    writer: Writer | None = None,
    *,
    read: Callable[[Source, ReadingNotes], Iterator[Sample]] | None = None,
    is_generic: bool = False,
) -> DatasetFormat:
    """Return the format of records of a form. Without a writer, evalspec only reads it.

    `read`: reads a source, if more than the form is needed.
    """
    return DatasetFormat(
        name=name,
        summary=summary,
        read=read or form.read,
        recognises=recognises,
        list_losses=writer.list_losses if writer else lambda _: [],
        write=writer.write if writer else None,
        is_generic=is_generic,
        columns=frozenset(name.partition(".")[0] for names in form.columns.values() for name in names),
        takes_fields=True,
    )
