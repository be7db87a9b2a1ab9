"""How well a judge agrees with people on replies that they labelled at random, and with itself on replies graded often.

Kappa is weighted by squared differences: 1 − mean (judge − people)² / the same for judge and people drawn independently
(Cohen 1968). For 0/1 scores this is Cohen's kappa (1960), for other scores Lin's concordance (1989). Its interval is
drawn as those of `estimates`: Dirichlet weights over the labels and one unseen reply, on which they agree or disagree
as much as they can. Measurements: docs/explanation/judge-correction.md.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.model import Threshold
from evalspec.model.calibrations import MetricStability
from evalspec.verdict.stats.agreement import measure_share
from evalspec.verdict.stats.repeats import compute_variance_components

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float64]

_DRAWS = 8_000
_SEED = 19_680_301
_ROUNDING = 1e-12
"""Spread of scores that are equal, at most."""
_DIGITS = 12
_TOLERANCE = 1e-9
"""Rounding errors of a number of repeats, at most."""

LARGEST_PART = 0.1
"""The part of the variance of the mean that the judge may have."""


class Kappa(Struct, frozen=True):
    """Weighted kappa with its interval; None: unknown, because people always give the same score."""

    value: float | None
    interval: tuple[float, float] | None


def measure_kappa(
    judged: Sequence[float], people: Sequence[float], bounds: tuple[float, float], confidence: float = 0.95
) -> Kappa:
    """Return the weighted kappa of the scores of the same replies, in any order. `bounds`: range of the scores."""
    import numpy as np

    judged, people = zip(*sorted(zip(judged, people, strict=True)), strict=True) if judged else ((), ())

    low, high = bounds
    first, second = ((np.array(values, np.float64) - low) / (high - low) for values in (judged, people))
    value = float(_compute_kappa(np.ones((1, len(first))), first, second)[0]) if len(np.unique(second)) > 1 else np.nan
    if np.isnan(value):
        return Kappa(None, None)
    weights = np.random.default_rng(_SEED).standard_exponential((_DRAWS, len(first) + 1))
    drawn = [
        _compute_kappa(weights, np.append(first, corner[0]), np.append(second, corner[1]))
        for corner in product((0.0, 1.0), repeat=2)
    ]
    tail = (1 - confidence) / 2
    ends = [np.nanquantile(one, (tail, 1 - tail)) for one in drawn]
    return Kappa(round(value, _DIGITS) + 0.0, (float(min(end[0] for end in ends)), float(max(end[1] for end in ends))))


def _compute_kappa(weights: "Matrix", first: "Matrix", second: "Matrix") -> "Matrix":
    """Return kappa for each row of weights; NaN where both are constant and equal."""
    import numpy as np

    shares = weights / weights.sum(axis=1, keepdims=True)
    means = shares @ first, shares @ second
    spread = shares @ first**2 - means[0] ** 2 + shares @ second**2 - means[1] ** 2
    expected = spread + (means[0] - means[1]) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Matrix = np.where(expected > _ROUNDING, 1 - shares @ (first - second) ** 2 / expected, np.nan)
    return found


class RepeatedGrades(Struct, frozen=True):
    """The grades of one reply. `unit`: its cluster."""

    unit: Hashable
    grades: Sequence[float]


def measure_stability(
    dataset: str, metric: str, limit: Threshold | None, replies: Sequence[RepeatedGrades]
) -> MetricStability:
    """Return how stable the grades of a metric are. Replies with one grade are left out.

    A single grade varies by the judge's variance and by that of the replies. The mean of J grades of a reply has a J-th
    of the judge's. The samples are not divided: replies to one are taken as replies to different ones.
    """
    graded = [one for one in replies if len(one.grades) > 1]
    found = compute_variance_components([[one.grades for one in graded]])
    shares = [share_flips(one.grades, limit) for one in graded] if limit else []
    total = None if found.judge is None or found.agent is None else found.judge + found.agent
    return MetricStability(
        dataset=dataset,
        metric=metric,
        replies=len(graded),
        gradings=sum(len(one.grades) for one in graded),
        flipped=sum(share > 0 for share in shares),
        flips=measure_share(shares, [one.unit for one in graded] if limit else [], "nothing divides good from bad"),
        judge_variance=found.judge,
        reply_variance=found.agent,
        share=found.judge / total if total and found.judge is not None else None,
        repeats_needed=count_repeats(found.judge, found.agent),
        notes=tuple(_list_notes(graded, found.judge, found.agent)),
    )


def share_flips(grades: Sequence[float], limit: Threshold) -> float:
    """Return the share of the pairs of grades of a reply that are on different sides of a limit."""
    good, count = sum(map(limit.holds, grades)), len(grades)
    return 2 * good * (count - good) / (count * (count - 1))


def count_repeats(judge: float | None, replies: float | None) -> int | None:
    """Return the grades per reply with which the judge has at most a tenth of the variance of the mean.

    None if a variance is unknown, or if replies do not differ but by the judge's noise.
    """
    if judge is None or replies is None or replies <= 0:
        return None
    return max(1, math.ceil(judge * (1 - LARGEST_PART) / (LARGEST_PART * replies) - _TOLERANCE))


def _list_notes(graded: Sequence[RepeatedGrades], judge: float | None, replies: float | None) -> Iterator[str]:
    values = set(chain.from_iterable(one.grades for one in graded))
    if len(values) == 1:
        yield f"every grade is {values.pop():g}: such a judge is stable, and cannot tell good from bad ones"
    elif judge and replies is not None and replies <= 0:
        yield "the judge's noise explains all differences between replies, so no number of repeats is enough"
