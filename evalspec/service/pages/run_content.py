"""What the page of a run shows, without its samples. It is derived from the run once, and kept in its index."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from evalspec.model import UNDECIDED, DatasetResult, JudgeUsage, Run, ScoreStatus, Threshold, VerdictStatus
from evalspec.reporters.concerned import name_reason
from evalspec.reporters.html_report.overview import describe_charts
from evalspec.reporters.html_report.samples import limits_of
from evalspec.reporters.view.fit import Limits, fit_view
from evalspec.reporters.view.parts import View
from evalspec.reporters.view.run import build_view
from evalspec.reporters.wording import UNKNOWN, render_usage
from evalspec.summary import in_slice

_LIMITS = Limits(other_rows=1000, items=20, reasons=200, notes=100, extras=12)
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
    """The samples that a reason of the verdict is about, as filters of the list. `count`: how many there are."""

    count: int
    dataset: str
    state: str
    metric: str
    slice: str | None = None


class RunContent(Struct, frozen=True):
    """Everything on the page of a run. `facts`: the run's metadata.

    `limits`: the metrics of each dataset, with the thresholds that apply to a single reply. `concerned`: by reason.
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


def build_content(run: Run) -> RunContent:
    """Return what the page of a run shows."""
    agent = run.fingerprint.get("agent", {}).get("name")
    started_at = run.fingerprint.get("startedAt")
    facts = tuple(_flatten(run.fingerprint))
    return RunContent(
        None if agent is None else str(agent),
        None if started_at is None else str(started_at),
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
        tuple(_list_concerned(run)),
    )


def _list_concerned(run: Run) -> Iterator[ReasonSamples | None]:
    """Yield the samples of each reason: those beyond a limit, or without a score. None: no filter shows them."""
    limits = {name_reason(dataset, limit): (dataset, limit) for dataset in run.datasets for limit in dataset.thresholds}
    for reason in run.reasons:
        found = limits.get(reason) or limits.get(reason.removeprefix(UNDECIDED))
        yield _find_samples(*found) if found else None


def _find_samples(dataset: DatasetResult, limit: Threshold) -> ReasonSamples | None:
    inside = (one.scores.get(limit.metric) for one in dataset.samples if in_slice(one, limit.slice))
    scores = [score for score in inside if score is not None]
    beyond = sum(score.value is not None and not limit.holds(score.value) for score in scores)
    failed = sum(score.status is ScoreStatus.FAILED for score in scores)
    counts = {"beyond": beyond, "failed": failed}
    first, second = ("beyond", "failed") if limit.status is VerdictStatus.FAIL else ("failed", "beyond")
    state = first if counts[first] else second
    return ReasonSamples(counts[state], dataset.name, state, limit.metric, limit.slice) if counts[state] else None


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


def encode_content(content: RunContent) -> bytes:
    """Return the content as JSON."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(msgspec.to_builtins(content)).encode()


def decode_content(content: bytes) -> RunContent:
    """Return the content that was encoded.

    Raises:
        ValueError: Another version of evalspec encoded it.
    """
    try:
        return msgspec.json.decode(content, type=RunContent)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.convert(json.loads(content), RunContent)
