"""The report that a person reads in ten seconds: verdict, then the numbers of each dataset, then the worst samples."""

from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING

from evalspec.records import (
    DatasetResult,
    Direction,
    JudgeUsage,
    Run,
    ScoreStatus,
    Summary,
    ThresholdOutcome,
    VerdictStatus,
)
from evalspec.reporters.limits import Limit, is_own, limit_of, own_limit
from evalspec.reporters.wording import (
    UNKNOWN,
    counted,
    inert,
    render_gaps,
    render_interval,
    render_limit,
    render_usage,
    render_value,
)
from evalspec.reporters.worst import Trouble, find_worst

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_NARROWEST = 60
_WORST_SHOWN = 5
_SLICE_METRICS_SHOWN = 5
_REASONS_SHOWN = 8
_ID_WIDTH = 28
_STYLES = {
    VerdictStatus.PASS: "green",
    VerdictStatus.FAIL: "red",
    VerdictStatus.INCOMPLETE: "yellow",
    VerdictStatus.NOT_GATED: "dim",
}
_IN_WORDS = {
    VerdictStatus.FAIL: "broken",
    VerdictStatus.INCOMPLETE: "undecided",
    VerdictStatus.PASS: "met",
    VerdictStatus.NOT_GATED: "not measured",
}


def render_terminal(run: Run, *, width: int, color: bool) -> str:
    """The report as lines of at most `width` columns (60 at least), ending with a newline.

    Names, ids and reasons come from datasets, agents and judges: whatever they hold is shown and never interpreted.
    """
    from rich.console import Console

    stream = StringIO()
    console = Console(
        file=stream,
        width=max(width, _NARROWEST),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in _parts(run):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().removesuffix("\n").split("\n"))


def _parts(run: Run) -> Iterator["RenderableType"]:
    yield _headline(run)
    yield from _reasons(run)
    for dataset in run.datasets:
        yield ""
        yield _dataset_heading(dataset)
        if dataset.summaries or dataset.outcomes:
            yield _indented(_metrics_table(dataset))
        if dataset.slices:
            yield _indented(_slices_table(dataset))
        yield from (_indented(_dim(line)) for line in _skip_lines(dataset))
        yield from _worst_part(find_worst(dataset))
    if run.judge_usage:
        yield ""
        yield _dim(render_usage(sum(run.judge_usage.values(), JudgeUsage())))
    if run.notes:
        yield ""
        yield from (_dim(f"note: {inert(note)}") for note in run.notes)


def _headline(run: Run) -> "Text":
    """Verdict, agent (`agent.name` of the fingerprint), how the thresholds came out, whether all was measured."""
    from rich.text import Text

    status = run.verdict.status
    line = Text(status.replace("_", " "), style=f"bold {_STYLES[status]}")
    if name := run.fingerprint.get("agent", {}).get("name"):
        line.append(f"  {inert(str(name))}", style="not dim default")
    line.append(f"  {_thresholds_in_words(run)}", style="not bold not dim default")
    if run.verdict.partial:
        line.append("  PARTIAL", style="not dim yellow")
    return line


def _thresholds_in_words(run: Run) -> str:
    """`2 of 7 thresholds broken, 1 undecided`: what is wrong, or else how many are met; and what was left out."""
    statuses = [outcome.status for dataset in run.datasets for outcome in dataset.outcomes]
    if not statuses:
        return "no thresholds"
    count_of = {status: statuses.count(status) for status in _IN_WORDS}
    if count_of[VerdictStatus.FAIL] or count_of[VerdictStatus.INCOMPLETE]:
        del count_of[VerdictStatus.PASS]
    counts = [(count, _IN_WORDS[status]) for status, count in count_of.items() if count]
    (first, word), *others = counts
    total = counted(len(statuses), "threshold")
    return ", ".join([f"{first} of {total} {word}", *(f"{count} {word}" for count, word in others)])


def _reasons(run: Run) -> Iterator["RenderableType"]:
    from rich.text import Text

    reasons = run.verdict.reasons
    yield from (_indented(Text(inert(reason))) for reason in reasons[:_REASONS_SHOWN])
    if len(reasons) > _REASONS_SHOWN:
        yield _indented(_dim(f"… and {len(reasons) - _REASONS_SHOWN} more"))


def _dataset_heading(dataset: DatasetResult) -> "Text":
    from rich.text import Text

    line = Text(inert(dataset.name), style="bold")
    unanswered = len(dataset.samples) - dataset.answered
    line.append(f"  {counted(len(dataset.samples), 'sample')}", style="not bold")
    if unanswered:
        line.append(f", {unanswered:,} unanswered", style="not bold red")
    return line


def _metrics_table(dataset: DatasetResult) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("metric", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("threshold", no_wrap=True)
    table.add_column("scored", justify="right", no_wrap=True)
    table.add_column("")
    for metric, summary in dataset.summaries.items():
        table.add_row(*_summary_cells(metric, summary, own_limit(dataset, metric), dataset.direction[metric]))
        for outcome in dataset.outcomes:
            if outcome.threshold.metric == metric and not is_own(outcome, dataset):
                table.add_row(*_outcome_cells(outcome, "  "))
    for outcome in dataset.outcomes:
        if outcome.threshold.metric not in dataset.summaries:
            table.add_row(*_outcome_cells(outcome, f"{inert(outcome.threshold.metric)} "))
    return table


def _slices_table(dataset: DatasetResult) -> "Table":
    """The slices against the first metrics of the dataset; all of them are in the JSON report."""
    from rich.table import Table

    metrics = list(dataset.summaries)[:_SLICE_METRICS_SHOWN]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("slice", overflow="fold")
    table.add_column("n", justify="right")
    for metric in metrics:
        table.add_column(inert(metric), justify="right")
    for part in dataset.slices:
        values = [part.summaries[metric] for metric in metrics]
        cells = [UNKNOWN if s.value is None else render_value(s.metric, s.value) for s in values]
        table.add_row(inert(part.name), f"{part.selected:,}", *cells)
    return table


def _summary_cells(metric: str, summary: Summary, limit: Limit | None, direction: Direction) -> Iterator["Text"]:
    from rich.text import Text

    all_skipped = summary.skipped > 0 and summary.skipped == summary.expected
    style = "dim" if all_skipped else _STYLES[limit.status] if limit else ""
    if summary.value is not None:
        value = render_value(metric, summary.value, limit)
    else:
        value = "skipped" if all_skipped else UNKNOWN
    gaps = [] if all_skipped else [render_gaps(summary)]
    hints = ["lower is better"] if direction is Direction.LOWER and limit is None else []
    yield Text(inert(metric), style="dim" if all_skipped else "")
    yield Text(value, style=style)
    yield Text(render_interval(summary), style="dim")
    yield Text(render_limit(metric, limit) if limit else UNKNOWN, style=style)
    yield Text(f"{summary.scored:,}/{summary.expected:,}", style="yellow" if summary.failed else "")
    yield Text(", ".join(filter(None, gaps + hints)), style="dim")


def _outcome_cells(outcome: ThresholdOutcome, margin: str) -> Iterator["Text"]:
    from rich.text import Text

    threshold = outcome.threshold
    limit = limit_of(outcome)
    style = _STYLES[outcome.status]
    names = [threshold.stat or "", f"[{threshold.slice}]" if threshold.slice else ""]
    yield Text(margin + inert(" ".join(filter(None, names))))
    yield Text(UNKNOWN if outcome.value is None else render_value(threshold.metric, outcome.value, limit), style=style)
    yield Text("")
    yield Text(render_limit(threshold.metric, limit), style=style)
    yield Text(f"{outcome.scored:,}/{outcome.expected:,}")
    yield Text("")


def _skip_lines(dataset: DatasetResult) -> Iterator[str]:
    """Each reason for skipping once, with the metrics that it holds for."""
    metrics: dict[str, dict[str, None]] = {}
    for sample in dataset.samples:
        for metric, score in sample.scores.items():
            if score.status is ScoreStatus.SKIPPED:
                metrics.setdefault(score.reason or "no reason given", {})[metric] = None
    for reason, names in metrics.items():
        yield f"skipped {', '.join(map(inert, names))}: {inert(reason)}"


def _worst_part(troubles: list[Trouble]) -> Iterator["RenderableType"]:
    from rich.table import Table
    from rich.text import Text

    if not troubles:
        return
    shown = troubles[:_WORST_SHOWN]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=_ID_WIDTH)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for trouble in shown:
        value = UNKNOWN if trouble.value is None else render_value(trouble.metric or "", trouble.value)
        more = f" +{trouble.more} more" if trouble.more else ""
        table.add_row(
            Text(inert(trouble.id)),
            Text(inert(trouble.metric or "no reply") + more, style="red" if trouble.value is None else ""),
            Text("failed" if trouble.metric and trouble.value is None else value),
            Text(inert(trouble.reason or ""), style="dim", no_wrap=True, overflow="ellipsis"),
        )
    count = f"{len(shown)} of {len(troubles):,}" if len(troubles) > len(shown) else str(len(troubles))
    yield _indented(Text(f"worst samples ({count})", style="dim"))
    yield _indented(table)


def _indented(part: "RenderableType") -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2))


def _dim(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="dim")
