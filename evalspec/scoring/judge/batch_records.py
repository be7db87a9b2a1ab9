"""The records of the log of a run's batches."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from evalspec.model import JudgeUsage, add_usage


class BatchNote(Struct, frozen=True, array_like=True):
    """What is known of a request, without its texts.

    `questions`: a digest for each answer: what is asked about which reply, and its number. `is_repeat`: it follows
    another request for the same answer.
    `reserved`: the most that it may use.
    """

    id: str
    metric: str
    questions: tuple[str, ...]
    is_repeat: bool
    reserved: JudgeUsage


class BatchIntent(Struct, frozen=True, tag="intent"):
    """A batch that is about to be submitted. `time`: seconds since the epoch."""

    intent: str
    time: float
    requests: tuple[BatchNote, ...]


class Submission(Struct, frozen=True, tag="submitted"):
    """The provider's name for a batch that it has."""

    intent: str
    batch: str


class BatchAnswer(Struct, frozen=True, tag="answer"):
    """What the endpoint answered to a request. `reply`: None if it is erased."""

    id: str
    metric: str
    status: int
    used: JudgeUsage
    reply: dict[str, Any] | None


class BatchEnd(Struct, frozen=True, tag="end"):
    """A batch that nothing is expected of any more, and why. Its requests without an answer may be submitted again."""

    intent: str
    why: str


class BatchRetry(Struct, frozen=True, tag="retry"):
    """What failed is asked again, so answers before this one are not used any more."""


BatchRecord = BatchIntent | Submission | BatchAnswer | BatchEnd | BatchRetry
BATCH_RECORD: type[BatchRecord] = BatchRecord  # type: ignore[assignment]
"""The type of any line of the log, for its decoder."""


def sum_batched(records: Iterable[BatchRecord]) -> dict[str, JudgeUsage]:
    """Return what the judge used for the answers among records, by metric. A request counts once, with its last."""
    answers = {one.id: one for one in records if isinstance(one, BatchAnswer)}
    return add_usage(*({one.metric: one.used} for one in answers.values()))
