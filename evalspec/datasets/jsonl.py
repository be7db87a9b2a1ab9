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

from evalspec.datasets.base import DATASETS, DatasetContent, DatasetDefaults, DatasetFormat, ReadingNotes, Source
from evalspec.errors import Problem
from evalspec.jsonl import read_json_lines
from evalspec.manifest.explain import explain_error
from evalspec.manifest.yaml_source import render_path
from evalspec.records import Message, Sample

_ID_LENGTH = 12


def _relevant_shape(value: Any) -> str:
    if isinstance(value, dict):
        return "map"
    return "groups" if isinstance(value, list) and value and isinstance(value[0], list) else "list"


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
    expected: Annotated[
        Annotated[StrictStr, Tag("text")] | Annotated[list[Text], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
    ] = Field(description="The right answer, or several of which any is right. May be empty where no metric needs it.")
    context: Texts | None = Field(None, description="Passages the agent had; the reply's own win over them.")
    reference_contexts: Texts | None = Field(None, description="Passages that hold the answer.")
    relevant: (
        Annotated[
            Annotated[list[Text], Tag("list")]
            | Annotated[dict[Text, Grade], Tag("map")]
            | Annotated[list[Annotated[list[Text], Field(min_length=1)]], Tag("groups")],
            Discriminator(_relevant_shape),
        ]
        | None
    ) = Field(
        None,
        description="Ids of the relevant documents; or {id: grade}, 0 for judged not relevant; or groups: "
        "[[a, b], [c]] means that (a or b) and c are needed.",
    )
    tags: list[Text] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    id: Text | None = Field(None, description="Stable name of the sample; a hash of its content where absent.")

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> "JsonlSample":
        if isinstance(self.input, list) and self.input[-1].role != "user":
            raise ValueError("the last message of input must have the role user")
        return self


def read_jsonl(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield the samples of a JSONL file; everything wrong goes to `notes` with its line."""
    shown_as = source.shown_as
    first_lines: dict[str, int] = {}
    for line, value in read_json_lines(source.path, shown_as, notes.problems):
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
        elif position == len(location) - 1 and step not in ("text", "list", "map", "groups", "[key]"):
            place.append(step)
    return tuple(place)


def _to_sample(record: JsonlSample, line: int) -> Sample:
    given = [record.expected] if isinstance(record.expected, str) else record.expected
    qrels, groups = _judgements(record.relevant)
    return Sample(
        id=record.id or _content_id(record),
        user_input=_user_input(record.input),
        references=tuple(answer for answer in given if answer.strip()),
        retrieved_contexts=_tuple(record.context),
        reference_contexts=_tuple(record.reference_contexts),
        qrels=qrels,
        groups=groups,
        tags=tuple(dict.fromkeys(record.tags)),
        metadata=record.metadata,
        line=line,
    )


def _user_input(given: str | list[JsonlMessage]) -> str | tuple[Message, ...]:
    return given if isinstance(given, str) else tuple(Message(turn.role, turn.content) for turn in given)


def _judgements(
    relevant: list[str] | dict[str, int] | list[list[str]] | None,
) -> tuple[dict[str, int] | None, tuple[tuple[str, ...], ...] | None]:
    """Grades by document, and the AND/OR groups where the file gives such."""
    if relevant is None or isinstance(relevant, dict):
        return relevant, None
    groups = tuple(tuple(dict.fromkeys(group)) for group in relevant if isinstance(group, list))
    if groups:
        return {document: 1 for group in groups for document in group}, groups
    return {document: 1 for document in relevant if isinstance(document, str)}, None


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _content_id(record: JsonlSample) -> str:
    """A hash of what is asked and what is right, so that tags and metadata may change without a new identity."""
    content = record.model_dump(include={"input", "expected", "context"})
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_ID_LENGTH]


def find_losses(content: DatasetContent) -> list[str]:
    """What this format has no place for."""
    losses = [f"the text of {len(content.documents)} documents"] if content.documents else []
    if content.defaults != DatasetDefaults():
        losses.append("the dataset's own defaults (cut-offs, thresholds, settings)")
    both = sum(
        sample.groups is not None and any(g != 1 for g in (sample.qrels or {}).values()) for sample in content.samples
    )
    return losses + ([f"grades beside AND/OR groups of {both} samples"] if both else [])


def write_jsonl(content: DatasetContent, path: Path) -> None:
    """Write one line a sample, ids included."""
    lines = (json.dumps(_to_line(sample), ensure_ascii=False) + "\n" for sample in content.samples)
    path.write_bytes("".join(lines).encode("utf-8", "backslashreplace"))


def _to_line(sample: Sample) -> dict[str, Any]:
    asked = sample.user_input
    line = {
        "id": sample.id,
        "input": asked if isinstance(asked, str) else [{"role": m.role, "content": m.content} for m in asked],
        "expected": list(sample.references) if len(sample.references) > 1 else sample.reference or "",
        "context": sample.retrieved_contexts,
        "reference_contexts": sample.reference_contexts,
        "relevant": sample.groups if sample.groups is not None else sample.qrels,
        "tags": sample.tags or None,
        "metadata": sample.metadata or None,
    }
    return {key: value for key, value in line.items() if value is not None}


DATASETS.add(
    "jsonl",
    DatasetFormat(
        name="jsonl",
        summary="one JSON object a line, AgentSpec's field names",
        read=read_jsonl,
        recognises=lambda path, _head: path.suffix == ".jsonl",
        find_losses=find_losses,
        write=write_jsonl,
    ),
)
