"""What the page of a run shows, without its samples. It is derived from the run once, and kept in its index."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from evalspec.model import DatasetResult, JudgeUsage, Run, Threshold
from evalspec.reports.concerned import Concerned
from evalspec.reports.html_report.overview import describe_charts
from evalspec.reports.html_report.samples import limits_of
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import View
from evalspec.reports.view.run import build_view
from evalspec.verdict.wording import UNKNOWN, render_usage

MOST_REASONS = 200

_LIMITS = Limits(other_rows=1000, items=20, reasons=MOST_REASONS, notes=100, extras=12)
"""How much of a view is kept. Longer tables are in the report forms, which the page offers."""
_MOST_FACTS = 200
_MOST_CHARTS = 24


class DatasetCharts(Struct, frozen=True):
    """The distributions of a dataset, as `describe_charts` returns them. `more`: number of omitted charts."""

    dataset: str
    file: str | None
    charts: tuple[Mapping[str, Any], ...]
    latencies: Mapping[str, Any] | None
    more: int = 0


class ReasonSamples(Struct, frozen=True):
    """How many samples a reason of the verdict is about. `complete`: whether all of them are known."""

    count: int
    complete: bool


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


def build_content(run: Run, concerned: Sequence[Concerned | None]) -> RunContent:
    """Return what the page of a run shows. `concerned`: the samples of each reason."""
    facts = tuple(_flatten(to_builtins(run.fingerprint)))
    return RunContent(
        run.fingerprint.agent_name,
        run.fingerprint.started_at,
        str(run.verdict),
        int(run.exit_code),
        run.partial,
        run.has_texts,
        sum(dataset.selected for dataset in run.datasets),
        fit_view(build_view(run), _LIMITS),
        tuple(_list_charts(run)),
        tuple((metric, render_usage(usage)) for metric, usage in run.judge_usage.items() if usage != JudgeUsage()),
        facts[:_MOST_FACTS],
        {dataset.name: _list_limits(dataset) for dataset in run.datasets},
        tuple(None if one is None else ReasonSamples(len(one.places), one.complete) for one in concerned),
    )


def _list_limits(dataset: DatasetResult) -> dict[str, tuple[Threshold, ...]]:
    """Return the thresholds of every metric that apply to a single reply."""
    limits = limits_of(dataset)
    return {metric: tuple(limits.get(metric, ())) for metric in dataset.metrics}


def _list_charts(run: Run) -> Iterator[DatasetCharts]:
    for dataset in run.datasets:
        found = describe_charts(dataset)
        charts = [chart for chart in found["charts"] if chart["histogram"]]
        more = max(len(charts) - _MOST_CHARTS, 0)
        yield DatasetCharts(dataset.name, dataset.file, tuple(charts[:_MOST_CHARTS]), found["latencies"], more)


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
