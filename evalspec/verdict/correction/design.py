"""How many replies of each stratum to label, so that the interval around people's mean is narrow.

Labels go to strata in proportion to size × spread (Neyman 1934). Whole numbers come from Wright (2012, The American
Statistician 66(4)): the next label goes to the stratum with the largest size × spread / √(n (n + 1)) after n labels,
which is the optimal allocation of every total.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

Bounds = tuple[float, float]

PILOT = 20
"""Labels at random before replies are drawn within strata."""

LEAST = 5
"""Labels that each stratum gets, if it has so many replies."""


class Stratum(Struct, frozen=True):
    """Replies with the same score of the judge. `size`: replies. `labels`: labelled ones. `spread`: as the scores."""

    size: int
    labels: int = 0
    spread: float = 1.0

    @property
    def gain(self) -> float:
        """What one more label narrows the interval by, up to a factor; −1 if every reply is labelled."""
        if self.labels >= self.size:
            return -1.0
        return math.inf if not self.labels else self.size * self.spread / math.sqrt(self.labels * (self.labels + 1))


def compute_spread(values: Sequence[float], bounds: Bounds) -> float:
    """Return the standard deviation of scores and of one more at each bound, so that few equal scores have a spread."""
    every = [*values, *bounds]
    mean = math.fsum(every) / len(every)
    return math.sqrt(math.fsum((one - mean) ** 2 for one in every) / len(every))


def find_next(strata: Sequence[Stratum]) -> int | None:
    """Return the stratum to take the next label from; None if all are labelled. Of equal ones, the largest."""
    best = max(range(len(strata)), key=lambda place: (strata[place].gain, strata[place].size), default=None)
    return None if best is None or strata[best].gain < 0 else best


def allocate_labels(strata: Sequence[Stratum], total: int, least: int = LEAST) -> list[int]:
    """Return the number of labels of each stratum, the given ones included.

    Each gets `least` or all that it has, even if that is more than `total`. The rest follows size × spread.
    """
    given = [replace(one, labels=max(one.labels, min(least, one.size))) for one in strata]
    for _ in range(total - sum(one.labels for one in given)):
        place = find_next(given)
        if place is None:
            break
        given[place] = replace(given[place], labels=given[place].labels + 1)
    return [one.labels for one in given]
