"""Logs of other harnesses, whose samples have scores already. A module of `formats` reads those of one harness.

Formats are detected from content. What a harness does not record is not invented: the notes of its run list it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.foreign_text import cut
from evalspec.base.jsonl import read_head
from evalspec.base.registry import Registry
from evalspec.base.text import one_line
from evalspec.base.trust import Act, require
from evalspec.inputs.datasets.base import ForeignMetric, ForeignRun, Malformed
from evalspec.model import LARGEST_VALUE, Cause, Exchange, Score
from evalspec.model.typed_json import malformed

UNIT = (0.0, 1.0)
UNKNOWN = (None, None)
_WIDEST = (-LARGEST_VALUE, LARGEST_VALUE)
_LONGEST_ERROR = 300


class ForeignLog(Struct, frozen=True):
    """The logs of one harness. `title`: their name in messages.

    `recognises` detects one from its path and its first 64 KiB. `read` gets the path, also as it is shown, and raises
    `InvalidInput` or `Malformed` if the log cannot be read.
    """

    name: str
    title: str
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, str], ForeignRun]

    def register(self, registry: "Registry[ForeignLog]") -> None:
        """Register the log under its name.

        Raises:
            ValueError: The name is taken.
        """
        registry.add(self.name, self)


LOGS: Registry[ForeignLog] = Registry("log", "evalspec.logs", ("evalspec.inputs.formats",), ForeignLog)


def find_log(path: Path) -> ForeignLog | None:
    """Return what reads a file; None if it is not a log of another harness.

    Raises:
        Refused: --untrusted does not permit reading the file.
    """
    if not path.is_file():
        return None
    require(Act.READ_RUN, str(path))
    head = read_head(path)
    return next((known for known in LOGS if known.recognises(path, head)), None)


def read_log(log: ForeignLog, path: Path, shown_as: str) -> ForeignRun:
    """Return the run in a log.

    Raises:
        InvalidInput: The log cannot be read.
    """
    with LOGS.attribute_errors(log.name):
        try:
            return log.read(path, shown_as)
        except Malformed as error:
            raise malformed(str(error), shown_as, error.field) from error


def score_number(value: Any, metric: ForeignMetric, explanation: str | None = None) -> Score:
    """Return the score of a value in a log. What is no number of the metric's range is a failed score, never 0."""
    low, high = (end if known is None else known for known, end in zip(metric.bounds, _WIDEST, strict=True))
    if isinstance(value, int | float) and low <= value <= high:
        return Score.scored(float(value), explanation)
    return Score.failed(f"its value in the log is no number from {low:g} to {high:g}: {value!r:.60}", Cause.OTHER)


def fail_all(exchange: Exchange, metrics: Iterable[str]) -> dict[str, Score]:
    """Return the scores of an attempt that has none in the log."""
    missing = Score.failed("the log has no scores of this sample")
    failed = Score.failed(f"no usable reply: {exchange.error}", Cause.REPLY)
    return dict.fromkeys(metrics, failed if exchange.error else missing)


def shorten(text: str) -> str:
    """Return a message in a log on one line that fits into a note."""
    return cut(one_line(text), _LONGEST_ERROR)


def list_notes(metrics: Mapping[str, ForeignMetric], stated: Collection[str] = ()) -> list[str]:
    """Return notes on what a log does not record. `stated`: metrics whose direction it states."""
    assumed = [name for name in metrics if name not in stated]
    unbounded = [name for name, metric in metrics.items() if None in metric.bounds]
    return [
        "no clusters: samples count as independent",
        *([f"no direction of {', '.join(assumed)}: higher counts as better"] if assumed else []),
        *([f"no range of {', '.join(unbounded)}: their means have no interval"] if unbounded else []),
    ]
