"""`evalspec plan`: the calls and the detectable change of a run, without calling anything."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.base.json_text import render_lines
from evalspec.base.plural import counted
from evalspec.cli.options import (
    dataset_option,
    json_option,
    manifest_argument,
    no_judge_option,
    on_option,
    option,
    request_options,
    url_option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.pushing import server_options
from evalspec.cli.streams import emit
from evalspec.cli.terminal_size import detect_terminal
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model import Direction
from evalspec.model.exchanges import SIMULATED_USER
from evalspec.model.forecasts import (
    DatasetForecast,
    Forecast,
    JudgeForecast,
    LabelForecast,
    MetricForecast,
    PartForecast,
)
from evalspec.model.usage import MILLION
from evalspec.runs.planning.forecast_wording import round_estimate
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.wording import UNKNOWN, render_delta

if TYPE_CHECKING:
    from rich.console import RenderableType

_NAME = 11
_SPANS = ("calls", "input_tokens", "output_tokens", "cost", "seconds")
_AT_MOST = "≤"
"""The cache may have a score of another judge, metric or reply, which is asked again."""


@click.command("plan", cls=OrderedCommand)
@manifest_argument
@option(
    "--baseline",
    metavar="NAME|FILE|RUN",
    help="Compare with this instead of ciGate.baseline: a promoted name, server:NAME, a file, or a stored run.",
)
@dataset_option
@url_option
@request_options
@no_judge_option
@on_option
@trust_options("manifest")
@server_options
@json_option
def command(
    manifest: Path, baseline: str | None, to: str | None, allow_http: bool, as_json: bool, **options: Any
) -> ExitCode:
    """Show the calls and the price of a run of MANIFEST, and the smallest drop that it can detect against a baseline.

    Tokens and times are those of earlier runs of the manifest. Without any, tokens are estimated from the samples.

    Nothing is called and no secret is read, except for a baseline of a server. The noise of an unchanged agent is
    measured if the baseline has several attempts (`evaluate --repeat 2`). Otherwise, it is assumed, and the output says
    so.

    \b
    Examples:
      evalspec plan agent.yaml
      evalspec plan agent.yaml --baseline latest --repeat 3
      evalspec plan agent.yaml --baseline server:main --to https://evals.example
      evalspec plan agent.yaml --json | jq '.datasets[].metrics[].detectable'
    """
    from evalspec.api.runs import comparison_baseline
    from evalspec.api.server_baselines import ServerChoice, fetch_baseline
    from evalspec.reports.terminal import render_parts
    from evalspec.runs.planning.forecast import build_forecast

    loaded = load_manifest(manifest)
    store, server = RunStore(STORE), ServerChoice(to, allow_http)
    if baseline is None:
        loaded = fetch_baseline(loaded, store, server)
    compared = comparison_baseline(loaded, baseline, store, server)
    forecast = build_forecast(loaded, RunOptions(**options), compared, store)
    if loaded.fetched is not None:
        said = loaded.fetched[1].describe(datetime.now(UTC).isoformat())
        forecast = replace(forecast, notes=(*forecast.notes, said))
    warn_all(forecast.warnings)
    if as_json:
        emit(render_lines(to_builtins(forecast)))
    else:
        width, color = detect_terminal()
        emit(render_parts(_parts(forecast), width=width, color=color), nl=False, color=color)
    return ExitCode.OK


def _parts(forecast: Forecast) -> Iterator["RenderableType"]:
    from rich.text import Text

    yield Text(inert(forecast.summary), style="bold")
    for reason in forecast.incomplete:
        yield Text(f"The verdict will not be PASS: {inert(reason)}", style="yellow")
    yield Text(f"calls: {inert(_say_calls(forecast))}")
    if forecast.part is not None:
        yield Text(inert(_say_part(forecast.part)))
    for dataset in forecast.datasets:
        yield ""
        yield from _dataset(forecast, dataset)
    yield ""
    sources = dict.fromkeys(one.noise_source for _, one in forecast.metrics if one.noise_source)
    yield from (_dim(line) for line in (*sources, *(f"note: {note}" for note in forecast.notes)))
    yield _dim(_say_method(forecast))


def _say_calls(forecast: Forecast) -> str:
    queries = forecast.retriever_queries
    played = sum(dataset.judge_calls.get(SIMULATED_USER, 0) for dataset in forecast.datasets)
    judge = forecast.judge_calls - played
    parts = [counted(forecast.agent_requests, "agent request")]
    parts += [counted(queries, "retriever query", "retriever queries")] if queries else []
    parts += [f"about {counted(judge, 'judge call')} without retries"] if judge else ["no judge call"]
    parts += [f"at most {counted(played, 'message')} of the simulated user"] if played else []
    parts += [f"cost {' to '.join(map(_shorten, cost))}"] if (cost := _add_costs(forecast)) else []
    again = "; at most as many again, to confirm a drop" if forecast.may_confirm else ""
    return ", ".join(parts) + again


def _add_costs(forecast: Forecast) -> tuple[float, float] | None:
    """Return the least and the highest cost of a run; None if it is unknown or nothing is judged."""
    costs = [one.cost for dataset in forecast.datasets for one in (*dataset.judge, *dataset.controls)]
    return _add_spans(costs) if costs else None


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
    reasons = {one.cost_reason and f"cost unknown: {one.cost_reason}" for one in dataset.judge}
    reasons |= {one.seconds_reason and f"time unknown: {one.seconds_reason}" for one in dataset.judge}
    lines = [f"{one.metric}: {said}" for one in dataset.metrics for said in (one.reason, one.advice) if said]
    needed = dataset.units_needed
    if needed and dataset.cluster is not None and any(one.units >= needed for one in dataset.metrics):
        most = counted(needed - 1, "cluster")
        lines.append(f"a drop confined to at most {most} is never significant, however large")
    if dataset.judge:
        yield Padding(_judge_table(dataset), (0, 0, 0, 2))
    lines += sorted(filter(None, reasons))
    lines += map(_say_labels, _group_labels(dataset.labels))
    if dataset.only_in_this_run:
        lines.append(f"{counted(dataset.only_in_this_run, 'sample')} of {dataset.samples:,} not in the baseline")
    yield from (Padding(_dim(said), (0, 0, 0, 2)) for said in lines)


def _group_labels(labels: Sequence[LabelForecast]) -> list[list[LabelForecast]]:
    """Return the forecasts of each limit."""
    return [[*of] for _, of in groupby(labels, key=lambda one: (one.metric, one.limit))]


def _say_labels(cases: Sequence[LabelForecast]) -> str:
    """Return how many labels decide a limit: `faithfulness, limit 0.8: 96 labels if people say 0.9`."""
    first = cases[0]
    told = [
        f"{f'{one.labels:,}' if one.labels else f'more than all {one.replies:,}'} if people say {one.people:.3g}"
        for one in cases
    ]
    source = ", as in the newest calibration" if first.is_calibrated else ""
    return f"{first.metric}, limit {first.limit:g}: labels that decide it four times in five: {', '.join(told)}{source}"


def _say_size(forecast: Forecast, dataset: DatasetForecast) -> str:
    said = counted(dataset.samples, "sample")
    if dataset.cluster is not None:
        said += f" in {counted(dataset.units, 'cluster')} by {dataset.cluster}"
    if forecast.repeats.agent > 1:
        said += f", {forecast.repeats.agent} attempts each"
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
        table.add_row(
            Text(inert(metric.metric)),
            f"{metric.max_drop:g}",
            _say_detectable(metric),
            _say_samples(metric),
            Text(metric.noise or "", style="dim"),
        )
    return table


def _judge_table(dataset: DatasetForecast) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("judged metric", overflow="fold", min_width=_NAME)
    for title in ("cached", "calls", "tokens", "cost", "seconds"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in (*dataset.judge, *_add_up(dataset.controls)):
        tokens = tuple(map(sum, zip(one.input_tokens, one.output_tokens, strict=True)))
        spans = (one.calls, tokens, one.cost, one.seconds)
        table.add_row(
            Text(inert(one.metric)),
            f"{_AT_MOST if one.cached else ''}{one.cached:,}/{one.scores:,}",
            *map(_say_span, spans),
        )
    return table


def _add_up(controls: Sequence[JudgeForecast]) -> Iterator[JudgeForecast]:
    """Yield one line for the tests of the judge on all metrics, if there are any."""
    if controls:
        spans = {name: _add_spans([getattr(one, name) for one in controls]) for name in _SPANS}
        counts = {name: sum(getattr(one, name) for one in controls) for name in ("scores", "cached")}
        yield replace(controls[0], metric="tests of the judge", **spans, **counts)


def _add_spans(spans: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [span for span in spans if span is not None]
    return (sum(low for low, _ in known), sum(high for _, high in known)) if len(known) == len(spans) else None


def _say_span(span: Sequence[float] | None) -> str:
    return UNKNOWN if span is None else "–".join(dict.fromkeys(map(_shorten, span)))


def _shorten(amount: float) -> str:
    """Return a number with two digits or more: `0.042`, `950`, `12k`, `3.4M`."""
    for size, letter in ((MILLION, "M"), (1000, "k")):
        if amount >= 10 * size or (letter == "M" and amount >= size):
            return f"{amount / size:.2g}{letter}" if amount < 100 * size else f"{amount / size:,.0f}{letter}"
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.2g}"


def _say_detectable(metric: MetricForecast) -> str:
    """Return the detectable change with its sign."""
    if metric.detectable is None:
        return UNKNOWN
    sign = -1 if metric.direction is Direction.HIGHER else 1
    ends = dict.fromkeys(render_delta(metric.metric, sign * end) for end in metric.detectable)
    return " to ".join(ends)


def _say_samples(metric: MetricForecast) -> str:
    if metric.samples_needed is None:
        return UNKNOWN
    return f"~{round_estimate(metric.samples_needed):,}{' ✓' if metric.samples_needed <= metric.pairs else ''}"


def _say_method(forecast: Forecast) -> str:
    baseline = f"baseline {inert(forecast.baseline.name)}" if forecast.baseline else "no baseline"
    if forecast.alpha is None:
        return f"{baseline}; alpha is null: the gate fails any drop beyond maxDrop, noise included"
    adjusted = f", adjusted for {counted(forecast.tests, 'test')} (maxT)" if forecast.tests > 1 else ""
    return f"{baseline}; one-sided tests at alpha {forecast.alpha:g}{adjusted}; ~ and `about` are estimates"


def _dim(text: str) -> "RenderableType":
    from rich.text import Text

    return Text(inert(text), style="dim")
