"""The native format: one JSON object a line, with AgentSpec's field names."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    model_validator,
)

from evalspec.datasets.base import DATASETS, DatasetFormat, ReadingNotes
from evalspec.errors import Problem
from evalspec.jsonl import read_json_lines
from evalspec.manifest.explain import explain_error
from evalspec.manifest.yaml_source import render_path
from evalspec.records import Message, Sample

_ID_LENGTH = 12


def _shape(value: Any) -> str:
    return "list" if isinstance(value, list) else "map" if isinstance(value, dict) else "text"


class JsonlMessage(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["system", "user", "assistant", "tool"]
    content: StrictStr


Text = Annotated[StrictStr, Field(min_length=1)]
Texts = list[StrictStr]
Grade = Annotated[StrictInt, Field(ge=0)]


class JsonlSample(BaseModel):
    """One line of a dataset."""

    model_config = ConfigDict(extra="forbid", title="evalspec dataset line")
    input: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[JsonlMessage], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
    ] = Field(description="The question, or the conversation whose last message is the user's.")
    expected: StrictStr = Field(description="The right answer. May be empty where no metric needs it.")
    context: Texts | None = Field(None, description="Passages the agent had; the reply's own win over them.")
    reference_contexts: Texts | None = Field(None, description="Passages that hold the answer.")
    relevant: (
        Annotated[
            Annotated[list[Text], Tag("list")] | Annotated[dict[Text, Grade], Tag("map")],
            Discriminator(lambda value: "map" if isinstance(value, dict) else "list"),
        ]
        | None
    ) = Field(None, description="Ids of the relevant documents, or {id: grade} with 0 for judged not relevant.")
    tags: list[Text] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    id: Text | None = Field(None, description="Stable name of the sample; a hash of its content where absent.")

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> "JsonlSample":
        if isinstance(self.input, list) and self.input[-1].role != "user":
            raise ValueError("the last message of input must have the role user")
        return self


def read_jsonl(path: Path, shown_as: str, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield the samples of a JSONL file; everything wrong goes to `notes` with its line."""
    first_lines: dict[str, int] = {}
    for line, value in read_json_lines(path, shown_as, notes.problems):
        record = _parse_record(value, shown_as, line, notes)
        if record is None:
            continue
        sample = _to_sample(record, line)
        if sample.id in first_lines:
            what = f"id '{sample.id}'" if record.id else "this sample (same input, expected and context)"
            message = f"{what} stands already at line {first_lines[sample.id]}"
            notes.problems.append(Problem(message, "give each sample an id of its own", shown_as, line, "id"))
            continue
        first_lines[sample.id] = line
        yield sample


def _parse_record(value: Any, shown_as: str, line: int, notes: ReadingNotes) -> JsonlSample | None:
    if not isinstance(value, dict):
        notes.problems.append(Problem("a sample must be a JSON object", 'like {"input": …}', shown_as, line))
        return None
    if "expected_output" in value and "expected" not in value:
        value["expected"] = value.pop("expected_output")
        warning = Problem("expected_output is read as expected", "rename it", shown_as, line, "expected_output")
        notes.warnings.append(warning)
    try:
        return JsonlSample.model_validate(value)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            message, fix = explain_error(details, JsonlSample)
            place = render_path(_place_in_data(details["loc"], value))
            notes.problems.append(Problem(message, fix, shown_as, line, place))
        return None


def _place_in_data(location: tuple[str | int, ...], value: Any) -> tuple[str | int, ...]:
    """The location without the names of union branches, which stand in no file."""
    place: list[str | int] = []
    for position, step in enumerate(location):
        found = isinstance(value, Mapping) and step in value
        found = found or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        if found:
            value = value[step]
            place.append(step)
        elif position == len(location) - 1 and step not in ("text", "list", "map", "[key]"):
            place.append(step)
    return tuple(place)


def _to_sample(record: JsonlSample, line: int) -> Sample:
    conversation = isinstance(record.input, list)
    return Sample(
        id=record.id or _content_id(record),
        user_input=tuple(Message(m.role, m.content) for m in record.input) if conversation else record.input,  # type: ignore[union-attr, arg-type]
        references=(record.expected,) if record.expected.strip() else (),
        retrieved_contexts=_tuple(record.context),
        reference_contexts=_tuple(record.reference_contexts),
        qrels=dict.fromkeys(record.relevant, 1) if isinstance(record.relevant, list) else record.relevant,
        tags=tuple(dict.fromkeys(record.tags)),
        metadata=record.metadata,
        line=line,
    )


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _content_id(record: JsonlSample) -> str:
    """A hash of what is asked and what is right, so that tags and metadata may change without a new identity."""
    content = record.model_dump(include={"input", "expected", "context"})
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_ID_LENGTH]


DATASETS.add("jsonl", DatasetFormat("jsonl", "one JSON object a line, AgentSpec's field names", read_jsonl))
