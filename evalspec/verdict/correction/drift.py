"""Whether a judge has changed since its calibration: the same replies, judged then and now.

An anchor is a reply whose verdicts of the calibration are kept. Within each anchor, stored and fresh verdicts are
exchangeable if the judge is the same, also if it flips some verdicts by itself. So the test permutes them within the
anchors, and its p-value is valid whatever the judge is like.

One test a run would raise a false alarm in most histories of 20 runs, unless its level is small. So few grades are
asked at first, and more of all anchors only if these are suspicious. The decision is one test of all grades at a small
level. Stopping early can only make false alarms rarer, so nothing has to be paid for it.
"""

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from evalspec.model.corrections import Drift

FEWEST_STORED, FEWEST_FRESH = 3, 2
MOST_FRESH = 4
"""The grades of each anchor once the first ones are suspicious."""
FEWEST_ANCHORS = 5
"""Fewer anchors in a test show next to nothing: their smallest p-values are not small."""
LEVEL, RUNS = 0.04, 20
"""The largest probability of a false alarm in so many runs, of all metrics. It leaves room below 5 %."""
SUSPICION = 0.2
"""The p-value up to which all anchors are asked, with MOST_FRESH grades each."""
_DRAWS = 20_000
_SEED = 19_940_301
_ROUNDING = 1e-9


class Anchor(Struct, frozen=True):
    """The judge's scores of one reply: `stored` from the calibration, and `fresh` from this run, none from a cache."""

    stored: tuple[float, ...]
    fresh: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse too few scores to see a drift."""
        if len(self.stored) < FEWEST_STORED or len(self.fresh) < FEWEST_FRESH:
            raise ValueError(f"an anchor needs {FEWEST_STORED} stored and {FEWEST_FRESH} fresh scores")

    @property
    def is_constant(self) -> bool:
        """Whether all scores are equal, so that no permutation changes anything."""
        return len({*self.stored, *self.fresh}) == 1

    def list_differences(self) -> list[float]:
        """Return the squared difference of fresh and stored mean for each choice of the fresh scores, theirs first."""
        scores = (*self.fresh, *self.stored)
        fresh, total = len(self.fresh), sum(scores)
        sums = (sum(chosen) for chosen in combinations(scores, fresh))
        return [(one / fresh - (total - one) / len(self.stored)) ** 2 for one in sums]


def count_first_anchors(grades: int, share: float, kept: int) -> int:
    """Return how many of the kept anchors a run asks first: they add at most a share of its number of grades."""
    return min(int(grades * share / FEWEST_FRESH + _ROUNDING), kept)


def compute_drift_p_value(anchors: Sequence[Anchor]) -> float:
    """Return the probability of so large differences between stored and fresh scores if the judge is the same.

    It is that of 20,000 permutations within the anchors, drawn with a fixed seed, and the observed one.
    """
    import numpy as np

    varied = [anchor.list_differences() for anchor in anchors if not anchor.is_constant]
    draw = np.random.default_rng(_SEED)
    sums = np.zeros(_DRAWS)
    for found in varied:
        sums += np.array(found)[draw.integers(len(found), size=_DRAWS)]
    observed = sum(found[0] for found in varied)
    as_large = int((sums >= observed - _ROUNDING).sum())
    return (as_large + 1) / (_DRAWS + 1)


def decide_drift(first: float, of_all: float | None = None, *, tests: int = 1) -> Drift:
    """Return the state of a judge from the p-value of a run's first grades, and that of all if more were asked.

    A judge that is the same is called DRIFTED on any of `tests` metrics in RUNS runs with a probability of at most
    LEVEL.
    """
    if first > SUSPICION:
        return Drift.UNCHANGED
    if of_all is None:
        return Drift.SUSPECTED
    return Drift.DRIFTED if of_all <= LEVEL / RUNS / tests else Drift.UNCHANGED
