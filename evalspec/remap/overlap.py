"""What a new chunk has of an old one."""

from dataclasses import dataclass
from enum import StrEnum

from evalspec.remap.shared_text import Interval


class MatchMethod(StrEnum):
    """By what a chunk was found again."""

    SAME = "same id and text"
    SPAN = "by span"
    TEXT = "by text"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a new chunk has of an old one. `parts`: these characters of the old one. `of_old`, `of_new`: their share of
    either chunk. `doubtful`: the spans overlap, and the texts have little in common; or the text
    is short or repeated and may be of another document.
    """

    chunk: str
    how: MatchMethod
    parts: tuple[Interval, ...]
    of_old: float
    of_new: float
    doubtful: bool = False

    @property
    def value(self) -> float:
        """The overlap coefficient, over 0 to 1; of a doubtful text, its share of the old chunk."""
        if self.doubtful and self.how is MatchMethod.TEXT:
            return self.of_old
        return max(self.of_old, self.of_new)
