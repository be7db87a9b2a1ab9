"""Decode common lines of a native dataset with msgspec.

Other lines (groups, nulls, lone surrogates, deep nesting, errors) are left to the strict reader, which reports all
errors.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from evalspec.base.jsonl import MAX_DEPTH
from evalspec.model import HIGHEST_GRADE
from evalspec.model.base import built

Text = Annotated[str, Meta(min_length=1)]


class PlainTurn(Struct, forbid_unknown_fields=True, gc=False):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


class PlainSample(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A line with the keys of the strict record; None for absent keys."""

    input: Text | Annotated[tuple[PlainTurn, ...], Meta(min_length=1)]
    expected: str | Annotated[tuple[Text, ...], Meta(min_length=1)]
    context: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    relevant: dict[Text, Annotated[int, Meta(ge=0, le=HIGHEST_GRADE)]] | list[Text] | None = None
    tags: tuple[Text, ...] | None = None
    metadata: dict[str, Any] | None = None
    id: Text | None = None
    answerable: bool | None = None


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
