"""One grading of one reply: its metrics share the judge's answers to the same question."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import asyncio


class GradedReply(NamedTuple):
    """Which reply is graded, and the number of the grading, from 0. `sample`: dataset and id."""

    sample: tuple[str, str]
    attempt: int
    repeat: int


class Grading:
    """The answers of one grading, by question and by how often the same score had asked it before.

    One answer never stands for two draws: a score that asks a question three times has three answers, and another
    grading of the reply has its own. `reply`: None if nothing is known of it, so its answers are not cached. `learned`:
    what the judge's replies said about the judge. `member`: number of the judge in a panel, from 0.
    """

    def __init__(self, reply: GradedReply | None = None, member: int = 0) -> None:
        self.answers: dict[tuple[str, str, int], asyncio.Task[Any]] = {}
        self.reply = reply
        self.member = member
        self.learned: dict[str, dict[str, str]] = {}

    def learn(self, learned: Mapping[str, Mapping[str, str]]) -> None:
        """Keep what a reply said about the judge, for the entries of the cache that rest on it."""
        for name, found in learned.items():
            self.learned[name] = {**self.learned.get(name, {}), **found}

    def add(self, question: tuple[str, str, int], answer: "asyncio.Task[Any]") -> None:
        """Keep an answer. Its failure is raised by whoever awaits it, and is no warning if nobody does."""
        answer.add_done_callback(_retrieve)
        self.answers[question] = answer


def _retrieve(answer: "asyncio.Task[Any]") -> None:
    if not answer.cancelled():
        answer.exception()


CURRENT: ContextVar[Grading | None] = ContextVar("current grading", default=None)
"""The grading that the running task belongs to. Scorers have no parameter for it: plug-ins need none."""


def find_cacheable() -> Grading | None:
    """Return the grading of the running task if its reply is known, so that its answers may be cached."""
    grading = CURRENT.get()
    return None if grading is None or grading.reply is None else grading
