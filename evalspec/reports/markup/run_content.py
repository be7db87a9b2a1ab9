"""What the HTML report and the page of a run show, without the samples. The service keeps it in the index."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from evalspec.model import DatasetResult, JudgeUsage, Run, Summary, Threshold, VerdictStatus
from evalspec.reports.affected_samples import AffectedSamples
from evalspec.reports.findings import limits_of
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import Part, Row, Table, Tone, View
from evalspec.reports.view.run import build_view
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.summary import pool_scores
from evalspec.verdict.wording import UNKNOWN, is_latency, render_known, render_limit, render_usage

MOST_REASONS = 200

_IN_INDEX = Limits(other_rows=1000, items=20, reasons=MOST_REASONS, notes=100, extras=12)
"""How much of a view the service keeps. Longer tables are in the report forms, which the page offers."""
_IN_REPORT = Limits(items=20, without=frozenset({"worst"}))
"""Parts omitted from the view of a report because it has a table of all samples."""
_MOST_FACTS = 200
_MOST_CHARTS = 24
BASELINE = "baseline"
"""Key of the section that compares a run with its baseline."""
_GRAVITY = {Tone.FAIL: 0, Tone.WARN: 1}
_LINKED = 3
"""Maximum samples that are linked beside a reason. The others are linked as a table."""
_BINS = 20
_PERCENTILES = ("p50", "p95", "p99")
_LATENCY = "latency"


class DatasetCharts(Struct, frozen=True):
    """The distributions of a dataset, as `describe_charts` returns them. `more`: number of omitted charts."""

    dataset: str
    file: str | None
    charts: tuple[Mapping[str, Any], ...]
    latencies: Mapping[str, Any] | None
    more: int = 0


class ReasonSamples(Struct, frozen=True):
    """How many samples of a dataset a reason of the verdict is about. `complete`: whether all of them are known.

    `first`: the ids of some of them.
    """

    count: int
    complete: bool
    dataset: str
    first: tuple[str, ...]


class RunContent(Struct, frozen=True):
    """Everything on the page of a run. `facts`: the run's metadata.

    `limits`: the metrics of each dataset, with the thresholds that apply to a single reply. `concerned`: by reason;
    None: it is about no samples that are known.
    """

    agent: str | None
    started_at: str | None
    verdict: str
    exit_code: int
    partial: bool
    has_texts: bool
    samples: int
    view: View
    charts: tuple[DatasetCharts, ...]
    usages: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    limits: Mapping[str, Mapping[str, tuple[Threshold, ...]]]
    concerned: tuple[ReasonSamples | None, ...] = ()


def build_content(run: Run, concerned: Sequence[AffectedSamples | None]) -> RunContent:
    """Return what the service keeps of a run for its page. `concerned`: the samples of each reason."""
    found = build_whole_content(run, build_view(run), concerned, _IN_INDEX)
    charts = tuple(
        replace(one, charts=one.charts[:_MOST_CHARTS], more=max(len(one.charts) - _MOST_CHARTS, 0))
        for one in found.charts
    )
    return replace(found, charts=charts, facts=found.facts[:_MOST_FACTS])


def build_whole_content(
    run: Run, view: View, concerned: Sequence[AffectedSamples | None], limits: Limits = _IN_REPORT
) -> RunContent:
    """Return everything that a report shows of a run. `limits`: how much of the view."""
    return RunContent(
        run.fingerprint.agent_name,
        run.fingerprint.started_at,
        str(run.verdict),
        int(run.exit_code),
        run.partial,
        run.has_texts,
        sum(dataset.selected for dataset in run.datasets),
        _sort_baseline(fit_view(view, limits)),
        tuple(map(_list_charts, run.datasets)),
        tuple(
            (metric, render_usage(usage, [run.judge_costs[metric]] if run.judge_costs else []))
            for metric, usage in run.judge_usage.items()
            if usage != JudgeUsage()
        ),
        tuple(_flatten(to_builtins(run.fingerprint))),
        {dataset.name: _list_limits(dataset) for dataset in run.datasets},
        tuple(None if one is None else _describe_concerned(run, one) for one in concerned),
    )


def _sort_baseline(view: View) -> View:
    """Return the view with broken rows of the comparison with the baseline first, then undecided ones."""

    def weigh(row: Row) -> int:
        return min((_GRAVITY.get(cell.tone, 2) for cell in row.cells if cell.mark), default=2)

    def sort(part: Part) -> Part:
        return replace(part, rows=tuple(sorted(part.rows, key=weigh))) if isinstance(part, Table) else part

    sections = (
        replace(one, parts=tuple(map(sort, one.parts))) if one.key == BASELINE else one for one in view.sections
    )
    return replace(view, sections=tuple(sections))


def _describe_concerned(run: Run, found: AffectedSamples) -> ReasonSamples:
    dataset = run.datasets[found.dataset]
    first = tuple(dataset.samples[place].id for place in found.places[:_LINKED])
    return ReasonSamples(len(found.places), found.complete, dataset.name, first)


def _list_limits(dataset: DatasetResult) -> dict[str, tuple[Threshold, ...]]:
    """Return the thresholds of every metric that apply to a single reply."""
    limits = limits_of(dataset)
    return {metric: tuple(limits.get(metric, ())) for metric in dataset.metrics}


def _list_charts(dataset: DatasetResult) -> DatasetCharts:
    found = describe_charts(dataset)
    charts = tuple(chart for chart in found["charts"] if chart["histogram"])
    return DatasetCharts(dataset.name, dataset.file, charts, found["latencies"])


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested data as names like `judge.model` with their values."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        for number, item in enumerate(value):
            yield from _flatten(item, f"{path}[{number}]")
    else:
        yield path, value if isinstance(value, str) else UNKNOWN if value is None else json.dumps(value)


def compute_histogram(values: Sequence[float], bounds: Iterable[float] = ()) -> dict[str, Any] | None:
    """Return the counts of the values in bins of equal width. The last bin is closed.

    The scale covers 0 to 1, all values and `bounds`. Return None without values, or if they are too far apart for a
    scale.
    """
    if not values:
        return None
    shown = [*values, *bounds]
    low, high = min(0.0, *shown), max(1.0, *shown)
    if not isfinite(high - low):
        return None
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / (high - low) * _BINS), _BINS - 1)] += 1
    return {"low": low, "high": high, "counts": counts, "n": len(values)}


def compute_latencies(values: Sequence[float], bounds: Iterable[float] = ()) -> dict[str, Any] | None:
    """Return the histogram of latencies with their percentiles; None without values."""
    histogram = compute_histogram(values, bounds)
    if histogram is None:
        return None
    return histogram | {"percentiles": [[name, compute_statistic(values, name)] for name in _PERCENTILES]}


def describe_charts(dataset: DatasetResult) -> dict[str, Any]:
    """Return a chart per metric, and one for all latency metrics."""
    charts = [_chart(dataset, metric, summary) for metric, summary in dataset.metrics.items() if not is_latency(metric)]
    return {"charts": charts, "latencies": _latencies(dataset)}


def _chart(dataset: DatasetResult, metric: str, summary: Summary) -> dict[str, Any]:
    limit = dataset.own_threshold(metric)
    scores, _ = pool_scores(dataset.samples, metric, summary.statistic)
    values = [score.value for score in scores if score.value is not None]
    return {
        "name": metric,
        "histogram": compute_histogram(values, _bounds(limit)),
        "median": None if summary.median is None else render_known(metric, summary.median),
        "bounds": _bounds(limit),
        "limit": render_limit(limit) if limit else None,
        "broken": bool(limit and limit.status is VerdictStatus.FAIL),
    }


def _latencies(dataset: DatasetResult) -> dict[str, Any] | None:
    """Return one chart for all latency metrics of replies, with their thresholds."""
    values = [
        attempt_row.latency_ms
        for sample in dataset.samples
        for attempt_row in sample.attempts or (sample,)
        if attempt_row.latency_ms is not None
    ]
    limits = [
        limit for metric in dataset.metrics if metric.startswith(_LATENCY) and (limit := dataset.own_threshold(metric))
    ]
    bounds = [(bound, limit.status is VerdictStatus.FAIL) for limit in limits for bound in _bounds(limit)]
    histogram = compute_latencies(values, [bound for bound, _ in bounds])
    return histogram and histogram | {"limits": bounds}


def _bounds(limit: Threshold | None) -> list[float]:
    return [bound for bound in (limit.min, limit.max) if bound is not None] if limit else []
