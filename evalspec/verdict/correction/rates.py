"""The share of good replies where nobody labelled any, from a judge's errors in a calibration run.

The estimate is Rogan and Gladen's (1978): (share + specificity − 1) / (sensitivity + specificity − 1), from 0 to 1. It
is right only if the judge errs on the new replies as it did on the labelled ones, which nothing here can check
(arXiv 2511.21140, 2601.05420). So it is shown, and decides nothing.

Its interval is drawn. The share falls as sensitivity rises, and rises with specificity and with the judge's share. For
the lower end, each of the three is drawn from the distribution whose quantile is the end of Clopper and Pearson's
interval that is unfavourable; a draw in which the judge is no better than chance counts as 0. The upper end mirrors it.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import Threshold
from evalspec.model.calibrations import Cut, MetricCalibration, TransportedShare

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]

_DRAWS = 20_000
_SEED = 19_780_101


class RightCalls(NamedTuple):
    """How often the judge was right, of how many independent labelled replies."""

    right: float
    of: float

    @property
    def rate(self) -> float:
        """The share."""
        return self.right / self.of


class CorrectedShare(Struct, frozen=True):
    """A corrected share, 0 to 1. `value`: None if the judge is no better than chance."""

    value: float | None
    interval: tuple[float, float]


def correct_share(share: float, sensitivity: float, specificity: float) -> float | None:
    """Return the corrected share, 0 to 1; None if the judge is no better than chance."""
    gain = sensitivity + specificity - 1
    return min(1.0, max(0.0, (share + specificity - 1) / gain)) if gain > 0 else None


def transport(
    share: float, replies: float, sensitivity: RightCalls, specificity: RightCalls, confidence: float = 0.95
) -> CorrectedShare:
    """Return the share of good replies, if the judge errs as it did in its calibration.

    Args:
        share: Of the replies that the judge calls good, 0 to 1.
        replies: Number of independent replies.
        sensitivity: Of the labelled replies that people call good.
        specificity: Of those that they call bad.
        confidence: Of the interval.

    Raises:
        ValueError: There are no replies, or none of them that people call good, or bad.
    """
    if min(replies, sensitivity.of, specificity.of) <= 0:
        raise ValueError("a share needs replies, and labels of good and of bad ones")
    judged = RightCalls(share * replies, replies)
    tail = (1 - confidence) / 2
    low = _draw(judged, sensitivity, specificity, is_low=True)
    high = _draw(judged, sensitivity, specificity, is_low=False)
    interval = _find_quantile(low, tail), _find_quantile(high, 1 - tail)
    return CorrectedShare(correct_share(share, sensitivity.rate, specificity.rate), interval)


def find_tipping_point(share: float, sensitivity: float, limit: float) -> float | None:
    """Return the specificity at which the corrected share is `limit`; None if there is none that is better than chance.

    The corrected share reaches the limit where the specificity is at least this.
    """
    if limit >= 1:
        return None
    found = (1 - share - limit * (1 - sensitivity)) / (1 - limit)
    return found if 1 - sensitivity < found <= 1 else None


def _draw(judged: RightCalls, sensitivity: RightCalls, specificity: RightCalls, *, is_low: bool) -> "Array":
    """Return draws of the corrected share, each rate at its unfavourable side."""
    import numpy as np

    generator = np.random.default_rng(_SEED)
    share, right, wrong = (
        _draw_rate(generator, one, is_low=side)
        for one, side in ((judged, is_low), (sensitivity, not is_low), (specificity, is_low))
    )
    gain = right + wrong - 1
    worst = 0.0 if is_low else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = np.where(gain > 0, np.clip((share + wrong - 1) / gain, 0, 1), worst)
    return found


def _draw_rate(generator: "numpy.random.Generator", hits: RightCalls, *, is_low: bool) -> "Array":
    """Return draws from the beta distribution with one more miss for the lower end, and one more hit for the upper."""
    missed = hits.of - hits.right
    good = generator.standard_gamma(hits.right + (not is_low), _DRAWS)
    bad = generator.standard_gamma(missed + is_low, _DRAWS)
    found: Array = good / (good + bad)
    return found


def _find_quantile(draws: "Array", share: float) -> float:
    import numpy as np

    return float(np.quantile(draws, share))


class RunScores(Struct, frozen=True):
    """The judge's scores of all replies to a dataset, None where it has none, and the cluster of each.

    `identity`: what they depend on. `samples_sha256`: hash of the samples.
    """

    scores: Sequence[float | None]
    units: Sequence[Hashable]
    identity: Mapping[str, str]
    samples_sha256: str | None


def apply_calibration(
    kept: MetricCalibration, run: str, cut: tuple[Threshold, Cut] | None, own: RunScores
) -> TransportedShare:
    """Return the share of good replies, if the judge errs as in a calibration, or why that is unknown.

    Scores that the judge could not give enter the interval at both ends.

    Args:
        kept: The calibration.
        run: The calibrated run.
        cut: What divides good from bad scores.
        own: The scores of another run.
    """
    known = [one for one in own.scores if one is not None]
    every, missing = len(own.scores), len(own.scores) - len(known)
    found = TransportedShare(dataset=kept.dataset, metric=kept.metric, replies=len(known), missing=missing)
    reason = next(_list_reasons(kept, run, cut, own), None)
    if reason is not None or cut is None or kept.confusion is None:
        return replace(found, reason=reason)
    good = sum(map(cut[0].holds, known))
    right = RightCalls(kept.confusion.both_pass, kept.sensitivity.labelled)
    wrong = RightCalls(kept.confusion.both_fail, kept.specificity.labelled)
    size = _count_units(own.units)
    low, high = (transport(one / every, size, right, wrong).interval for one in (good, good + missing))
    share = good / len(known)
    value = correct_share(share, right.rate, wrong.rate)
    limit = _find_share_limit(cut[0], cut[1], known)
    if value is None:
        return replace(found, judge=share, reason=f"the judge was no better than chance on {run}")
    found = replace(
        found, judge=share, value=value, interval=(low[0], high[1]), notes=tuple(_list_notes(kept, own, run))
    )
    if limit is None:
        return found
    tipping = find_tipping_point(share, right.rate, limit)
    return replace(found, tipping_point=tipping, said=_say_tipping(tipping, wrong.rate, is_met=value >= limit))


def _list_reasons(
    kept: MetricCalibration, run: str, cut: tuple[Threshold, Cut] | None, own: RunScores
) -> Iterator[str]:
    """Yield why a calibration says nothing about these scores."""
    parts = sorted(kept.identity.keys() | own.identity.keys())
    pairs = [(part, kept.identity.get(part, "none"), own.identity.get(part, "none")) for part in parts]
    changed = [f"{part} ({before} → {now})" for part, before, now in pairs if before != now]
    if changed:
        yield f"the calibration on {run} is void, because this changed: {', '.join(changed)}"
    if kept.reason is not None:
        yield f"the calibration on {run} says nothing: {kept.reason}"
    if not any(one is not None for one in own.scores):
        yield "the judge has scored no reply"
    before_cut = kept.confusion and (kept.confusion.min, kept.confusion.max)
    if cut is None or before_cut != (cut[0].min, cut[0].max):
        yield f"the threshold is not that of the calibration on {run}: calibrate again"
    for share in (kept.sensitivity, kept.specificity):
        if share.value is None:
            yield f"the calibration on {run} is one-sided: {share.unknown}"
        elif share.units < share.labelled:
            yield f"labels of the calibration on {run} share clusters, so they are not independent"


def _count_units(units: Sequence[Hashable]) -> float:
    """Return the number of independent replies that are worth as much as these (Kish 1965)."""
    sizes = Counter(units).values()
    return float(sum(sizes) ** 2 / sum(size * size for size in sizes))


def _find_share_limit(limit: Threshold, kind: Cut, known: Sequence[float]) -> float | None:
    """Return the lowest share of good replies that meets the threshold on the mean; None if it is not about a share.

    Scores of 0 and 1 have a mean that is the share of ones.
    """
    is_share = kind is Cut.THRESHOLD and limit.stat in (None, "mean") and set(known) <= {0.0, 1.0}
    if not is_share or (limit.min is None) == (limit.max is None):
        return None
    return limit.min if limit.max is None else 1 - limit.max


def _say_tipping(tipping: float | None, specificity: float, *, is_met: bool) -> str:
    if tipping is None:
        return f"the limit is {'met' if is_met else 'missed'} at every specificity"
    now = f"it was {specificity:.2f} in the calibration"
    if is_met:
        return f"the limit is met unless specificity is below {tipping:.2f}; {now}"
    return f"the limit is missed unless specificity is {tipping:.2f} or more; {now}"


def _list_notes(kept: MetricCalibration, own: RunScores, run: str) -> Iterator[str]:
    if kept.samples_sha256 != own.samples_sha256:
        yield f"the samples of {kept.dataset} are not those of {run}, so the judge may err differently"
