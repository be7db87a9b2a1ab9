"""Parse metric names such as `nDCG@10` into name and cut-off. The registry knows which names exist."""

import re

from msgspec import Struct

_NAME = re.compile(r"^(?P<base>[^@\s]+?)(?:@(?P<cutoff>\d+))?$")
_TRAILING = re.compile(
    r"^(?P<base>precision|recall|f1|f2|ndcg|map|mrr|hit_rate|success|hit|judged)(?:_at)?_(?P<cutoff>\d+)$"
)


class MetricSpec(Struct, frozen=True):
    """A parsed metric name. `cutoff` None means the whole ranking."""

    base: str
    cutoff: int | None = None

    def __str__(self) -> str:
        """Return the printed form, which parses back to the same value."""
        return self.base if self.cutoff is None else f"{self.base}@{self.cutoff}"


def parse_metric_spec(text: str) -> MetricSpec:
    """Parse `nDCG@10`, `precision_at_5` or `faithfulness`.

    Raises:
        ValueError: the text has no such form, or its cut-off is 0.
    """
    match = _TRAILING.match(text.casefold()) or _NAME.match(text)
    if match is None:
        raise ValueError(f"'{text}' is not a metric name like recall or recall@5")
    cutoff = match["cutoff"]
    if cutoff is not None and int(cutoff) == 0:
        raise ValueError(f"'{text}' has the cut-off 0; a cut-off is at least 1")
    return MetricSpec(match["base"], None if cutoff is None else int(cutoff))
