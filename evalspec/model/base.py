"""The base class of the records of a run, and types of their fields."""

import math
from collections.abc import Collection, Iterable
from threading import Lock
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, defstruct, field
from msgspec.json import Decoder
from msgspec.structs import FieldInfo, fields

STATISTICS = ("mean", "min", "p50", "median", "p90", "p95", "p99", "max")

LARGEST_VALUE = 1e100
"""The largest absolute value of a score. Sums and squares of larger ones could overflow."""

Number = Annotated[float, Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
"""A measured value. The bounds are checked when a file is read. Computed values respect them, because scores do."""

Interval = tuple[Number, Number]

Statistic = Annotated[str, Meta(pattern=f"^(?:{'|'.join(STATISTICS)})$")]


class Record(Struct, frozen=True, rename="camel", gc=False):
    """A part of a run, with the same fields in memory (snake_case) and in JSON (camelCase).

    `gc=False`: records cannot contain cycles, so the garbage collector need not track them.
    """


Decoded = TypeVar("Decoded")

_BUILDING = Lock()
_BUILT: set[Any] = set()


def built(kind: type[Decoded]) -> type[Decoded]:
    """Return a type that msgspec can decode in several threads.

    msgspec describes a type to itself when it first decodes one. If two threads do so at once, the process crashes.
    """
    if kind not in _BUILT:
        with _BUILDING:
            Decoder(kind)
            _BUILT.add(kind)
    return kind


def project(record: type[Decoded], name: str, kept: Collection[str], **types: Any) -> type[Decoded]:
    """Return a record type with some of the fields of another one. When it is decoded, the others are skipped.

    `types`: of fields that are projections themselves. Type checkers see the whole record.
    """
    whole: Any = record
    parts = [(one.name, types.get(one.name, one.type), _define(one)) for one in fields(whole) if one.name in kept]
    found: Any = defstruct(name, parts, bases=(Record,), frozen=True, kw_only=True)
    return found  # type: ignore[no-any-return]


def _define(one: FieldInfo) -> Any:
    options = {"default": one.default, "default_factory": one.default_factory}
    return field(name=one.encode_name, **options)


def refuse_infinite(values: Iterable[float | None]) -> None:
    """Check that all numbers are finite. The JSON encoder would silently write others as null.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    for value in values:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
