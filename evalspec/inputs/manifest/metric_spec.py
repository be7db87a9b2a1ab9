"""Parse names of metrics: `nDCG@10`, `string_match(match=substring)`, `pass^4 of end_state`.

The registry knows which metrics exist.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

_NAME = r"^(?P<base>[^@\s()]+?)(?:@(?P<cutoff>\d+))?$"
_TRAILING = r"^(?P<base>precision|recall|f1|f2|ndcg|map|mrr|hit_rate|success|hit|judged)(?:_at)?_(?P<cutoff>\d+)$"
_PARAMETER = (
    r'\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>"(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*"|[^\[\]"])*\]|'
    r'[^\s,()="\[\]]+)\s*(?:,(?=.)|$)'
)
_PASSES = r"pass(?P<sign>[@^])(?P<k>[1-9]\d*)(?: of (?P<of>\S.*))?"


class PassSpec(Struct, frozen=True):
    """A parsed `pass^4 of end_state`: how likely all of `k` attempts succeed, or with `pass@4` at least one.

    `of`: the column whose limits a successful attempt meets; None: those of every metric.
    """

    k: int
    is_every: bool
    of: str | None = None

    def __str__(self) -> str:
        """Return the name of the column."""
        name = f"pass{'^' if self.is_every else '@'}{self.k}"
        return name if self.of is None else f"{name} of {self.of}"


def parse_passes(name: str) -> PassSpec | None:
    """Return the parsed name of a metric over the attempts at a sample; None if each reply has a score of it."""
    match = re.fullmatch(_PASSES, name)
    return PassSpec(int(match["k"]), match["sign"] == "^", match["of"]) if match else None


def find_scored(column: str) -> str:
    """Return the column whose scores of replies a column rests on: `end_state` for `pass^4 of end_state`."""
    passes = parse_passes(column)
    return column if passes is None or passes.of is None else passes.of


class MetricSpec(Struct, frozen=True):
    """A parsed name of a metric.

    `cutoff`: None means the whole ranking. `parameters`: name and value as written, None if the name has no brackets,
    and empty after `name()`, which means the default of each parameter.
    """

    base: str
    cutoff: int | None = None
    parameters: tuple[tuple[str, str], ...] | None = None

    def __str__(self) -> str:
        """Return the printed form, which parses back to an equal metric."""
        name = self.base if self.cutoff is None else f"{self.base}@{self.cutoff}"
        values = ", ".join(f"{parameter}={value}" for parameter, value in self.parameters or ())
        return f"{name}({values})" if values else name


def parse_metric_spec(text: str) -> MetricSpec:
    """Parse `nDCG@10`, `precision_at_5`, `faithfulness` or `string_match(match=substring)`.

    Raises:
        ValueError: the text has no such form, or its cut-off is 0.
    """
    plain, bracket, inside = text.partition("(")
    match = ("_" in plain and re.match(_TRAILING, plain.casefold())) or re.match(_NAME, plain)
    if match is None or (bracket and not inside.endswith(")")):
        raise ValueError(f"'{text}' is not a metric name like recall, recall@5 or string_match(match=substring)")
    cutoff = match["cutoff"]
    if cutoff is not None and int(cutoff) == 0:
        raise ValueError(f"'{text}' has the cut-off 0; a cut-off is at least 1")
    parameters = tuple(sorted(_parse_parameters(inside[:-1], text))) if bracket else None
    return MetricSpec(match["base"], None if cutoff is None else int(cutoff), parameters)


def split_column(column: str) -> MetricSpec:
    """Return the parsed name of a column of a report. A name of another system that does not parse is all base."""
    try:
        return parse_metric_spec(column)
    except ValueError:
        return MetricSpec(column)


def _parse_parameters(inside: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each parameter.

    Raises:
        ValueError: the text within the brackets is no list of `name=value`, or has a name twice.
    """
    place, seen = 0, set()
    while place < len(inside):
        match = re.compile(_PARAMETER).match(inside, place)
        if match is None or match["name"] in seen:
            raise ValueError(f"'{text}' has no list of name=value within its brackets; write name(a=1, b=text)")
        seen.add(match["name"])
        place = match.end()
        yield match["name"], match["value"]
