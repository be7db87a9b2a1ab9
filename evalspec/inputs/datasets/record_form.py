"""Read records of a foreign system as samples, by the names of its columns.

A form is data: the columns of each field, which other columns are metadata, and what it can store when written.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from evalspec.base.errors import Problem, split_fix
from evalspec.base.foreign_text import inert
from evalspec.base.jsonl import read_head
from evalspec.base.registry import near_miss
from evalspec.inputs.datasets.base import ReadingNotes, Source
from evalspec.inputs.datasets.filters import ABSENT
from evalspec.inputs.datasets.located import LineOfFile, SeenIds, content_id, problem_at
from evalspec.inputs.datasets.record_files import WITH_HEADER, FileRow, probe, read_rows
from evalspec.inputs.datasets.record_names import COLUMNS_SHOWN, NAME_INPUT, SoughtColumns, compile_path, match_columns
from evalspec.inputs.datasets.record_values import CONVERTERS, IN_CELLS, BadValue, converter_of, parse_cell
from evalspec.model import AgentReply, Sample
from evalspec.model.samples import render_input

REPLY_FIELDS = ("response", "retrieved_context_ids")
SAME = "--responses same"
_SEPARATORS = (";", "|", "\n")
"""What people write between ids, but may also be in one."""
_ONE_ID = "`;`, `|` or a line break in `relevant` is read as part of one id; separate ids with commas"
_NO_NAMES: tuple[str, ...] = ()

Columns = Mapping[str, tuple[str, ...]]


class Variant(Struct, frozen=True):
    """Other columns for records that have one of `having` and none of `lacking`. `notice`: for the user."""

    columns: Columns
    having: frozenset[str]
    lacking: frozenset[str] = frozenset()
    notice: str = ""

    def fits(self, names: Collection[str]) -> bool:
        """Return whether the variant applies to a record with these columns."""
        return not self.having.isdisjoint(names) and self.lacking.isdisjoint(names)


class RecordForm(Struct, frozen=True):
    """The records of one system.

    `columns`: by field of evalspec, the columns that may have it, the preferred one first: a name, a dotted path
    (`inputs.question`, or `inputs.*` for the only value), or a JSONPath query (`$.docs[*].text`). `variants`: the first
    that fits overrides columns. `metadata`: other columns that are kept as metadata without a notice. `adapt`: rewrites
    a record first. `delimiter`: separates the passages of one text. `opens_cells`: columns whose cells may be JSON.
    """

    columns: Columns
    variants: tuple[Variant, ...] = ()
    metadata: frozenset[str] = frozenset()
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    delimiter: str = ""
    opens_cells: tuple[str, ...] = ()

    def read(self, source: Source, notes: ReadingNotes) -> Iterator[Sample]:
        """Yield the samples of a file in any container. Problems, notices and replies go to the notes."""
        yield from self.read_from(
            read_rows(source.path, source.shown_as, notes.problems, notes.warnings), source, notes
        )

    def read_from(self, rows: Iterable[FileRow], source: Source, notes: ReadingNotes) -> Iterator[Sample]:
        """Yield the samples of rows that another reader found."""
        given = find_bad_fields(source)
        notes.problems.extend(given)
        if not given:
            yield from _Reading(self, source, notes).read(rows)

    def parse(
        self, row: FileRow, fields: Mapping[str, str] | None = None, spelled: Mapping[str, str] | None = None
    ) -> "Parsed":
        """Return the parts of a record. `spelled`: the names that its columns are known by, if they are others.

        Raises:
            BadField: a value is invalid, or the question is missing.
        """
        return _parse(self, row, fields or {}, spelled or {})

    def match(self, columns: Collection[str], fields: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the columns of a table by the known names that they mean in other letters."""
        of_form = (self.columns, *(variant.columns for variant in self.variants))
        names = (names for one in of_form for names in one.values())
        return match_columns(chain(fields.values(), *names), columns)


class Parsed(NamedTuple):
    """A record as a sample, its reply if it has one, the columns that nothing reads, and the notice of its variant."""

    sample: Sample
    reply: AgentReply | None
    unread: Collection[str]
    notice: str
    has_id: bool


class BadField(ValueError):
    """A column of a record is invalid. `is_absent`: the record has no column of the question."""

    def __init__(self, column: str, message: str, fix: str = "", *, is_absent: bool = False) -> None:
        super().__init__(message)
        self.column, self.fix, self.is_absent = column, fix, is_absent


def has_columns(*wanted: Collection[str]) -> Callable[[Any, bytes], bool]:
    """Return a function that recognises files whose first record has one column of each of `wanted`."""

    def recognise(path: Any, head: bytes) -> bool:
        columns = probe(path, head).columns
        return all(not columns.isdisjoint(names) for names in wanted)

    return recognise


def find_bad_fields(source: Source) -> list[Problem]:
    """Return the problems of the names that `fields` of the manifest gives."""
    problems = []
    for field, name in source.fields.items():
        if field not in CONVERTERS:
            problems.append(
                Problem(f"unknown field '{field}'", near_miss(field, CONVERTERS), source.shown_as, field="fields")
            )
            continue
        reason = compile_path(name).problem
        if reason:
            problems.append(Problem(reason, file=source.shown_as, field=f"fields.{field}"))
    return problems


class _Reading:
    """One pass over the records of a file."""

    def __init__(self, form: RecordForm, source: Source, notes: ReadingNotes) -> None:
        self._form, self._source, self._notes = form, source, notes
        found = probe(source.path, read_head(source.path))
        self._header = sorted(found.columns) if found.container in WITH_HEADER else []
        self._sought = SoughtColumns(dict(source.fields), bool(self._header), {})
        self._unread: Counter[str] = Counter()
        self._notices: dict[str, int] = {}
        self._replies = 0

    def read(self, rows: Iterable[FileRow]) -> Iterator[Sample]:
        notes, fields, sought = self._notes, self._source.fields, self._sought
        meant = self._form.match(self._header, fields)
        wrong = [self._explain_two(name, columns) for name, columns in meant.items() if len(columns) > 1]
        if self._header:
            sought.look_in(dict.fromkeys((*self._header, *meant)))
            wrong += sought.list_problems(self._source.shown_as)
        notes.problems += wrong
        if wrong:
            return
        spelled = {column: name for name, columns in meant.items() for column in columns}
        seen = SeenIds("id", notes.problems)
        line = LineOfFile(self._source.shown_as)
        count = 0
        for row in rows:
            count += 1
            line.number = row.line
            sought.look_in(row.value)
            try:
                parsed = self._form.parse(row, fields, spelled)
            except BadField as error:
                if error.is_absent and "input" in sought.missing and count == 1:
                    break
                notes.problems.append(problem_at(line, (error.column,) if error.column else (), str(error), error.fix))
                if error.is_absent and count == 1:
                    return  # the other records have the same columns
                continue
            nameless = "" if parsed.has_id else "this record (same input, expected and context)"
            if not seen.add(parsed.sample.id, line, (), nameless):
                continue
            self._note(parsed, row.line)
            yield parsed.sample
        if not count and not notes.problems:
            notes.problems.append(Problem("there are no records", "write one per sample", self._source.shown_as))
        notes.problems += sought.list_problems(self._source.shown_as)
        self._finish()

    def _explain_two(self, name: str, columns: Sequence[str]) -> Problem:
        both = " and ".join(f"'{inert(column)}'" for column in columns)
        return Problem(f"the columns {both} both mean {name}", "rename all but one", self._source.shown_as, 1)

    def _note(self, parsed: Parsed, line: int) -> None:
        self._unread.update(parsed.unread)
        if parsed.notice:
            self._notices.setdefault(parsed.notice, line)
        if parsed.reply is not None:
            self._replies += 1
            if self._source.with_replies:
                self._notes.replies[parsed.sample.id] = parsed.reply

    def _finish(self) -> None:
        shown_as, warnings = self._source.shown_as, self._notes.warnings
        for notice, line in self._notices.items():
            message, fix = split_fix(notice)
            warnings.append(Problem(message, fix, shown_as, line))
        names = sorted(self._unread)
        if names:
            more = f" and {len(names) - COLUMNS_SHOWN} more" if len(names) > COLUMNS_SHOWN else ""
            message = f"columns kept as metadata only: {', '.join(map(inert, names[:COLUMNS_SHOWN]))}{more}"
            said = self._notes.remarks if self._header else warnings
            said.append(Problem(message, "if a metric needs one, name it in `fields`", shown_as))
        if self._replies and not self._source.with_replies:
            replies = "1 recorded reply" if self._replies == 1 else f"{self._replies:,} recorded replies"
            message = f"the file also has {replies}, not part of the samples"
            warnings.append(Problem(message, f"to score them instead of querying an agent, pass {SAME}", shown_as))


def _parse(form: RecordForm, row: FileRow, fields: Mapping[str, str], spelled: Mapping[str, str]) -> Parsed:
    record = row.value
    if not isinstance(record, dict):
        raise BadField("", "the record is not a JSON object", "write an object per sample")
    if spelled:
        record = {spelled.get(column, column): value for column, value in record.items()}
    if row.is_cells and form.opens_cells:
        record = {key: parse_cell(text) if key in form.opens_cells else text for key, text in record.items()}
    if form.adapt is not None:
        try:
            record = form.adapt(record)
        except BadValue as error:
            raise BadField("", str(error), error.fix) from error
    variant = next((one for one in form.variants if one.fits(record)), None)
    columns = {**form.columns, **variant.columns} if variant else form.columns
    values, used = _find_values(record, columns, fields, row.is_cells, form.delimiter)
    if "input" not in values:
        names = (fields["input"],) if "input" in fields else columns.get("input", _NO_NAMES)
        looked_for = ", ".join(names[:COLUMNS_SHOWN]) + (", …" if len(names) > COLUMNS_SHOWN else "")
        found = ", ".join(map(inert, _leave(record, used, deeply=True)[1][:COLUMNS_SHOWN])) or "no columns"
        fix = f"looked for {looked_for}; the record has {found}. {NAME_INPUT}"
        raise BadField("", "the record has no question", fix, is_absent=True)
    reply = _make_reply(values)
    rest, unread = _leave(record, used)
    if spelled:  # what nothing reads keeps its own name
        own = {name: column for column, name in spelled.items()}
        rest = {own.get(name, name): value for name, value in rest.items()}
        unread = [own.get(name, name) for name in unread]
    metadata = {**values.get("metadata", {})}
    metadata |= {key: value for key, value in rest.items() if key not in metadata}
    known = form.metadata | metadata.keys() - rest.keys()
    sample = _make_sample(values, metadata, row.line, has_reply=reply is not None)
    is_decided = variant is not None and not variant.having.isdisjoint(fields.values())
    notice = variant.notice if variant and not is_decided else ""
    if row.is_cells and any(mark in name for name in sample.qrels or () for mark in _SEPARATORS):
        notice = notice or _ONE_ID
    surprising = [name for name in unread if name not in known and name.partition(".")[0] not in form.metadata]
    return Parsed(sample, reply, surprising, notice, "id" in values)


def _find_values(
    record: dict[str, Any], columns: Columns, fields: Mapping[str, str], is_cells: bool, delimiter: str
) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Return the converted values by field, and the paths of the columns that they come from.

    A column that `fields` names for one field is not read as another one.
    """
    taken = {compile_path(name).head for name in fields.values()}
    values: dict[str, Any] = {}
    used: list[tuple[str, ...]] = []
    for field in CONVERTERS:
        own = field in fields
        for name in (fields[field],) if own else columns.get(field, _NO_NAMES):
            path = compile_path(name)
            if not own and path.head in taken:
                continue
            try:
                value = path.find(record)
                if value is ABSENT or value is None:
                    continue
                if is_cells and field in IN_CELLS and isinstance(value, str):
                    value = parse_cell(value)
                values[field] = converter_of(field, delimiter)(value)
            except BadValue as error:
                raise BadField(name, str(error), error.fix) from error
            used.append(path.locate(record))
            break
        if field == "input" and field not in values:
            break  # there is no sample, so nothing else matters
    return values, used


def _leave(
    record: dict[str, Any], used: Collection[tuple[str, ...]], *, deeply: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return what is left of a record without the used columns and without nulls, and the dotted names of it.

    `deeply`: name the inner columns of every object.
    """
    whole = {path[0] for path in used if len(path) == 1}
    parts: dict[str, set[str]] = {}
    for path in used:
        if len(path) > 1:
            parts.setdefault(path[0], set()).add(path[1])
    rest: dict[str, Any] = {}
    names: list[str] = []
    for key, value in record.items():
        if key in whole or value is None:
            continue
        if isinstance(value, dict) and (deeply or key in parts):
            gone = parts.get(key, ())
            inner = {name: item for name, item in value.items() if name not in gone and item is not None}
            names += [f"{key}.{name}" for name in inner]
            if inner:
                rest[key] = inner
            continue
        rest[key] = value
        names.append(key)
    return rest, names


def _make_reply(values: Mapping[str, Any]) -> AgentReply | None:
    if all(field not in values for field in REPLY_FIELDS):
        return None
    contexts, ids = values.get("context"), values.get("retrieved_context_ids")
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        raise BadField("", f"{len(ids)} retrieved ids for {len(contexts)} contexts", "give one id per context")
    more: dict[str, Any] = {name: values.get(name) for name in ("tool_calls", "usage", "latency_ms", "steps")}
    return AgentReply(values.get("response", ""), contexts, ids, **more)


def _make_sample(values: Mapping[str, Any], metadata: dict[str, Any], line: int, *, has_reply: bool) -> Sample:
    question, answers, contexts = values["input"], values.get("expected", ()), values.get("context")
    qrels, groups = values.get("relevant", (None, None))
    name = values.get("id")
    if name is None:
        # a new run of the system changes the passages of its replies, and must not change the id
        expected = answers[0] if len(answers) == 1 else list(answers) or ""
        given = None if has_reply or contexts is None else list(contexts)
        name = content_id({"input": render_input(question), "expected": expected, "context": given})
    return Sample(
        id=name,
        user_input=question,
        references=tuple(filter(str.strip, answers)),
        retrieved_contexts=contexts,
        reference_contexts=values.get("reference_contexts"),
        qrels=qrels,
        groups=groups,
        answerable=values.get("answerable"),
        tags=values.get("tags", ()),
        metadata=metadata,
        line=line,
        expected_tools=values.get("expected_tools"),
        forbidden_tools=values.get("forbidden_tools"),
        checks=values.get("checks", ()),
    )
