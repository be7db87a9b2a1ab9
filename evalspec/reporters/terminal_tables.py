"""The tables of the terminal report."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from evalspec.foreign_text import inert
from evalspec.records import (
    DatasetResult,
    Direction,
    RegressionOutcome,
    RepeatSummary,
    ScoreStatus,
    SliceResult,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reporters.retrieval import find_plain
from evalspec.reporters.wording import (
    UNKNOWN,
    mark_regression,
    render_gaps,
    render_interval,
    render_limit,
    render_not_applicable,
    render_value,
)
from evalspec.summary import MIN_SLICE

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

STYLES = {
    VerdictStatus.PASS: "green",
    VerdictStatus.FAIL: "red",
    VerdictStatus.INCOMPLETE: "yellow",
    VerdictStatus.NOT_GATED: "dim",
}
_SLICE_METRICS_SHOWN = 4
_SLICES_SHOWN = 8
_FLAKY_SHOWN = 5


def render_metrics(dataset: DatasetResult) -> "Table":
    """Each metric with its value, interval and limit; limits on slices and other statistics under it."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("metric", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("threshold", no_wrap=True)
    table.add_column("scored", justify="right", no_wrap=True)
    table.add_column("")
    for metric, summary in find_plain(dataset).items():
        table.add_row(*_summary_cells(metric, summary, dataset.own_threshold(metric)))
        for outcome in dataset.thresholds:
            if outcome.metric == metric and not dataset.is_own(outcome):
                table.add_row(*_outcome_cells(outcome, "  "))
    for outcome in dataset.thresholds:
        if outcome.metric not in dataset.metrics:
            table.add_row(*_outcome_cells(outcome, f"{inert(outcome.metric)} "))
    return table


def render_slices(dataset: DatasetResult) -> Iterator["RenderableType"]:
    """The slices against the first metrics of the dataset, worst first; all of them are in the other reports."""
    from rich.table import Table

    telling = [part for part in dataset.slices if not part.small]
    if telling:
        leading = _leading_metric(dataset)
        others = [metric for metric, summary in dataset.metrics.items() if metric != leading and summary.scored]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("slice", overflow="fold")
        table.add_column("n", justify="right")
        table.add_column(inert(leading), justify="right", no_wrap=True)
        table.add_column("95 % interval", no_wrap=True)
        others = others[: _SLICE_METRICS_SHOWN - 1]
        for metric in others:
            table.add_column(inert(metric), justify="right")
        for part in telling[:_SLICES_SHOWN]:
            interval = render_interval(part.metrics[leading])
            first, *more = (_slice_value(part, metric) for metric in (leading, *others))
            table.add_row(inert(part.name), f"{part.selected:,}", first, interval, *more)
        yield table
    small = sum(part.small for part in dataset.slices)
    left = {
        f"{len(telling) - _SLICES_SHOWN:,} more": len(telling) > _SLICES_SHOWN,
        f"{small:,} of fewer than {MIN_SLICE} samples": small > 0,
    }
    if any(left.values()):
        yield dim(f"slices not shown: {', '.join(what for what, there in left.items() if there)}")


def _leading_metric(dataset: DatasetResult) -> str:
    """The metric that slices are ordered by: the first that has a limit, else the first; skipped ones are none."""
    limited = {outcome.metric for outcome in dataset.thresholds}
    scored = [metric for metric, summary in dataset.metrics.items() if summary.scored] or list(dataset.metrics)
    return next((metric for metric in scored if metric in limited), scored[0])


def _slice_value(part: SliceResult, metric: str) -> str:
    summary = part.metrics[metric]
    return UNKNOWN if summary.value is None else render_value(metric, summary.value)


def _summary_cells(metric: str, summary: Summary, limit: Threshold | None) -> Iterator["Text"]:
    from rich.text import Text

    all_skipped = summary.skipped > 0 and summary.skipped == summary.expected
    style = "dim" if all_skipped else STYLES[limit.status] if limit else ""
    if summary.value is not None:
        value = render_value(metric, summary.value, limit)
    else:
        value = "skipped" if all_skipped else UNKNOWN
    gaps = [] if all_skipped else [render_gaps(summary)]
    hints = ["lower is better"] if summary.direction is Direction.LOWER and limit is None else []
    yield Text(inert(metric), style="dim" if all_skipped else "")
    yield Text(value, style=style)
    yield Text(render_interval(summary), style="dim")
    yield Text(render_limit(metric, limit) if limit else UNKNOWN, style=style)
    yield Text(f"{summary.scored:,}/{summary.expected:,}", style="yellow" if summary.failed else "")
    yield Text(", ".join(filter(None, gaps + hints)), style="dim")


def _outcome_cells(outcome: Threshold, margin: str) -> Iterator["Text"]:
    from rich.text import Text

    threshold = outcome
    limit = outcome
    style = STYLES[outcome.status]
    names = [threshold.stat or "", f"[{threshold.slice}]" if threshold.slice else ""]
    yield Text(margin + inert(" ".join(filter(None, names))))
    yield Text(UNKNOWN if outcome.value is None else render_value(threshold.metric, outcome.value, limit), style=style)
    yield Text("")
    yield Text(render_limit(threshold.metric, limit), style=style)
    yield Text(f"{outcome.scored:,}/{outcome.expected:,}")
    yield Text(render_not_applicable(outcome), style="dim")


def find_skips(dataset: DatasetResult) -> Iterator[str]:
    """Each reason for skipping once, with the metrics that it holds for."""
    metrics: dict[str, dict[str, None]] = {}
    for sample in dataset.samples:
        for metric, score in sample.scores.items():
            if score.status is ScoreStatus.SKIPPED:
                metrics.setdefault(score.reason or "no reason given", {})[metric] = None
    for reason, names in metrics.items():
        yield f"skipped {', '.join(map(inert, names))}: {inert(reason)}"


def render_regressions(regressions: Sequence[RegressionOutcome]) -> "Table":
    """What became of each metric against the baseline."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("against the baseline", "before", "now", "change", "pairs", ""):
        table.add_column(name, justify="left" if name in ("against the baseline", "") else "right")
    for found in regressions:
        metric = found.metric or ""
        known = [UNKNOWN if v is None else render_value(metric, v) for v in (found.baseline, found.candidate)]
        table.add_row(
            inert(found.label),
            *known,
            UNKNOWN if found.delta is None else f"{'+' if found.delta > 0 else ''}{render_value(metric, found.delta)}",
            f"{found.pairs:,}",
            Text(f"{mark_regression(found)} {inert(found.reason or '')}", style=STYLES[found.status]),
        )
    return table


def describe_repeats(repeats: RepeatSummary) -> Iterator[str]:
    """What repeating showed, in one or two lines."""
    k = repeats.repeats
    if k > 1:
        yield f"asked {k} times each, {_passing(repeats, k)}"
    spread = [
        f"{inert(metric)} {_deviation(found.replies)}" + (f" (judge {_deviation(found.judge)})" if found.judge else "")
        for metric, found in repeats.variance.items()
        if found.replies or found.judge
    ]
    if spread:
        yield f"standard deviation between replies to one sample: {', '.join(spread)}"


def _passing(repeats: RepeatSummary, k: int) -> str:
    if not repeats.pass_at:
        return "whether a sample passes is not known"
    flaky = ", ".join(inert(sample) for sample in repeats.flaky[:_FLAKY_SHOWN])
    more = ", …" if len(repeats.flaky) > _FLAKY_SHOWN else ""
    named = f"{len(repeats.flaky):,} flaky ({flaky}{more})" if repeats.flaky else "none flaky"
    return f"pass@{k} {repeats.pass_at[k]:.3f}, pass^{k} {repeats.pass_all[k]:.3f}, {named}"


def _deviation(variance: float | None) -> str:
    return UNKNOWN if variance is None else f"{variance**0.5:.3g}"


def dim(text: str) -> "Text":
    """Text that may be passed over."""
    from rich.text import Text

    return Text(text, style="dim")
