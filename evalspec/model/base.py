"""What every record of a run is."""

import math
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

STATISTICS = ("mean", "min", "p50", "median", "p90", "p95", "p99", "max")

LARGEST_VALUE = 1e100
"""Of a score, either side of 0: sums and squares of greater ones could be beyond all numbers."""

Number = Annotated[float, Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
"""What is measured. The bounds hold for what is read; what is computed is within them because scores are."""

Interval = tuple[Number, Number]

Statistic = Annotated[str, Meta(pattern=f"^(?:{'|'.join(STATISTICS)})$")]


class Record(Struct, frozen=True, rename="camel", gc=False):
    """A part of a run, the same in memory and on disk: snake_case here, camelCase in JSON.

    Records are values: none contains itself, so the collector of cycles need not look at them.
    """


def refuse_infinite(values: Iterable[float | None]) -> None:
    """Refuse numbers that JSON does not have: its encoder would write them as null.

    Raises:
        ValueError: one is NaN or infinite.
    """
    for value in values:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
