"""The lines of the native format: the strict record, the fast one for common lines, and how a sample is written."""

from collections.abc import Callable, Iterator, Sequence
from io import DEFAULT_BUFFER_SIZE, BufferedReader, BytesIO
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, MsgspecError, Struct, to_builtins
from msgspec.json import Decoder, Encoder

from evalspec.base.jsonl import BACKSLASH, MAX_LINE_BYTES, number_lines
from evalspec.inputs.checks import render_check
from evalspec.model import HIGHEST_GRADE, AgentReply, ExpectedState, Sample, SimulatedUser, Turn, Usage
from evalspec.model.base import built
from evalspec.model.samples import render_input

PlainText = Annotated[str, Meta(min_length=1)]
Scalar = str | int | float | bool | None
Shallow = Scalar | list[Scalar] | dict[str, Scalar]
Nested = Scalar | list[Shallow] | dict[str, Shallow]
"""Metadata of common lines. What is nested more deeply is read strictly."""
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
    relevant: dict[PlainText, Annotated[int, Meta(ge=0, le=HIGHEST_GRADE)]] | tuple[PlainText, ...] | None = None
    tags: tuple[PlainText, ...] | None = None
    metadata: dict[str, Scalar | list[Nested] | dict[str, Nested]] | None = None
    id: PlainText | None = None
    answerable: bool | None = None
    forbidden_tools: tuple[PlainText, ...] | None = None
    max_steps: Annotated[int, Meta(ge=1)] | None = None


_decode = Decoder(built(PlainSample)).decode
_encode = Encoder().encode
_PART_BYTES = DEFAULT_BUFFER_SIZE
"""How much of a file is parsed at once: what readline reads, so that as many lines of a damaged gzip file are read."""


Plain = TypeVar("Plain", bound=Struct)
Parse = Callable[[bytes], list[Plain] | None]


def parse_plainly(lines: bytes, decode: Callable[[bytes], Plain]) -> list[Plain] | None:
    r"""Return the record of each line, or None if a line has to be parsed by the strict reader, and then checked.

    `decode`: of a decoder of msgspec for a record that forbids unknown fields and omits its defaults.

    That reads nothing otherwise, with one exception that is checked here: of a key that occurs twice, msgspec keeps the
    last value and drops the others. Each colon of a line follows a key or is part of a text. The encoded record has the
    colons of all keys and texts that were kept, so the line has more of them if a key was dropped, and no line has
    fewer. Only a colon written as \u003a would spoil the count, so lines with such an escape are not read here.
    """
    if len(lines) > MAX_LINE_BYTES or (BACKSLASH in lines and rb"\u003" in lines):
        return None
    try:
        records = list(map(decode, BytesIO(lines)))
        encoded = _encode(records)
    except (MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    return records if lines.count(b":") == encoded.count(b":") else None


def parse_plain_samples(lines: bytes) -> list[PlainSample] | None:
    """Return the sample of each line, or None if the strict reader has to read a line.

    msgspec accepts one thing that the strict reader refuses: a conversation whose last turn is not the user's.
    """
    samples = parse_plainly(lines, _decode)
    conversations = [one.input for one in samples or () if not isinstance(one.input, str)]
    return samples if all(turns[-1].role == "user" for turns in conversations) else None


def read_plainly(stream: BufferedReader, parse: Parse[Plain]) -> Iterator[tuple[int, bytes | list[Plain]]]:
    """Yield (number of the first line, records) of parts of a file, and (number, line) of what has to be read strictly.

    Where a line of a part is not plain, each line of this part is parsed alone.
    """
    before = 0
    for part in _split_at_lines(stream):
        records = parse(part)
        if records is not None:
            yield before + 1, records
            before += len(records)
            continue
        for number, line in number_lines(BytesIO(part), before):
            yield number, parse(line) or line
            before = number


def _split_at_lines(stream: BufferedReader) -> Iterator[bytes]:
    """Yield parts of whole lines. Of a line longer than MAX_LINE_BYTES, only its beginning, which is still longer.

    The lines before the damage of a gzip file are yielded before the error is raised, as if they were read one by one.
    """
    rest = b""
    while read := stream.read1(_PART_BYTES):
        whole, end, begun = read.rpartition(b"\n")
        if end:
            yield rest + whole + end
            rest = begun
        else:
            _, begun = next(number_lines(stream), (0, b""))
            yield rest + read + begun
            rest = b""
    if rest:
        yield rest


def render_expected_state(state: ExpectedState) -> dict[str, Any]:
    """Return the state as a line has it."""
    rules = {"nothing_else": state.nothing_else, "ignore": list(state.ignore) or None, "within": state.within}
    return {**state.values, **{key: value for key, value in rules.items() if value is not None}}


def render_user(user: SimulatedUser) -> dict[str, Any]:
    """Return a user as a line has it."""
    names = {"max_turns": "maxTurns", "stop_when": "stopWhen"}
    return {names.get(key, key): value for key, value in to_builtins(user).items()}


def read_expected(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the accepted answers of a line, without blank ones."""
    if isinstance(given, str):
        return (given,) if given.strip() else ()
    return tuple(filter(str.strip, given))


def _to_turn(turn: Turn) -> dict[str, Any]:
    return {
        "user": turn.user,
        **({"expected": list(turn.references)} if turn.references else {}),
        **({} if turn.expected_tools is None else {"expected_tools": to_builtins(turn.expected_tools)}),
        **({"checks": [render_check(check) for check in turn.checks]} if turn.checks else {}),
    }


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


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


def render_reply(reply: AgentReply) -> dict[str, Any]:
    """Return the keys of a recorded reply, None for those that it lacks."""
    usage = None if reply.usage is None else {name: getattr(reply.usage, name) for name in Usage.__struct_fields__}
    return {
        "response": reply.response,
        "retrieved_contexts": _list(reply.retrieved_contexts),
        "retrieved_context_ids": _list(reply.retrieved_context_ids),
        "tool_calls": None if reply.tool_calls is None else to_builtins(reply.tool_calls),
        "latencyMs": reply.latency_ms,
        "usage": usage,
        "steps": reply.steps,
    }
