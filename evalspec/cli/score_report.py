"""What `evalspec score` measured: tables for people, and the report document of `evaluate` for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalspec import __version__
from evalspec.errors import ExitCode
from evalspec.ranking.engine import Measured
from evalspec.records import (
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Verdict,
    VerdictStatus,
)

EMPTY_QRELS = ("notApplicable", "zero")
"""What a query without a relevant document may be to the means, the first unless something else is said."""

NO_ANSWER = "no_answer"
_JUDGED = "Judged"

_MISSING = "the run has no results for this query"
_NOTHING_TO_JUDGE = "nothing was retrieved, so there is nothing to be judged"
_NOTHING_RELEVANT = "no document is judged relevant"
_ANSWERABLE = "there are relevant documents to be found"

_IDS_SHOWN = 3
_MEAN = "mean"


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
            str(spec): values if zero and spec.measure != _JUDGED else measured.defined(spec)
            for spec, values in measured.values.items()
        }
        if 0 in measured.relevant and not zero:
            counts = zip(measured.queries, measured.relevant, measured.retrieved, strict=True)
            columns[NO_ANSWER] = [
                None if relevant or query in measured.missing else float(not retrieved)
                for query, relevant, retrieved in counts
            ]
        return columns

    def score(self, metric: str, place: int) -> Score:
        """One value with its status, and the reason where there is none."""
        measured, value = self.measured, self.columns[metric][place]
        missing = measured.queries[place] in measured.missing
        if value is not None:
            return Score.scored(value, _MISSING if missing else None)
        if metric == NO_ANSWER:
            return Score.not_applicable(_ANSWERABLE) if measured.relevant[place] else Score.failed(_MISSING)
        return Score.not_applicable(_NOTHING_TO_JUDGE if metric.startswith(_JUDGED) else _NOTHING_RELEVANT)


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
    from evalspec.stats import compute_interval, compute_statistic

    width = max(map(len, ["metric", *scored.columns]))
    lines = [f"{'metric':<{width}}   value{'     95 % interval' if with_interval else ''}  queries"]
    for metric, column in scored.columns.items():
        values = [value for value in column if value is not None]
        mean = compute_statistic(values, _MEAN) if values else None
        interval = compute_interval(values) if with_interval else None
        shown = f"  {_cell(interval[0], 6)} – {_cell(interval[1], 6)}" if interval else " " * 17 * with_interval
        lines.append(f"{metric:<{width}}  {_cell(mean, 6)}{shown}  {len(values):>7,}")
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.4f}':>{width}}"


def _show(name: str) -> str:
    """An id, unable to steer a terminal."""
    if name.isprintable():
        return name
    from evalspec.reporters.wording import inert

    return inert(name)


def render_report(
    scored: Scored,
    name: str,
    facts: Mapping[str, Any],
    notes: Sequence[str],
    exit_code: ExitCode,
    *,
    per_query: bool,
) -> str:
    """The document as text. `facts`: what was measured, for the fingerprint. Queries are listed for `per_query`."""
    from evalspec.reporters.document import build_report
    from evalspec.reporters.json_report import render_document, render_json

    dataset = DatasetResult(
        name=name,
        direction=dict.fromkeys(scored.columns, Direction.HIGHER),
        samples=tuple(_samples(scored)) if per_query else (),
        summaries={metric: _summarise(metric, scored) for metric in scored.columns},
        outcomes=(),
    )
    run = Run(
        id="score",
        verdict=Verdict(VerdictStatus.NOT_GATED, ("score has no thresholds",)),
        exit_code=exit_code,
        datasets=(dataset,),
        notes=tuple(notes),
        fingerprint={"evalspec": __version__, **facts},
    )
    if per_query:
        return render_json(run)
    report = build_report(run)
    total = len(scored.measured.queries)
    counts = {"selected": total, "answered": total - len(scored.measured.missing)}
    counted = report.model_copy(update={"datasets": (report.datasets[0].model_copy(update=counts),)})
    return render_document(counted)


def _summarise(metric: str, scored: Scored) -> Summary:
    """As `summary.compute_summary` has it, without a score for each value: of those there may be a million."""
    from evalspec.stats import compute_interval, compute_statistic

    measured, column = scored.measured, scored.columns[metric]
    values = [value for value in column if value is not None]
    empty = (query for query, relevant in zip(measured.queries, measured.relevant, strict=True) if not relevant)
    failed = sum(query in measured.missing for query in empty) if metric == NO_ANSWER else 0
    return Summary(
        metric=metric,
        statistic=_MEAN,
        value=compute_statistic(values, _MEAN) if values else None,
        interval=compute_interval(values),
        scored=len(values),
        failed=failed,
        not_applicable=len(column) - len(values) - failed,
        median=compute_statistic(values, "median") if values else None,
    )


def _samples(scored: Scored) -> Iterator[SampleResult]:
    for place, query in enumerate(scored.measured.queries):
        missing = query in scored.measured.missing
        yield SampleResult(
            id=query,
            status=SampleStatus.FAILED if missing else SampleStatus.ANSWERED,
            error=_MISSING if missing else None,
            scores={metric: scored.score(metric, place) for metric in scored.columns},
        )
