"""The difference of a percentile between two runs over the same samples: the paired bootstrap, without drawing samples.

Drawing n samples with replacement only says how often each is drawn. Of those counts a percentile depends on few: on
those of the values around it, and on how many of the others lie below. So values far from the percentile, further than
resampling can ever move it, are counted together, which leaves the result exact and its cost that of a few times
sqrt(n) counts a resample instead of n.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.stats.clusters import number_clusters
from evalspec.stats.descriptive import find_neighbours, find_share

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_REACH = 7.0
"""Standard errors of a rank beyond which no resample moves a percentile: a chance of 3e-12."""

_LEAST_REACH = 64
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class _Side:
    """One run: the values around the percentile in order, the unit of each, and what each unit has in all and below."""

    window: "NDArray[numpy.float64]"
    members: "NDArray[numpy.intp]"
    sizes: "NDArray[numpy.int64]"
    below: "NDArray[numpy.int64]"


def bootstrap_percentile_difference(
    baseline: Sequence[float],
    candidate: Sequence[float],
    units_of_baseline: Sequence[Hashable],
    units_of_candidate: Sequence[Hashable],
    statistic: str,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile interval of the candidate's statistic less the baseline's, in the unit of the values.

    `units_of_…`: for each value the sample, or the cluster of samples, that it is of. Units are drawn, each with its
    values of both runs, so that what the runs have in common cancels out. None below two units; finite values are
    expected.

    Raises:
        ValueError: the statistic is the mean or not known, or the units of the two are not the same.
    """
    if set(units_of_baseline) != set(units_of_candidate):
        raise ValueError("the two runs do not have values of the same units: they are not pairs")
    members = number_clusters([*units_of_baseline, *units_of_candidate], len(baseline) + len(candidate))
    units = max(members, default=-1) + 1
    if units < 2:
        return None
    import numpy as np

    sides = [
        _cut(np.asarray(values, dtype=np.float64), np.asarray(of), units, statistic)
        for values, of in ((baseline, members[: len(baseline)]), (candidate, members[len(baseline) :]))
    ]
    old, new = _resample(sides, units, statistic, resamples, np.random.default_rng(seed))
    low, high = np.quantile(new - old, ((1 - confidence) / 2, (1 + confidence) / 2))
    return float(low), float(high)


def _cut(values: "NDArray[numpy.float64]", members: "NDArray[numpy.intp]", units: int, statistic: str) -> _Side:
    import numpy as np

    order = np.argsort(values, kind="stable")
    sizes = np.bincount(members, minlength=units)
    share, count = find_share(statistic), len(values)
    # Values of one unit come and go together: as many of them as a unit has at most widen the spread of the rank.
    spread = math.sqrt(count * share * (1 - share) * int(sizes.max()))
    reach = math.ceil(_REACH * spread) + _LEAST_REACH * int(sizes.max())
    below, above, _ = find_neighbours(count, statistic)
    first, last = max(0, below - reach), min(count, above + reach + 1)
    around = order[first:last]
    return _Side(values[around], members[around], sizes, np.bincount(members[order[:first]], minlength=units))


def _resample(
    sides: "list[_Side]", units: int, statistic: str, resamples: int, rng: "numpy.random.Generator"
) -> "list[NDArray[numpy.float64]]":
    """The percentile of each side for the same draws; each of shape (resamples,)."""
    import numpy as np

    kinds, place, alone = _group_units(sides, units)
    share = find_share(statistic)
    found: list[list[NDArray[np.float64]]] = [[] for _ in sides]
    rows = max(1, _CELLS_AT_ONCE // max(alone + len(kinds), *(len(side.window) for side in sides)))
    for start in range(0, resamples, rows):
        times = _draw(kinds, alone, units, min(rows, resamples - start), rng)
        for side, results in zip(sides, found, strict=True):
            results.append(_take(side, times, place, share))
    return [np.concatenate(results) for results in found]


def _group_units(sides: "list[_Side]", units: int) -> "tuple[NDArray[numpy.int64], NDArray[numpy.intp], int]":
    """The sizes of the kinds of units that only counts tell apart, the kind of each unit, and how many stand alone.

    Units with a value in a window stand alone, and are the first kinds.
    """
    import numpy as np

    inside = np.unique(np.concatenate([side.members for side in sides]))
    outside = np.setdiff1d(np.arange(units), inside, assume_unique=True)
    counts = np.column_stack([part[outside] for side in sides for part in (side.sizes, side.below)])
    _, kind, sizes = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    place = np.empty(units, dtype=np.intp)
    place[inside], place[outside] = np.arange(len(inside)), len(inside) + kind.reshape(-1)
    return sizes, place, len(inside)


def _draw(
    kinds: "NDArray[numpy.int64]", alone: int, units: int, rows: int, rng: "numpy.random.Generator"
) -> "NDArray[numpy.int64]":
    """How often each kind is drawn; shape (rows, alone + kinds)."""
    import numpy as np

    grouped = rng.multinomial(units, np.append(kinds, alone) / units, size=rows)
    owners = np.repeat(np.arange(rows), grouped[:, -1])
    drawn = owners * alone + rng.integers(0, max(alone, 1), size=len(owners))
    single = np.bincount(drawn, minlength=rows * alone).reshape(rows, alone)
    return np.hstack([single, grouped[:, :-1]])


def _take(
    side: _Side, times: "NDArray[numpy.int64]", place: "NDArray[numpy.intp]", share: float
) -> "NDArray[numpy.float64]":
    import numpy as np

    kinds = times.shape[1]
    sizes, below = np.zeros(kinds, dtype=np.int64), np.zeros(kinds, dtype=np.int64)
    sizes[place], below[place] = side.sizes, side.below  # equal for all units of a kind
    total, under = times @ sizes, times @ below
    reached = under[:, None] + times[:, place[side.members]].cumsum(axis=1)
    rank = share * (total - 1)
    lower = np.floor(rank)
    upper = np.minimum(lower + 1, total - 1)
    low, high = (side.window[(reached > limit[:, None]).argmax(axis=1)] for limit in (lower, upper))
    taken: NDArray[np.float64] = low + (high - low) * (rank - lower)
    return taken
