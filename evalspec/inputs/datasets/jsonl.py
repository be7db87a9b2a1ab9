"""The native format: one JSON object per line, with AgentSpec's field names.

Common lines are decoded with msgspec. Other lines (groups, nulls, lone surrogates, deep nesting, errors) are left to
the strict reader, which reports all errors.
"""

import difflib
import json
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, MsgspecError, Struct, to_builtins
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import inert, normalize
from evalspec.base.json_matching import list_bad_matchers
from evalspec.base.jsonl import MAX_DEPTH
from evalspec.inputs.checks import JsonlCheck, render_check
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetFormat, ReadingNotes, Source, Written
from evalspec.inputs.datasets.expected_states import read_expected_state, render_expected_state
from evalspec.inputs.datasets.located import LineOfFile, SeenIds, content_id, parse_record, problem_at
from evalspec.inputs.datasets.losses import list_default_losses, list_document_losses
from evalspec.inputs.datasets.record_files import read_native_lines
from evalspec.inputs.datasets.record_names import NAME_COLUMNS
from evalspec.inputs.datasets.simulated_users import JsonlUser, render_user
from evalspec.inputs.manifest.yaml_source import render_path
from evalspec.model import HIGHEST_GRADE, ExpectedCall, ExpectedState, Message, Sample, Turn
from evalspec.model.base import built
from evalspec.model.samples import render_input

PlainText = Annotated[str, Meta(min_length=1)]
Speaker = Literal["system", "user", "assistant", "tool"]


class PlainTurn(Struct, forbid_unknown_fields=True, gc=False):
    """One turn of a conversation."""

    role: Speaker
    content: str


class PlainSample(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A line with the keys of the strict record; None for absent keys."""

    input: PlainText | Annotated[tuple[PlainTurn, ...], Meta(min_length=1)]
    expected: str | Annotated[tuple[PlainText, ...], Meta(min_length=1)]
    context: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    relevant: dict[PlainText, Annotated[int, Meta(ge=0, le=HIGHEST_GRADE)]] | list[PlainText] | None = None
    tags: tuple[PlainText, ...] | None = None
    metadata: dict[str, Any] | None = None
    id: PlainText | None = None
    answerable: bool | None = None
    forbidden_tools: tuple[PlainText, ...] | None = None
    max_steps: Annotated[int, Meta(ge=1)] | None = None


_decode = Decoder(built(PlainSample)).decode
_encode = Encoder().encode


def parse_plain_sample(line: bytes) -> PlainSample | None:
    r"""Return the sample of a line, or None if the strict reader has to read the line.

    This is safe because msgspec accepts nothing that the strict reader refuses, with two exceptions that are checked
    here. One is a conversation whose last turn is not the user's. The other is a duplicate key: msgspec keeps the last
    value and drops the others. Each colon of a line follows a key or is part of a text. The encoded sample has the
    colons of all keys and texts that were kept, so the line has more of them if a key was dropped. Only a colon written
    as \u003a would spoil the count, so a line with such an escape is read strictly.
    """
    try:
        sample = _decode(line)
        colons = _encode(sample).count(b":")
    except (MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    if sample.metadata and line.count(b"[") + line.count(b"{") > MAX_DEPTH:
        return None
    if colons != line.count(b":") or line.find(rb"\u003") >= 0:
        return None
    return sample if isinstance(sample.input, str) or sample.input[-1].role == "user" else None


_SHOWN = 8
_ALIKE = 0.8


def explain_unknown_form(columns: Collection[str], shown_as: str, line: int) -> Problem:
    """Return the problem of a file whose records no format has."""
    named = ", ".join(map(inert, list(columns)[:_SHOWN])) + (", …" if len(columns) > _SHOWN else "")
    message = f"no format has records with the keys {named}" if columns else "the record has no keys"
    nearest = find_nearest(columns)
    hint = f"the nearest is {nearest.name} ({nearest.summary}); " if nearest is not None else ""
    fix = f"{hint}{NAME_COLUMNS}, or write input and expected"
    return Problem(message, fix, shown_as, line)


def find_nearest(columns: Collection[str]) -> DatasetFormat | None:
    """Return the format that shares the most names with a record, or has similar ones; None if none does."""
    known = [one for one in DATASETS if one.columns and not one.is_generic]
    best = max(known, key=lambda one: (_compute_likeness(columns, one.columns), -len(one.columns)), default=None)
    return best if best is not None and _compute_likeness(columns, best.columns) > 0 else None


def _compute_likeness(columns: Collection[str], names: Collection[str]) -> float:
    """Return how many columns have a name of the format. Similar ones count half."""
    shared = sum(column in names for column in columns)
    similar = sum(
        bool(difflib.get_close_matches(column.casefold(), names, n=1, cutoff=_ALIKE))
        for column in columns
        if column not in names
    )
    return shared + similar / 2


def _relevant_shape(value: Any) -> str:
    if isinstance(value, dict):
        return "map"
    return "groups" if isinstance(value, list) and value and isinstance(value[0], list) else "list"


_RETRIEVED = "write what the agent had under context"
_REPLY = "for files that also have replies, set format: records"
_HINTS = {
    "retrieved_contexts": _RETRIEVED,
    "retrieval_context": _RETRIEVED,
    "contexts": _RETRIEVED,
    "documents": _RETRIEVED,
    "response": _REPLY,
    "actual_output": _REPLY,
    "output": _REPLY,
    "answer": "write the right answer under expected; a reply belongs to --responses",
    "question": "write input",
    "query": "write input",
    "ground_truth": "write expected",
    "reference": "write expected",
}
"""Fixes for keys of other systems. A similar name may mean the opposite: what was retrieved is not the truth."""
_OWN_KEYS = frozenset({"input", "expected", "expected_output", "turns", "user"})


Expected = Annotated[
    Annotated[StrictStr, Tag("text")]
    | Annotated[list[Annotated[StrictStr, Field(min_length=1)]], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
]


class JsonlMessage(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    role: Speaker = Field(description="Who speaks.")
    content: StrictStr = Field(description="The text.")


Text = Annotated[StrictStr, Field(min_length=1)]


class JsonlCall(BaseModel):
    """A call of a tool that the agent should make."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    name: Text = Field(description="The name of the tool.")
    arguments: dict[str, Any] | None = Field(
        None, description="Its arguments as a JSON object, in which matchers may stand for values. Default: any."
    )

    @model_validator(mode="after")
    def _matchers_are_valid(self) -> "JsonlCall":
        found = next(list_bad_matchers(self.arguments), None)
        if found is not None:
            place, message = found
            raise ValueError(f"arguments.{render_path(place)}: {message}" if place else message)
        return self


Texts = list[StrictStr]
Grade = Annotated[StrictInt, Field(ge=0, le=HIGHEST_GRADE)]


class JsonlTurn(BaseModel):
    """One turn of a scripted conversation."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    user: Text = Field(description="What the user says.")
    expected: Expected | None = Field(None, description="The expected answer to it, or a list of alternatives.")
    expected_tools: list[JsonlCall] | None = Field(None, description="The calls of tools before the answer, in order.")
    checks: list[JsonlCheck] = Field(default_factory=list, description="What its answer has to pass without a judge.")


class JsonlSample(BaseModel):
    """One line of a dataset."""

    model_config = ConfigDict(extra="forbid", defer_build=True, title="evalspec dataset line")
    input: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[JsonlMessage], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
    ] = Field(description="The question, or the conversation whose last message is the user's.")
    expected: Expected = Field(
        description="The expected answer, or a list of alternatives. May be empty if no metric needs it."
    )
    turns: Annotated[list[JsonlTurn], Field(min_length=1)] | None = Field(
        None,
        description="A script of what the user says, turn by turn, in place of `input`, which then has only the "
        "messages before it.",
    )
    user: JsonlUser | None = Field(
        None,
        description="A user whom a model plays until the goal is reached, in place of `input`, which then has only the "
        "messages before.",
    )
    context: Texts | None = Field(None, description="Passages the agent had; those of the reply override them.")
    reference_contexts: Texts | None = Field(None, description="Passages that contain the answer.")
    relevant: (
        Annotated[
            Annotated[list[Text], Tag("list")]
            | Annotated[dict[Text, Grade], Tag("map")]
            | Annotated[list[Annotated[list[Text], Field(min_length=1)]], Field(min_length=1), Tag("groups")],
            Discriminator(_relevant_shape),
        ]
        | None
    ) = Field(
        None,
        description="Ids of the relevant documents; or {id: grade}, 0 for judged not relevant; or groups: "
        "[[a, b], [c]] means that (a or b) and c are required.",
    )
    answerable: StrictBool | None = Field(
        None, description="Whether the documents contain an answer; if false, the agent should decline."
    )
    expected_tools: list[JsonlCall] | None = Field(
        None, description="The calls of tools that the agent should make, in order; an empty list: none."
    )
    expected_state: dict[StrictStr, Any] | None = Field(
        None,
        description="The state of the world after the attempt, by JSONPath query; matchers may stand for values. "
        "`nothing_else: true`: all else is as before, but for what the queries of `ignore` select. `within`: how long "
        "that may take, such as 5s.",
    )
    forbidden_tools: list[Text] | None = Field(None, description="Names of tools that the agent must not call.")
    checks: Annotated[list[JsonlCheck], Field(min_length=1)] | None = Field(
        None, description="What the answer has to pass without a judge: metrics with their parameters."
    )
    max_steps: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="How often the agent may call its model."
    )
    tags: list[Text] = Field(default_factory=list, description="Words to select samples by and to group results by.")
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Further data of any kind, to select samples by and to group results by."
    )
    id: Text | None = Field(None, description="Stable name of the sample; by default, a hash of its content.")

    @model_validator(mode="before")
    @classmethod
    def _script_is_the_input(cls, value: Any) -> Any:
        """Fill in what a script or a goal makes superfluous. `input` has the messages before it."""
        if isinstance(value, dict) and isinstance(value.get("user"), dict):
            if isinstance(value.get("input"), str) or "turns" in value:
                raise ValueError(
                    "a model plays the user, so input and turns do not say what the user asks; remove them"
                )
            return {"input": "?", "expected": ""} | value
        if not isinstance(value, dict) or not isinstance(value.get("turns"), list):
            return value
        if isinstance(value.get("input"), str):
            raise ValueError("input and turns both say what the user asks first; write it as the first turn")  # noqa: TRY004
        first = value["turns"][0] if value["turns"] else None
        said = first.get("user") if isinstance(first, dict) else None
        return {"input": said if isinstance(said, str) and said else "?", "expected": ""} | value

    @field_validator("expected_state")
    @classmethod
    def _is_a_state(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """Raise a ValueError for what no state has."""
        if given is not None:
            read_expected_state(given)
        return given

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> "JsonlSample":
        if self.turns is None and self.user is None and isinstance(self.input, list) and self.input[-1].role != "user":
            raise ValueError("the last message of input must have the role user")
        return self


def read_jsonl(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield the samples of a JSONL file. Problems go to `notes` with their line."""
    seen = SeenIds("id", notes.problems)
    line = LineOfFile(source.shown_as)
    is_first = True
    for line.number, value in read_native_lines(source.path, source.shown_as, notes.problems, parse_plain_sample):
        if is_first and isinstance(value, dict) and not value.keys() & _OWN_KEYS:
            notes.problems.append(explain_unknown_form(value.keys(), source.shown_as, line.number))
            return
        is_first = False
        record = value if isinstance(value, PlainSample) else _parse_line(value, line, notes)
        if record is None:
            continue
        sample = _to_sample(record, line.number)
        nameless = "" if record.id else "this sample (same input, expected and context)"
        if seen.add(sample.id, line, (), nameless):
            yield sample


def _parse_line(value: Any, line: LineOfFile, notes: ReadingNotes) -> JsonlSample | None:
    if not isinstance(value, dict):
        notes.problems.append(
            problem_at(line, (), "the sample is not a JSON object", 'write an object like {"input": …}')
        )
        return None
    if "expected_output" in value and "expected" not in value:
        value["expected"] = value.pop("expected_output")
        place = ("expected_output",)
        notes.warnings.append(problem_at(line, place, "expected_output is read as expected", "rename it"))
    found: list[Problem] = []
    record = parse_record(JsonlSample, value, line, (), found)
    notes.problems += [replace(one, fix=_HINTS[one.field]) if _is_foreign(one) else one for one in found]
    return record


def _is_foreign(problem: Problem) -> bool:
    return problem.field in _HINTS and problem.message.startswith("unknown key")


def _to_sample(record: JsonlSample | PlainSample, line: int) -> Sample:
    qrels, groups = _judgements(record.relevant)
    turns = _read_turns(record)
    asked = _user_input(record.input)
    if turns and not isinstance(asked, str):
        asked = (*asked, Message("user", turns[0].user))
    user = None if isinstance(record, PlainSample) or record.user is None else record.user.to_user()
    if user is not None:
        asked = user.goal if isinstance(asked, str) else (*asked, Message("user", user.goal))
    content: dict[str, Any] = {"input": render_input(asked), "expected": record.expected, "context": record.context}
    tools = None if isinstance(record, PlainSample) else _read_calls(record.expected_tools)
    content |= {} if tools is None else {"expected_tools": to_builtins(tools)}
    content |= {"turns": to_builtins(turns)} if turns else {}
    content |= {"user": to_builtins(user)} if user else {}
    checks = () if isinstance(record, PlainSample) else tuple(one.to_check() for one in record.checks or ())
    content |= {"checks": to_builtins(checks)} if checks else {}
    state = None if isinstance(record, PlainSample) else record.expected_state
    others: dict[str, Any] = {"forbidden_tools": record.forbidden_tools, "max_steps": record.max_steps}
    content |= {key: value for key, value in (others | {"expected_state": state}).items() if value is not None}
    return Sample(
        id=normalize("NFC", record.id) if record.id else content_id(content),
        user_input=asked,
        references=_read_expected(record.expected),
        retrieved_contexts=_tuple(record.context),
        reference_contexts=_tuple(record.reference_contexts),
        qrels=qrels,
        groups=groups,
        answerable=record.answerable,
        tags=tuple(dict.fromkeys(record.tags or ())),
        metadata=record.metadata or {},
        line=line,
        expected_tools=tools,
        forbidden_tools=_tuple(record.forbidden_tools),
        max_steps=record.max_steps,
        turns=turns,
        expected_state=_read_state(record),
        user=user,
        checks=checks,
    )


def _read_state(record: JsonlSample | PlainSample) -> ExpectedState | None:
    given = None if isinstance(record, PlainSample) else record.expected_state
    return None if given is None else read_expected_state(given)


def _read_turns(record: JsonlSample | PlainSample) -> tuple[Turn, ...]:
    turns = () if isinstance(record, PlainSample) else record.turns or ()
    return tuple(
        Turn(
            one.user,
            _read_expected(one.expected or ()),
            _read_calls(one.expected_tools),
            tuple(check.to_check() for check in one.checks),
        )
        for one in turns
    )


def _read_expected(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(str.strip, (given,) if isinstance(given, str) else given))


def _read_calls(calls: Sequence[JsonlCall] | None) -> tuple[ExpectedCall, ...] | None:
    if calls is None:
        return None
    return tuple(ExpectedCall(one.name, UNSET if one.arguments is None else one.arguments) for one in calls)


def _user_input(given: str | Sequence[JsonlMessage | PlainTurn]) -> str | tuple[Message, ...]:
    return given if isinstance(given, str) else tuple(Message(turn.role, turn.content) for turn in given)


def _judgements(
    relevant: list[str] | dict[str, int] | list[list[str]] | None,
) -> tuple[dict[str, int] | None, tuple[tuple[str, ...], ...] | None]:
    """Return the grades by document, and the AND/OR groups if the file has them."""
    if relevant is None or isinstance(relevant, dict):
        return relevant, None
    if _relevant_shape(relevant) == "groups":
        groups = tuple(tuple(dict.fromkeys(group)) for group in relevant)
        return dict.fromkeys(chain(*groups), 1), groups
    return dict.fromkeys(cast("list[str]", relevant), 1), None


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _to_turn(turn: Turn) -> dict[str, Any]:
    return {
        "user": turn.user,
        **({"expected": list(turn.references)} if turn.references else {}),
        **({} if turn.expected_tools is None else {"expected_tools": to_builtins(turn.expected_tools)}),
        **({"checks": [render_check(check) for check in turn.checks]} if turn.checks else {}),
    }


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    losses = list_document_losses(content) + list_default_losses(content)
    both = sum(
        sample.groups is not None and any(g != 1 for g in (sample.qrels or {}).values()) for sample in content.samples
    )
    return losses + ([f"grades beside AND/OR groups of {both} samples"] if both else [])


def write_jsonl(content: DatasetContent, path: Path) -> Written:
    """Write one line per sample, with ids."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(json.dumps(_to_line(sample), ensure_ascii=False) + "\n" for sample in content.samples)
    return Written(len(content.samples))


def list_fields(sample: Sample) -> dict[str, Any]:
    """Return the fields of a line, None for those that the sample lacks."""
    groups = sample.groups
    return {
        "id": sample.id,
        "input": (render_input(sample.opening) or None)
        if sample.turns or sample.user
        else render_input(sample.user_input),
        "turns": [_to_turn(turn) for turn in sample.turns] or None,
        "user": None if sample.user is None else render_user(sample.user),
        "expected": list(sample.references) if len(sample.references) > 1 else sample.reference,
        "context": _list(sample.retrieved_contexts),
        "reference_contexts": _list(sample.reference_contexts),
        "relevant": sample.qrels if groups is None else [list(group) for group in groups],
        "answerable": sample.answerable,
        "expected_tools": to_builtins(sample.expected_tools),
        "forbidden_tools": _list(sample.forbidden_tools),
        "max_steps": sample.max_steps,
        "expected_state": None if sample.expected_state is None else render_expected_state(sample.expected_state),
        "checks": [render_check(check) for check in sample.checks] or None,
        "tags": list(sample.tags) or None,
        "metadata": sample.metadata or None,
    }


def _to_line(sample: Sample) -> dict[str, Any]:
    fields = list_fields(sample)
    fields["expected"] = fields["expected"] or ""
    return {key: value for key, value in fields.items() if value is not None}


JSONL = DatasetFormat(
    name="jsonl",
    summary="one JSON object per line, AgentSpec's field names",
    read=read_jsonl,
    recognises=lambda path, _head: path.name.removesuffix(".gz").endswith(".jsonl"),
    list_losses=list_losses,
    write=write_jsonl,
)
