"""`nDCG@10` as a value: the name as written, and the cut-off. Which names exist is not known here."""

import re
from dataclasses import dataclass

_NAME = re.compile(r"^(?P<base>[^@\s]+?)(?:@(?P<cutoff>\d+))?$")
_TRAILING = re.compile(
    r"^(?P<base>precision|recall|f1|f2|ndcg|map|mrr|hit_rate|success|hit|judged)(?:_at)?_(?P<cutoff>\d+)$"
)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric name taken apart. `cutoff` None means the whole ranking."""

    base: str
    cutoff: int | None = None

    def __str__(self) -> str:
        """The printed form, which parses back to the same value."""
        return self.base if self.cutoff is None else f"{self.base}@{self.cutoff}"


def parse_metric_spec(text: str) -> MetricSpec:
    """Take `nDCG@10`, `precision_at_5` or `faithfulness` apart.

    Raises:
        ValueError: not of such a form, or a cut-off of 0.
    """
    match = _TRAILING.match(text.casefold()) or _NAME.match(text)
    if match is None:
        raise ValueError(f"'{text}' is not a metric name like recall or recall@5")
    cutoff = match["cutoff"]
    if cutoff is not None and int(cutoff) == 0:
        raise ValueError(f"'{text}' cuts off at 0; a cut-off is at least 1")
    return MetricSpec(match["base"], None if cutoff is None else int(cutoff))
