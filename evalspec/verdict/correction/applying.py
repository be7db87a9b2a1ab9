"""A calibration that is applied to a run without labels: which are void, and what the others say."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import Direction, Threshold
from evalspec.model.calibrations import Cut, MetricCalibration, MetricIdentity, TransportedShare
from evalspec.verdict.correction.rates import Hits, correct_share, find_tipping_point, transport
from evalspec.verdict.outline import MetricOutline

Divider = tuple[Threshold, Cut]


class Judged(Struct, frozen=True):
    """The judge's scores of all replies, None where it has none, and the cluster of each."""

    scores: Sequence[float | None]
    units: Sequence[Hashable]


def explain_void(kept: MetricIdentity, own: MetricIdentity, run: str) -> str | None:
    """Return why a calibration says nothing about scores of another identity; None if it does. `run`: calibrated."""
    parts = kept.identity.keys() | own.identity.keys()
    changed = sorted(part for part in parts if kept.identity.get(part) != own.identity.get(part))
    if not changed:
        return None
    said = (f"{part} ({kept.identity.get(part, 'none')} → {own.identity.get(part, 'none')})" for part in changed)
    return f"the calibration on {run} is void, because this changed: {', '.join(said)}"


def apply_calibration(
    kept: MetricCalibration, run: str, own: MetricIdentity, metric: MetricOutline, cut: Divider | None, judged: Judged
) -> TransportedShare:
    """Return the share of good replies, if the judge errs as in a calibration, or why that is unknown.

    Scores that the judge could not give enter the interval at both ends.

    Args:
        kept: The calibration.
        run: The calibrated run.
        own: Which judge gave the scores.
        metric: The metric in this run.
        cut: What divides good from bad scores here.
        judged: The scores.
    """
    known = [one for one in judged.scores if one is not None]
    found = TransportedShare(
        dataset=own.dataset,
        metric=own.metric,
        identity=own.identity,
        samples_sha256=own.samples_sha256,
        replies=len(known),
        missing=len(judged.scores) - len(known),
    )
    reason = next(_list_reasons(kept, run, own, cut, known), None)
    if reason is not None or cut is None:
        return replace(found, reason=reason)
    good = sum(map(cut[0].holds, known))
    right = Hits(_count_right(kept, is_good=True), kept.sensitivity.labelled)
    wrong = Hits(_count_right(kept, is_good=False), kept.specificity.labelled)
    size = _count_units(judged.units)
    every = len(judged.scores)
    low, high = (transport(one / every, size, right, wrong).interval for one in (good, good + found.missing))
    share = good / len(known)
    value = correct_share(share, right.rate, wrong.rate)
    interval = (low[0], high[1])
    if value is None:
        return replace(found, judge=share, reason=f"the judge was no better than chance on {run}")
    limit = _find_share_limit(metric, cut, known)
    tipping = None if limit is None else find_tipping_point(share, right.rate, limit)
    return replace(
        found,
        judge=share,
        value=value,
        interval=interval,
        tipping_point=tipping,
        said=None if limit is None else _say_tipping(tipping, wrong.rate, value >= limit),
        notes=tuple(_list_notes(kept, own, run)),
    )


def _list_reasons(
    kept: MetricCalibration, run: str, own: MetricIdentity, cut: Divider | None, known: Sequence[float]
) -> Iterator[str]:
    void = explain_void(kept, own, run)
    if void is not None:
        yield void
    if kept.reason is not None:
        yield f"the calibration on {run} says nothing: {kept.reason}"
    if not known:
        yield "the judge has scored no reply"
    before = kept.confusion and (kept.confusion.min, kept.confusion.max)
    if cut is None or before != (cut[0].min, cut[0].max):
        yield f"the threshold is not that of the calibration on {run}: calibrate again"
    for share in (kept.sensitivity, kept.specificity):
        if share.value is None:
            yield f"the calibration on {run} is one-sided: {share.unknown}"
        elif share.units < share.labelled:
            yield f"labels of the calibration on {run} share clusters, so they are not independent"


def _count_right(kept: MetricCalibration, *, is_good: bool) -> int:
    confusion = kept.confusion
    if confusion is None:
        return 0
    return confusion.both_pass if is_good else confusion.both_fail


def _count_units(units: Sequence[Hashable]) -> float:
    """Return the number of independent replies that are worth as much as these (Kish 1965)."""
    sizes = Counter(units).values()
    return float(sum(sizes) ** 2 / sum(size * size for size in sizes))


def _find_share_limit(metric: MetricOutline, cut: Divider, known: Sequence[float]) -> float | None:
    """Return the lowest share of good replies that meets the threshold on the mean; None if it is not about a share.

    Scores of 0 and 1 have a mean that is the share of ones.
    """
    limit, kind = cut
    is_share = metric.reach == (0.0, 1.0) and set(known) <= {0.0, 1.0}
    if kind is not Cut.THRESHOLD or (limit.stat or metric.statistic) != "mean" or not is_share:
        return None
    if metric.direction is Direction.HIGHER:
        return limit.min
    return None if limit.max is None else 1 - limit.max


def _say_tipping(tipping: float | None, specificity: float, is_met: bool) -> str:
    now = f"it was {specificity:.2f} in the calibration"
    if tipping is None:
        return f"the limit is {'met' if is_met else 'missed'} at every specificity"
    if is_met:
        return f"the limit is met unless specificity is below {tipping:.2f}; {now}"
    return f"the limit is missed unless specificity is {tipping:.2f} or more; {now}"


def _list_notes(kept: MetricIdentity, own: MetricIdentity, run: str) -> Iterator[str]:
    if kept.samples_sha256 != own.samples_sha256:
        yield f"the samples of {own.dataset} are not those of {run}, so the judge may err differently"
