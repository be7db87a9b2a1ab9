"""Gold-set triples in YAML: a question, the block that answers it, and the right answer."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt, StrictStr, field_validator

from evalspec.datasets.base import DatasetContent, DatasetFormat, ReadingNotes, Source, Written, list_relevant
from evalspec.datasets.json_document import keys_at
from evalspec.datasets.located import (
    Accepted,
    SeenIds,
    content_id,
    explain_refusal,
    parse_record,
    read_text,
    refuse_empty,
)
from evalspec.datasets.losses import (
    GRADES,
    GROUPS,
    NATIVE_ONLY,
    Loss,
    list_default_losses,
    list_document_losses,
    list_sample_losses,
)
from evalspec.errors import InvalidInput, Problem
from evalspec.manifest.yaml_source import MAX_EXPANDED_NODES, Place, YamlSource, parse_yaml
from evalspec.model import Document, Sample

MAX_BYTES = 8 * 1_048_576
"""YAML is parsed at about half a megabyte per second, and gold sets are written by hand."""

OWN_KEY = "expected_block"
"""The metadata key for the whole block, if it contains more than an id."""

_UNICODE_BREAK = re.compile("[\x85\u2028\u2029]")

Text = Annotated[StrictStr, Field(min_length=1)]
Page = Annotated[StrictInt, Field(ge=0)]


class ExpectedBlock(BaseModel):
    """The passage that answers a question: its id and its source."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    block_id: Text
    document_id: Text | None = None
    page_range: list[Page] | None = Field(None, min_length=2, max_length=2)
    version: Text | None = None

    @field_validator("page_range")
    @classmethod
    def _runs_forward(cls, pages: list[int] | None) -> list[int] | None:
        if pages is not None and pages[0] > pages[1]:
            raise ValueError(f"{pages} ends before it begins; write [first, last]")
        return pages


class Triple(BaseModel):
    """One entry of a gold set."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    question: Text
    expected_block: ExpectedBlock
    expected_answer: Text | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    id: Text | None = None

    @field_validator("metadata")
    @classmethod
    def _leaves_room(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        if OWN_KEY in metadata:
            raise ValueError(f"the key {OWN_KEY} is reserved; rename it")
        return metadata

    @property
    def name(self) -> str:
        """The id in the file, or else a hash of the content without the metadata."""
        return self.id or content_id(self.model_dump(include={"question", "expected_block", "expected_answer"}))


class TriplesFile(BaseModel):
    """A document with the entries under the key `triples`."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    triples: list[Any] = Field(min_length=1)


def read_triples(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per triple. Problems go to the notes with their lines."""
    document = _read_document(source, notes.problems)
    if document is None:
        return
    seen = SeenIds("id", notes.problems)
    for place, value in _find_entries(document, notes.problems):
        triple = parse_record(Triple, value, document, place, notes.problems)
        if triple is None:
            continue
        nameless = "" if triple.id else "this triple (same question, block and answer)"
        if seen.add(triple.name, document, place, nameless):
            yield _to_sample(triple, document.line(place))


def _read_document(source: Source, problems: list[Problem]) -> YamlSource | None:
    text = read_text(source.path, source.shown_as, problems, MAX_BYTES)
    if text is None:
        return None
    try:
        document = parse_yaml(text, source.shown_as, max(MAX_EXPANDED_NODES, len(text)))
    except InvalidInput as error:
        problems.extend(error.problems)
        return None
    if not document.lines:
        problems.append(Problem("the file is empty", file=source.shown_as))
        return None
    return document


def _find_entries(document: YamlSource, problems: list[Problem]) -> Iterator[tuple[Place, Any]]:
    place: Place = () if isinstance(document.data, list) else ("triples",)
    data = document.data if place else {"triples": document.data}
    file = parse_record(TriplesFile, data, document, (), problems)
    for index, value in enumerate(file.triples if file else ()):
        yield (*place, index), value


def _to_sample(triple: Triple, line: int) -> Sample:
    block = triple.expected_block.model_dump(exclude_none=True)
    return Sample(
        id=triple.name,
        user_input=triple.question,
        references=() if triple.expected_answer is None else (triple.expected_answer,),
        qrels={triple.expected_block.block_id: 1},
        metadata=triple.metadata | ({OWN_KEY: block} if len(block) > 1 else {}),
        line=line,
    )


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    return _build(content)[1]


def write_triples(content: DatasetContent, path: Path) -> Written:
    """Write the triples as one YAML list.

    Raises:
        InvalidInput: No sample can be written.
    """
    entries, _ = _build(content)
    refuse_empty(len(entries), path)
    text = yaml.dump(entries, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
    path.write_bytes(text.encode())
    return Written(len(entries))


class _Dumper(yaml.SafeDumper):
    """A dumper that keeps Unicode line breaks. PyYAML turns them into spaces unless the text is in double quotes."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return the node of a text, in double quotes if it contains Unicode line breaks."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, '"' if _UNICODE_BREAK.search(text) else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _build(content: DatasetContent) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries that the format can represent, and a description of what it cannot."""
    losses = list_document_losses(content) + list_default_losses(content)
    losses += list_sample_losses(content.samples, _SAMPLE_LOSSES)
    one = (sample for sample in content.samples if len(list_relevant(sample)) == 1)
    accepted = Accepted(Triple, lambda: map(_to_entry, one), "samples")
    return list(accepted), losses + accepted.losses


def _to_entry(sample: Sample) -> dict[str, Any]:
    (block_id,) = list_relevant(sample)
    entry = {
        "id": sample.id,
        "question": sample.question,
        "expected_block": _own_block(sample) or {"block_id": block_id},
        "expected_answer": sample.reference,
        "metadata": {key: value for key, value in sample.metadata.items() if key != OWN_KEY},
    }
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _own_block(sample: Sample) -> dict[str, Any] | None:
    """Return the block that the reader kept, if it is still the relevant one. Else None."""
    block = sample.metadata.get(OWN_KEY)
    if not isinstance(block, dict) or len(block) < 2 or explain_refusal(ExpectedBlock, block) is not None:
        return None
    return block if [block["block_id"]] == list_relevant(sample) and None not in block.values() else None


_SAMPLE_LOSSES = (
    Loss(
        "the whole sample, because not exactly one document is relevant", lambda sample: len(list_relevant(sample)) != 1
    ),
    Loss("all right answers except the first", lambda sample: len(sample.references) > 1),
    *NATIVE_ONLY,
    GROUPS,
    GRADES,
    Loss(
        f"metadata.{OWN_KEY} that is not the relevant block's",
        lambda sample: OWN_KEY in sample.metadata and _own_block(sample) is None,
    ),
)

_KEY_OF_A_TRIPLE = re.compile(rb"""^[ \t]*(?:-[ \t]+)*\{?[ \t]*["']?(?:question|expected_block)["']?[ \t]*:""", re.M)


def _recognises(_path: Path, head: bytes) -> bool:
    """Return whether a file contains `expected_block`, and a line that starts with a required key.

    JSON must have both required keys, `question` and `expected_block`.
    """
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return any({"question", "expected_block"} <= keys_at(head, place) for place in ((0,), ("triples", 0)))
    return b"expected_block" in head and _KEY_OF_A_TRIPLE.search(head) is not None


def _refresh_metadata(
    _sample: Sample, metadata: dict[str, Any], _documents: Mapping[str, Document], is_moved: bool
) -> bool:
    """Remove the block of a re-chunked passage."""
    return is_moved and metadata.pop(OWN_KEY, None) is not None


TRIPLES = DatasetFormat(
    name="triples",
    summary="gold-set triples in YAML: question, expected_block, expected_answer",
    read=read_triples,
    recognises=_recognises,
    list_losses=list_losses,
    write=write_triples,
    refresh_metadata=_refresh_metadata,
)
