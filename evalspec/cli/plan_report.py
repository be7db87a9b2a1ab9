"""Render a forecast for the terminal and as JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.base.json_text import render_lines
from evalspec.base.plural import counted
from evalspec.model import Direction
from evalspec.reports.terminal import render_parts
from evalspec.runs.planning.forecast import DatasetForecast, Forecast, PartForecast
from evalspec.runs.planning.metric_forecasts import MetricForecast
from evalspec.verdict.stats.detection import POWER
from evalspec.verdict.wording import UNKNOWN, render_delta

if TYPE_CHECKING:
    from rich.console import RenderableType

_NAME = 11


def render_forecast(forecast: Forecast, *, width: int, color: bool) -> str:
    """Return the forecast as lines of at most `width` columns (at least 40)."""
    return render_parts(_parts(forecast), width=width, color=color)


def render_forecast_json(forecast: Forecast) -> str:
    """Return the forecast as a JSON document."""
    baseline, options = forecast.baseline, forecast.options
    document = {
        "schemaVersion": 1,
        "exitCode": int(ExitCode.OK),
        "summary": _summarise(forecast),
        "baseline": {"name": baseline.name, "runId": baseline.run.id} if baseline else None,
        "alpha": forecast.policy.alpha,
        "regression": forecast.policy.regression,
        "power": POWER,
        "tests": forecast.tests,
        "repeats": {"agent": options.repeat, "judge": options.judge_repeat},
        "agentRequests": _count_requests(forecast, to_agent=True),
        "retrieverQueries": _count_requests(forecast, to_agent=False),
        "judgeCalls": _count_judge_calls(forecast),
        "mayConfirm": forecast.may_confirm,
        "part": _describe_part(forecast),
        "datasets": [_describe_dataset(forecast, dataset) for dataset in forecast.datasets],
        "notes": list(forecast.notes),
        "incomplete": list(forecast.foregone),
    }
    return render_lines(document) + "\n"


def _describe_part(forecast: Forecast) -> dict[str, Any] | None:
    part = forecast.part
    if part is None:
        return None
    return {
        "name": part.name,
        "triples": part.triples,
        "fullTriples": part.full_triples,
        "requests": part.requests,
        "fullRequests": part.full_requests,
        "judgeCalls": part.judge_calls,
        "fullJudgeCalls": part.full_judge_calls,
        "share": part.triples / part.full_triples,
    }


def _describe_dataset(forecast: Forecast, dataset: DatasetForecast) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "samples": dataset.samples,
        "units": dataset.units,
        "unitsNeeded": forecast.count_units_needed(dataset),
        "cluster": dataset.cluster,
        "onlyInThisRun": dataset.unpaired,
        "retriever": dataset.retriever,
        "agentRequests": 0 if dataset.retriever else dataset.requests,
        "retrieverQueries": dataset.requests if dataset.retriever else 0,
        "judgeCalls": dict(dataset.judge_calls),
        "metrics": [_describe_metric(metric) for metric in dataset.metrics],
    }


def _describe_metric(metric: MetricForecast) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "direction": str(metric.direction),
        "maxDrop": metric.limit,
        "pairs": metric.pairs,
        "units": metric.units,
        "detectable": metric.detectable,
        "advice": metric.advice,
        "samplesNeeded": metric.needed,
        "noise": None if metric.noise is None else "measured" if metric.is_measured else "assumed",
        "noiseSource": metric.noise,
        "reason": metric.reason,
    }


def _count_requests(forecast: Forecast, *, to_agent: bool) -> int:
    return sum(dataset.requests for dataset in forecast.datasets if (dataset.retriever is None) is to_agent)


def _count_judge_calls(forecast: Forecast) -> int:
    return sum(sum(dataset.judge_calls.values()) for dataset in forecast.datasets)


def _summarise(forecast: Forecast) -> str:
    """Return a sentence with the first decidable metric of the manifest and the range of the others."""
    if not forecast.metrics:
        return "No metric is compared with a baseline: maxDrop applies to none of these datasets"
    known = [(one.detectable[1], dataset, one) for dataset, one in forecast.metrics if one.detectable is not None]
    if not known:
        _, metric = forecast.metrics[0]
        return f"The detectable change is unknown: {metric.name}: {metric.reason}"
    (size, dataset, metric), *others = known
    change = "drop" if metric.direction is Direction.HIGHER else "rise"
    where = metric.name if len(forecast.datasets) == 1 else f"{metric.name} of {dataset.name}"
    said = f"{_count_pairs(dataset, metric)} detect a {change} of {_size(metric, size)} in {where} in four of five runs"
    if metric.needed:
        said += f"; {_say_needed(metric)}"
    if others:
        sizes = [f"{_size(one, size)} in {one.name}" for size, _, one in sorted(others, key=lambda other: other[0])]
        said += f"; {counted(len(others), 'other metric')}: {' to '.join(dict.fromkeys((sizes[0], sizes[-1])))}"
    return said


def _count_pairs(dataset: DatasetForecast, metric: MetricForecast) -> str:
    pairs = counted(metric.pairs, "sample")
    return pairs if dataset.cluster is None else f"{pairs} in {counted(metric.units, 'cluster')}"


def _say_needed(metric: MetricForecast) -> str:
    needed = metric.needed or 0
    only = "only " if needed <= metric.pairs else ""
    return f"excluding {metric.limit:g} (maxDrop) needs {only}about {_round(needed):,} samples"


def _round(count: int) -> int:
    """Round an estimate to two significant digits."""
    return round(count, min(0, 2 - len(str(count))))


def _size(metric: MetricForecast, size: float) -> str:
    return render_delta(metric.name, size).lstrip("+±")


def _parts(forecast: Forecast) -> Iterator["RenderableType"]:
    from rich.text import Text

    yield Text(inert(_summarise(forecast)), style="bold")
    for reason in forecast.foregone:
        yield Text(f"The verdict will not be PASS: {inert(reason)}", style="yellow")
    yield Text(f"calls: {inert(_say_calls(forecast))}")
    if forecast.part is not None:
        yield Text(inert(_say_part(forecast.part)))
    for dataset in forecast.datasets:
        yield ""
        yield from _dataset(forecast, dataset)
    yield ""
    sources = dict.fromkeys(one.noise for _, one in forecast.metrics if one.noise)
    yield from (_dim(line) for line in (*sources, *(f"note: {note}" for note in forecast.notes)))
    yield _dim(_say_method(forecast))


def _say_calls(forecast: Forecast) -> str:
    queries = _count_requests(forecast, to_agent=False)
    judge = _count_judge_calls(forecast)
    parts = [counted(_count_requests(forecast, to_agent=True), "agent request")]
    parts += [counted(queries, "retriever query", "retriever queries")] if queries else []
    parts += [f"about {counted(judge, 'judge call')} without retries"] if judge else ["no judge call"]
    again = "; at most as many again, to confirm a drop" if forecast.may_confirm else ""
    return ", ".join(parts) + again


def _say_part(part: PartForecast) -> str:
    """Return size and cost of a part: `slice 2026Q4: 120 of 1,840 triples, …: 7 % of the full set`."""
    requests, full = part.requests, part.full_requests
    said = f"{part.name}: {part.triples:,} of {part.full_triples:,} triples"
    said += f", {requests:,} of {full:,} requests: {100 * requests / full:.0f} % of the full set"
    if part.full_judge_calls:
        share = 100 * part.judge_calls / part.full_judge_calls
        said += f"; about {part.judge_calls:,} of {part.full_judge_calls:,} judge calls: {share:.0f} %"
    return said


def _dataset(forecast: Forecast, dataset: DatasetForecast) -> Iterator["RenderableType"]:
    from rich.padding import Padding
    from rich.text import Text

    line = Text(inert(dataset.name), style="bold")
    line.append(f"  {inert(_say_size(forecast, dataset))}", style="not bold")
    yield line
    if dataset.metrics:
        yield Padding(_table(dataset), (0, 0, 0, 2))
    lines = [f"{one.name}: {said}" for one in dataset.metrics for said in (one.reason, one.advice) if said]
    needed = forecast.count_units_needed(dataset)
    if needed and dataset.cluster is not None and any(one.units >= needed for one in dataset.metrics):
        most = counted(needed - 1, "cluster")
        lines.append(f"a drop confined to at most {most} is never significant, however large")
    calls = ", ".join(f"{name} {count:,}" for name, count in dataset.judge_calls.items())
    lines += [f"judge calls: {calls}"] if calls else []
    if dataset.unpaired:
        lines.append(f"{counted(dataset.unpaired, 'sample')} of {dataset.samples:,} not in the baseline")
    yield from (Padding(_dim(said), (0, 0, 0, 2)) for said in lines)


def _say_size(forecast: Forecast, dataset: DatasetForecast) -> str:
    said = counted(dataset.samples, "sample")
    if dataset.cluster is not None:
        said += f" in {counted(dataset.units, 'cluster')} by {dataset.cluster}"
    if forecast.options.repeat > 1:
        said += f", {forecast.options.repeat} attempts each"
    return said if dataset.retriever is None else f"{said}, retriever {dataset.retriever}"


def _table(dataset: DatasetForecast) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("metric", overflow="fold", min_width=_NAME)
    for title in ("maxDrop", "detects", "needs"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("noise", no_wrap=True)
    for metric in dataset.metrics:
        noise = "" if metric.noise is None else "measured" if metric.is_measured else "assumed"
        table.add_row(
            Text(inert(metric.name)),
            f"{metric.limit:g}",
            _say_detectable(metric),
            _say_samples(metric),
            Text(noise, style="dim"),
        )
    return table


def _say_detectable(metric: MetricForecast) -> str:
    """Return the detectable change with its sign."""
    if metric.detectable is None:
        return UNKNOWN
    sign = -1 if metric.direction is Direction.HIGHER else 1
    ends = dict.fromkeys(render_delta(metric.name, sign * end) for end in metric.detectable)
    return " to ".join(ends)


def _say_samples(metric: MetricForecast) -> str:
    if metric.needed is None:
        return UNKNOWN
    return f"~{_round(metric.needed):,}{' ✓' if metric.needed <= metric.pairs else ''}"


def _say_method(forecast: Forecast) -> str:
    policy = forecast.policy
    baseline = f"baseline {inert(forecast.baseline.name)}" if forecast.baseline else "no baseline"
    if policy.alpha is None:
        return f"{baseline}; alpha is null: the gate fails any drop beyond maxDrop, noise included"
    adjusted = f", adjusted for {counted(forecast.tests, 'test')} (maxT)" if forecast.tests > 1 else ""
    return f"{baseline}; one-sided tests at alpha {policy.alpha:g}{adjusted}; ~ and `about` are estimates"


def _dim(text: str) -> "RenderableType":
    from rich.text import Text

    return Text(inert(text), style="dim")
