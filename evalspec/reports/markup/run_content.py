"""What the HTML report and the page of a run show, without the samples. The service keeps it in the index."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from evalspec.model import DatasetResult, JudgeUsage, Run, Threshold
from evalspec.reports.affected_samples import AffectedSamples
from evalspec.reports.findings import limits_of
from evalspec.reports.markup.distributions import describe_charts
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import Part, Row, Table, Tone, View
from evalspec.reports.view.run import build_view
from evalspec.verdict.wording import UNKNOWN, render_usage

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
