"""How well differences between configurations on a part of a dataset follow those on the whole."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.verdict.stats.bootstrap import compute_student_tails

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

RESAMPLES = 10_000


class DifferenceCorrelation(Struct, frozen=True):
    """The correlation of differences, from −1 to 1, and its 95 % interval. None with a `reason` if it is undefined."""

    value: float | None
    interval: tuple[float, float] | None = None
    reason: str | None = None


def correlate_differences(
    whole: Sequence[float], part: Sequence[float], *, resamples: int = RESAMPLES
) -> DifferenceCorrelation:
    """Return the correlation, over all pairs of configurations, of their differences on a part and on the whole.

    `whole` and `part` have one value for each configuration. Each pair counts in both orders, so that the sign of a
    difference does not depend on which configuration comes first. The result then equals Pearson's r of the values.

    The interval is a percentile bootstrap over configurations, with tails expanded to Student's t (Hesterberg 2015).
    Drawing configurations instead of pairs keeps the pairs of one configuration together.

    Raises:
        ValueError: The lengths differ, or a value is not finite.
    """
    import numpy as np

    if len(whole) != len(part):
        raise ValueError("one value on the whole and one on the part for each configuration")
    values = np.array([whole, part], dtype=float)
    if not np.isfinite(values).all():
        raise ValueError("values have to be finite")
    count = len(whole)
    if count < 2:
        return DifferenceCorrelation(None, reason="there are no two configurations")
    for name, row in zip(("full set", "slice"), values, strict=True):
        if np.ptp(row) == 0:
            return DifferenceCorrelation(None, reason=f"the configurations do not differ on the {name}")
    drawn = np.random.default_rng(0).integers(0, count, size=(resamples, count))
    replicates = _correlate(values[0][drawn], values[1][drawn])
    found = float(_correlate(values[:1], values[1:])[0])
    defined = replicates[np.isfinite(replicates)]
    if not math.isfinite(found) or len(defined) < resamples / 2:
        return DifferenceCorrelation(None, reason="the configurations differ too little")
    low, high = np.quantile(defined, compute_student_tails(count, 0.95))
    return DifferenceCorrelation(found, (float(low), float(high)))


def _correlate(whole: "NDArray[numpy.float64]", part: "NDArray[numpy.float64]") -> "NDArray[numpy.float64]":
    """Return Pearson's r of each row; nan where one side does not vary."""
    import numpy as np

    whole = whole - whole.mean(axis=1, keepdims=True)
    part = part - part.mean(axis=1, keepdims=True)
    scale = np.sqrt((whole**2).sum(axis=1) * (part**2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(np.where(scale > 1e-15, (whole * part).sum(axis=1) / scale, np.nan), -1, 1)
