"""Lines of a native dataset in their common shape, decoded by msgspec: a fifth of the time of the strict reading.

What is not of that shape (a conversation, several answers, groups, nulls, a text with `":` in it, anything wrong) is
left to the strict reader: it alone refuses, and says why.
"""

import re
from typing import Annotated, Any

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder

from evalspec.model import HIGHEST_GRADE

Text = Annotated[str, Meta(min_length=1)]

_suspect_keys = re.compile(r'"\s*:').findall


class PlainSample(Struct, forbid_unknown_fields=True, gc=False):
    """What the strict record of such a line says, under the same names; None where the line has no such key."""

    input: Text
    expected: str
    context: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    relevant: dict[Text, Annotated[int, Meta(ge=0, le=HIGHEST_GRADE)]] | list[Text] | None = None
    tags: tuple[Text, ...] | None = None
    metadata: dict[str, Any] | None = None
    id: Text | None = None
    answerable: bool | None = None


_decode = Decoder(PlainSample).decode


def parse_plain_sample(text: str) -> PlainSample | None:
    """The sample of a line, or None where it has to be read strictly."""
    try:
        sample = _decode(text)
    except (MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return sample if _count_keys(sample) == len(_suspect_keys(text)) else None


def _count_keys(sample: PlainSample) -> int:
    """How many keys the sample is known to have been made of.

    msgspec keeps the last of two equal keys, and does not tell. But there are at least as many places that look like
    a key as there are keys, so where there are no more of them than keys known, none stood twice.
    """
    optional = (
        sample.context, sample.reference_contexts, sample.relevant, sample.tags, sample.metadata, sample.id,
        sample.answerable,
    )  # fmt: skip
    count = 9 - optional.count(None)
    if isinstance(sample.relevant, dict):
        count += len(sample.relevant)
    return count + _count_keys_within(sample.metadata) if sample.metadata else count


def _count_keys_within(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys_within, value.values()))
    return sum(map(_count_keys_within, value)) if isinstance(value, list) else 0
