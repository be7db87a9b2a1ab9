"""What `evalspec score` measured, and tables of it for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evalspec.foreign_text import inert
from evalspec.ranking.engine import Measured

EMPTY_QRELS = ("notApplicable", "zero")
"""What a query without a relevant document may be to the means, the first unless something else is said."""

NO_ANSWER = "no_answer"
JUDGED = "Judged"

_IDS_SHOWN = 3
MEAN = "mean"
SHARES = (0.0, 1.0)
"""The range of every measure."""


@dataclass(frozen=True)
class Scored:
    """Measured values with what `empty_qrels` makes of queries without a relevant document."""

    measured: Measured
    empty_qrels: str

    @property
    def is_measured(self) -> bool:
        """Whether anything that was asked for has a value."""
        asked = map(str, self.measured.values)
        return any(value is not None for name in asked for value in self.columns[name])

    @cached_property
    def columns(self) -> Mapping[str, Sequence[float | None]]:
        """The values by metric, one for each query, None where it has none.

        `no_answer` is computed by itself, as in `evaluate`, where a query has no relevant document: 1 where the run
        says that nothing was retrieved for it, None where the run does not speak of it.
        """
        measured, zero = self.measured, self.empty_qrels == "zero"
        columns: dict[str, Sequence[float | None]] = {
            str(spec): values if zero and spec.measure != JUDGED else measured.defined(spec)
            for spec, values in measured.values.items()
        }
        if 0 in measured.relevant and not zero:
            counts = zip(measured.queries, measured.relevant, measured.retrieved, strict=True)
            columns[NO_ANSWER] = [
                None if relevant or query in measured.missing else float(not retrieved)
                for query, relevant, retrieved in counts
            ]
        return columns


def find_notes(scored: Scored, run: str) -> Iterator[str]:
    """What a reader of the means has to know."""
    measured = scored.measured
    total = len(measured.queries)
    missing = [query for query in measured.queries if query in measured.missing]
    if missing:
        yield f"queries missing from {run}, which count 0: {len(missing):,} of {total:,} ({name_some(missing)})"
    if measured.ignored:
        yield f"queries of {run} without judgements, left out: {measured.ignored:,}"
    if empty := measured.relevant.count(0):
        zero = scored.empty_qrels == "zero"
        what = "counted as 0" if zero else "not in the means (trec_eval counts them as 0)"
        yield f"queries without a relevant document, {what}: {empty:,} of {total:,}"


def name_some(names: Sequence[str]) -> str:
    """The first few of some ids, and how many more there are."""
    more = f" and {len(names) - _IDS_SHOWN:,} more" if len(names) > _IDS_SHOWN else ""
    return ", ".join(map(_show, names[:_IDS_SHOWN])) + more


def render_queries(scored: Scored) -> str:
    """A table with a line for each query and a column for each metric."""
    names = [_show(query) for query in scored.measured.queries]
    width = max(map(len, ["query", *names]))
    widths = [max(8, len(metric)) for metric in scored.columns]
    head = [f"{metric:>{size}}" for metric, size in zip(scored.columns, widths, strict=True)]
    lines = ["  ".join([f"{'query':<{width}}", *head])]
    for name, row in zip(names, zip(*scored.columns.values(), strict=True), strict=True):
        lines.append("  ".join([f"{name:<{width}}", *map(_cell, row, widths)]))
    return "\n".join([*lines, ""])


def render_summary(scored: Scored, *, with_interval: bool) -> str:
    """A table with the mean of each metric and the number of queries that it is taken over."""
    from evalspec.stats import compute_statistic
    from evalspec.validity.estimates import estimate

    width = max(map(len, ["metric", *scored.columns]))
    lines = [f"{'metric':<{width}}   value{'     95 % interval' if with_interval else ''}  queries"]
    for metric, column in scored.columns.items():
        values = [value for value in column if value is not None]
        mean = compute_statistic(values, MEAN) if values else None
        interval = estimate(values, MEAN, SHARES).interval if with_interval else None
        shown = f"  {_cell(interval[0], 6)} – {_cell(interval[1], 6)}" if interval else " " * 17 * with_interval
        lines.append(f"{metric:<{width}}  {_cell(mean, 6)}{shown}  {len(values):>7,}")
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.4f}':>{width}}"


def _show(name: str) -> str:
    """An id, unable to steer a terminal."""
    return inert(name)
