"""What a person goes through in a session: one thing after the other, some left for later, the last one taken back."""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Done = TypeVar("Done")


class WorkQueue(Generic[Key, Done]):
    """The things that a person has not decided on yet, and the decisions of this session."""

    def __init__(self, waiting: Iterable[Key], before: int) -> None:
        """`before`: the number of decisions of earlier sessions."""
        self._waiting, self._skipped, self._before = deque(waiting), list[Key](), before
        self._done = list[Done]()
        self._last: Done | None = None

    @property
    def position(self) -> int:
        """The number of the current one, from 1, among all that the person has decided on or can decide on."""
        return self._before + len(self._done) + 1

    @property
    def total(self) -> int:
        """The number of all that the person has decided on or can decide on."""
        return self._before + len(self._done) + self.remaining

    @property
    def remaining(self) -> int:
        """The number of those without a decision, skipped ones included."""
        return len(self._waiting) + len(self._skipped)

    @property
    def skipped(self) -> int:
        """The number of skipped ones."""
        return len(self._skipped)

    @property
    def can_undo(self) -> bool:
        """Whether the last decision can be taken back."""
        return self._last is not None

    def skip(self) -> None:
        """Leave the current one for later."""
        self._skipped.append(self._waiting.popleft())

    def resume_skipped(self) -> None:
        """Continue with the skipped ones."""
        self._waiting.extend(self._skipped)
        self._skipped.clear()

    def _add(self, key: Key, done: Done) -> None:
        self._last = done
        self._done.append(done)
        self._waiting.remove(key)

    def _take_back(self, key: Key) -> None:
        """Forget the last decision. What it was about is the current one again."""
        self._last = None
        self._done.pop()
        self._waiting.appendleft(key)
