"""The cases that a person decides on in a session: some are skipped for later, and the last decision can be undone."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from evalspec.base.errors import InvalidInput, Problem

Key = TypeVar("Key")
Case = TypeVar("Case")
Done = TypeVar("Done")


class CaseQueue(ABC, Generic[Key, Case, Done]):
    """The base of sessions. Nothing is kept but the files of the decisions, so a session continues an earlier one.

    `noun`: what a decision is called. `past`: what a decided case was.
    """

    noun: ClassVar[str]
    past: ClassVar[str]

    def __init__(self, keys: Sequence[Key], decided: Collection[Key] = (), earlier: int = 0) -> None:
        """`keys`: the cases in their order. `decided`: those to leave out. `earlier`: number of other decisions."""
        self._keys = keys
        self._waiting = deque(key for key in keys if key not in decided)
        self._before = earlier + len(keys) - len(self._waiting)
        self._skipped, self._done = list[Key](), list[tuple[Key, Done]]()
        self._last: Done | None = None

    @abstractmethod
    def _read(self, key: Key) -> Case | None:
        """Return a case as it is now, with all texts; None if it needs no decision any more.

        Raises:
            InvalidInput: It cannot be read.
        """

    def open(self) -> Case | None:
        """Return the current case as it is now; None at the end. Cases that need no decision any more are left out.

        Raises:
            InvalidInput: It cannot be read. It is left out.
        """
        while self._waiting:
            try:
                case = self._read(self._waiting[0])
            except InvalidInput:
                self._waiting.popleft()
                raise
            if case is not None:
                return case
            self._waiting.popleft()
        return None

    @abstractmethod
    def count_decisions(self) -> Mapping[str, int]:
        """Return the number of decisions of this session by verdict."""

    @abstractmethod
    def _withdraw(self, done: Done) -> Case:
        """Take a decision back in the files, and return its case."""

    @property
    def current(self) -> Key | None:
        """The key of the current case; None at the end."""
        return self._waiting[0] if self._waiting else None

    @property
    def position(self) -> int:
        """The number of the current case, from 1, among all that the person has decided on or can decide on."""
        return self._before + len(self._done) + 1

    @property
    def total(self) -> int:
        """The number of all cases that the person has decided on or can decide on."""
        return self._before + len(self._done) + self.remaining

    @property
    def remaining(self) -> int:
        """The number of cases without a decision, skipped ones included."""
        return len(self._waiting) + len(self._skipped)

    @property
    def skipped(self) -> int:
        """The number of skipped cases."""
        return len(self._skipped)

    @property
    def last(self) -> Done | None:
        """The decision that can be taken back."""
        return self._last

    def skip(self) -> None:
        """Leave the current case for later."""
        self._skipped.append(self._waiting.popleft())

    def resume_skipped(self) -> None:
        """Continue with the skipped cases."""
        self._waiting.extend(self._skipped)
        self._skipped.clear()

    def start_after(self, key: Key) -> None:
        """Continue with the case after one, so that those before it are skipped. Do nothing if it is unknown."""
        if key in self._keys:
            later = set(self._keys[self._keys.index(key) + 1 :])
            self._skipped += [one for one in self._waiting if one not in later]
            self._waiting = deque(one for one in self._waiting if one in later)

    def keep_only(self, is_wanted: Callable[[Key], bool]) -> None:
        """Leave out the other cases, before the session begins."""
        waiting = {*self._waiting}
        self._keys = [key for key in self._keys if is_wanted(key)]
        self._waiting = deque(key for key in self._keys if key in waiting)
        self._before = len(self._keys) - len(self._waiting)

    def undo(self) -> Case:
        """Take the last decision back. Its case is the current one again.

        Raises:
            InvalidInput: There is none in this session, or it cannot be taken back any more.
            StoreError: The files cannot be written.
        """
        if self._last is None:
            raise InvalidInput(Problem(f"there is no {self.noun} of this session to take back"))
        case = self._withdraw(self._last)
        self._last = None
        self._waiting.appendleft(self._done.pop()[0])
        return case

    def _add(self, key: Key, done: Done) -> None:
        self._last = done
        self._done.append((key, done))
        self._waiting.remove(key)
