"""How much a judge's grades of one and the same reply differ, from several gradings of each."""

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from evalspec.model import Threshold
from evalspec.model.calibrations import MetricStability
from evalspec.verdict.stats.agreement import measure_share
from evalspec.verdict.stats.repeats import compute_variance_components

_ROUNDING = 1e-9

LARGEST_PART = 0.1
"""The part of the variance of the mean that the judge may have."""


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
    return max(1, math.ceil(judge * (1 - LARGEST_PART) / (LARGEST_PART * replies) - _ROUNDING))


def _list_notes(graded: Sequence[RepeatedGrades], judge: float | None, replies: float | None) -> Iterator[str]:
    values = set(chain.from_iterable(one.grades for one in graded))
    if len(values) == 1:
        yield f"every grade is {values.pop():g}: such a judge is stable, and cannot tell good from bad ones"
    elif judge and replies is not None and replies <= 0:
        yield "the judge's noise explains all differences between replies, so no number of repeats is enough"
