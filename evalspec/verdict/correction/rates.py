"""The share of good replies where nobody labelled any, from a judge's errors in a calibration run.

The estimate is Rogan and Gladen's (1978): (share + specificity − 1) / (sensitivity + specificity − 1), from 0 to 1. It
is right only if the judge errs on the new replies as it did on the labelled ones, which nothing here can check
(arXiv 2511.21140, 2601.05420). So it is shown, and decides nothing.

Its interval is drawn. The share falls as sensitivity rises, and rises with specificity and with the judge's share. For
the lower end, each of the three is drawn from the distribution whose quantile is the end of Clopper and Pearson's
interval that is unfavourable; a draw in which the judge is no better than chance counts as 0. The upper end mirrors it.
"""

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]

_DRAWS = 20_000
_SEED = 19_780_101


class Hits(NamedTuple):
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
    share: float, replies: float, sensitivity: Hits, specificity: Hits, confidence: float = 0.95
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
    judged = Hits(share * replies, replies)
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


def _draw(judged: Hits, sensitivity: Hits, specificity: Hits, *, is_low: bool) -> "Array":
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


def _draw_rate(generator: "numpy.random.Generator", hits: Hits, *, is_low: bool) -> "Array":
    """Return draws from the beta distribution with one more miss for the lower end, and one more hit for the upper."""
    missed = hits.of - hits.right
    good = generator.standard_gamma(hits.right + (not is_low), _DRAWS)
    bad = generator.standard_gamma(missed + is_low, _DRAWS)
    found: Array = good / (good + bad)
    return found


def _find_quantile(draws: "Array", share: float) -> float:
    import numpy as np

    return float(np.quantile(draws, share))
