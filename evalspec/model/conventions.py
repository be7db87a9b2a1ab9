"""What ground truth means, and limits of a run. Without records, whose classes would slow down commands without any."""

from enum import StrEnum

HIGHEST_GRADE = 999_999_999
"""The highest relevance grade: nine digits, the maximum in TREC qrels."""

MAX_REPEATS = 10_000
"""The maximum number of attempts per sample, and of gradings per reply, in one run."""


class EmptyQrels(StrEnum):
    """How queries without a relevant document enter the means. ZERO: as 0, like trec_eval."""

    NOT_APPLICABLE = "notApplicable"
    ZERO = "zero"


class FlatIds(StrEnum):
    """What a flat list of relevant ids means: all of them are needed, or any of them."""

    ALL = "and"
    ANY = "or"
