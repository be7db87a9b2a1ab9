"""How well a judge agrees with people on replies that were drawn at random and labelled blindly.

Every interval holds at any number of labels: Clopper and Pearson's for sensitivity and specificity, Gaffke's for the
bias and for shares over clusters. The best threshold is cross-validated, because the labels that choose a threshold
flatter it.
"""

import random
import shlex
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.model import Direction, Threshold
from evalspec.model.calibrations import BestThreshold, Cut, Disagreement, MetricCalibration
from evalspec.model.labels import LabelConfusion
from evalspec.verdict.correction.agreement import measure_kappa
from evalspec.verdict.correction.estimates import FEWEST_LABELS
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.stats.agreement import measure_share
from evalspec.verdict.stats.bounded import compute_bounded_interval

_FOLDS = 10
_SEED = 19_740_213

_CELLS = {
    (True, True): "both_pass",
    (False, False): "both_fail",
    (True, False): "only_metric_passes",
    (False, True): "only_people_pass",
}
"""Fields of a confusion, by whether the judge and whether people call a reply good."""

Bounds = tuple[float, float]


class Pair(NamedTuple):
    """The scores of judge and people for one reply. `unit`: its cluster. `reason`: the judge's."""

    sample: str
    attempt: int
    unit: Hashable
    judge: float
    people: float
    reason: str | None = None


def find_cut(metric: MetricOutline, thresholds: Sequence[Threshold]) -> tuple[Threshold, Cut] | None:
    """Return the limit that divides good from bad scores of a metric, and what it is. None without limit and range."""
    stated = (one for one in thresholds if one.metric == metric.name and one.slice is None)
    limit = next(stated, None)
    if limit is not None:
        return limit, Cut.THRESHOLD
    if metric.reach is None:
        return None
    middle = sum(metric.reach) / 2
    is_minimum = metric.direction is Direction.HIGHER
    limit = Threshold(metric.name, min=middle) if is_minimum else Threshold(metric.name, max=middle)
    return limit, Cut.MIDPOINT


def measure_calibration(
    found: MetricCalibration, metric: MetricOutline, cut: tuple[Threshold, Cut] | None, pairs: Sequence[Pair],
    every: Sequence[float],
) -> MetricCalibration:  # fmt: skip
    """Return a calibration with everything that can be measured, or with the reason why nothing can.

    Args:
        found: Which judge it is about, and which labels count.
        metric: The metric.
        cut: What divides good from bad scores.
        pairs: The labelled replies that the judge scored.
        every: The judge's scores of all replies.
    """
    reason = next(_list_flaws(metric, pairs, every), None)
    if reason is not None or cut is None or metric.reach is None:
        return replace(found, reason=reason)
    limit, kind = cut
    sides = [(limit.holds(one.judge), limit.holds(one.people)) for one in pairs]
    units = [one.unit for one in pairs]
    is_plain = len(set(units)) == len(units)
    differences = [one.judge - one.people for one in pairs]
    reach = metric.reach[1] - metric.reach[0]
    kappa = measure_kappa([one.judge for one in pairs], [one.people for one in pairs], metric.reach)
    return replace(
        found,
        cut=kind,
        confusion=_confuse(limit, sides),
        sensitivity=measure_share(*_select(pairs, sides, is_good=True), _say_one_sided("good")),
        specificity=measure_share(*_select(pairs, sides, is_good=False), _say_one_sided("bad")),
        people=sum(one.people for one in pairs) / len(pairs),
        bias=sum(differences) / len(differences),
        bias_interval=compute_bounded_interval(differences, (-reach, reach), clusters=None if is_plain else units),
        kappa=kappa.value,
        kappa_interval=kappa.interval if is_plain else None,
        best=choose_threshold(pairs, limit),
        disagreements=_list_disagreements(pairs, sides),
        notes=(*found.notes, *_list_notes(pairs, limit, kind, is_plain=is_plain)),
    )


def choose_threshold(pairs: Sequence[Pair], limit: Threshold) -> BestThreshold | None:
    """Return the score of the judge that divides replies best as people do.

    `limit`: what divides people's scores. None with too few labels, if all are on one side, or if the limit has two
    ends. Clusters are never divided between folds.
    """
    units = sorted({repr(one.unit) for one in pairs})
    goods = [limit.holds(one.people) for one in pairs]
    if len(units) < FEWEST_LABELS or len(set(goods)) < 2 or (limit.min is None) == (limit.max is None):
        return None
    sign = 1 if limit.min is not None else -1
    present = sign * (limit.min if limit.min is not None else limit.max or 0.0)
    scored = [(sign * one.judge, good) for one, good in zip(pairs, goods, strict=True)]
    random.Random(_SEED).shuffle(units)  # noqa: S311 - a choice, not a secret
    folds = {unit: place % _FOLDS for place, unit in enumerate(units)}
    parts = [folds[repr(one.unit)] for one in pairs]
    right = 0
    for part in range(_FOLDS):
        value, _ = _find_best([one for one, own in zip(scored, parts, strict=True) if own != part], present)
        right += sum((score >= value) == good for (score, good), own in zip(scored, parts, strict=True) if own == part)
    value, agreeing = _find_best(scored, present)
    now = sum((score >= present) == good for score, good in scored)
    count = len(pairs)
    return BestThreshold(
        value=sign * value, agreement=agreeing / count, cross_validated=right / count, folds=_FOLDS, present=now / count
    )


def _find_best(scored: Sequence[tuple[float, bool]], present: float) -> tuple[float, int]:
    """Return the score from which on most replies are called as people do, and their number.

    Of equal ones, the one nearest to the present threshold.
    """
    right = sum(good for _, good in scored)
    found: list[tuple[int, float, float]] = []
    before: float | None = None
    for score, good in sorted(scored):
        if score != before:
            found.append((right, -abs(score - present), score))
            before = score
        right += -1 if good else 1
    agreeing, _, value = max(found)
    return value, agreeing


def _list_flaws(metric: MetricOutline, pairs: Sequence[Pair], every: Sequence[float]) -> Iterator[str]:
    """Yield why nothing can be said about a judge."""
    if metric.reach is None:
        yield "only scores with a range can be calibrated"
        return
    low, high = metric.reach
    for who, given in ("the judge", every), ("people", [one.people for one in pairs]):
        yield from (f"{who} gave {one:g}, outside {low:g} to {high:g}" for one in given if not low <= one <= high)
    if not pairs:
        yield "the judge has scored none of the labelled replies"
    if len(every) > 1 and len(set(every)) == 1:
        yield f"the judge gave {every[0]:g} to all {len(every):,} replies, so it cannot tell good from bad ones"


def _confuse(limit: Threshold, sides: Sequence[tuple[bool, bool]]) -> LabelConfusion:
    cells = {name: sides.count(side) for side, name in _CELLS.items()}
    return LabelConfusion(min=limit.min, max=limit.max, **cells)


def _select(
    pairs: Sequence[Pair], sides: Sequence[tuple[bool, bool]], *, is_good: bool
) -> tuple[list[float], list[Hashable]]:
    """Return for each reply that people call good, or bad, whether the judge does too, and its cluster."""
    chosen = [
        (judge == people, one.unit) for one, (judge, people) in zip(pairs, sides, strict=True) if people == is_good
    ]
    return [float(right) for right, _ in chosen], [unit for _, unit in chosen]


def _say_one_sided(side: str) -> str:
    return f"people call none of the labelled replies {side}"


def _list_disagreements(pairs: Sequence[Pair], sides: Sequence[tuple[bool, bool]]) -> tuple[Disagreement, ...]:
    found = [one for one, (judge, people) in zip(pairs, sides, strict=True) if judge != people]
    found.sort(key=lambda one: (-abs(one.judge - one.people), one.sample, one.attempt))
    return tuple(
        Disagreement(sample=one.sample, attempt=one.attempt, judge=one.judge, people=one.people, reason=one.reason)
        for one in found
    )


def _list_notes(pairs: Sequence[Pair], limit: Threshold, kind: Cut, *, is_plain: bool) -> Iterator[str]:
    """Yield what is unknown, and why."""
    judged, said = ({getattr(one, who) for one in pairs} for who in ("judge", "people"))
    if kind is Cut.MIDPOINT:
        yield "without a threshold, the middle of the range divides good from bad"
    if len(judged) == 1 and len(pairs) > 1:
        yield f"the judge gave {judged.pop():g} to each labelled reply"
    if len(said) == 1:
        yield f"people gave {said.pop():g} to each labelled reply, so kappa is unknown"
    elif not is_plain:
        yield "labels of one cluster are not independent, so the interval of kappa is unknown"
    if len(pairs) < FEWEST_LABELS:
        yield f"{counted(len(pairs), 'label')} cannot choose a threshold; {FEWEST_LABELS} can"
    elif len({limit.holds(one.people) for one in pairs}) > 1:
        use = f"`evalspec labels use latest --metric {shlex.quote(limit.metric)} --for threshold`"
        yield f"labels that choose a threshold no longer calibrate it: if you take it from these, run {use}"
