"""The report that a person reads in ten seconds: verdict, then the numbers of each dataset, then the worst samples."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalspec.foreign_text import inert
from evalspec.records import DatasetResult, JudgeUsage, Run, VerdictStatus
from evalspec.reporters.console import render_parts
from evalspec.reporters.retrieval import find_plain
from evalspec.reporters.terminal_retriever import render_asked, render_missing, render_rerankings, render_stages
from evalspec.reporters.terminal_tables import (
    STYLES,
    describe_repeats,
    dim,
    find_skips,
    render_metrics,
    render_regressions,
    render_slices,
)
from evalspec.reporters.wording import UNKNOWN, counted, render_usage, render_value, split_notes
from evalspec.reporters.worst import Trouble, find_worst

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_WORST_SHOWN = 5
_REASONS_SHOWN = 8
_ID_WIDTH = 28
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
    return render_parts(_parts(run), width=width, color=color)


def _parts(run: Run) -> Iterator["RenderableType"]:
    reuse, notes = split_notes(run)
    yield _headline(run)
    if reuse:
        yield _indented(_plain(reuse))
    yield from _reasons(run)
    if run.regressions:
        yield ""
        yield render_regressions(run.regressions)
    for dataset in run.datasets:
        yield ""
        yield _dataset_heading(dataset)
        yield from map(_indented, render_asked(dataset))
        if find_plain(dataset) or dataset.thresholds:
            yield _indented(render_metrics(dataset))
        yield from map(_indented, render_rerankings(dataset))
        yield from map(_indented, render_stages(dataset.stages))
        if dataset.slices and dataset.metrics:
            yield from map(_indented, render_slices(dataset))
        if dataset.repeats:
            yield from (_indented(dim(line)) for line in describe_repeats(dataset.repeats))
        yield from (_indented(dim(line)) for line in find_skips(dataset))
        yield from _worst_part(find_worst(dataset))
        yield from map(_indented, render_missing(dataset.diagnosis))
    if run.judge_usage:
        yield ""
        yield dim(render_usage(sum(run.judge_usage.values(), JudgeUsage())))
    if notes:
        yield ""
        yield from (dim(f"note: {inert(note)}") for note in notes)


def _headline(run: Run) -> "Text":
    """Verdict, agent (`agent.name` of the fingerprint), how the thresholds came out, whether all was measured."""
    from rich.text import Text

    status = run.verdict
    line = Text(status.replace("_", " "), style=f"bold {STYLES[status]}")
    if name := run.fingerprint.get("agent", {}).get("name"):
        line.append(f"  {inert(str(name))}", style="not dim default")
    line.append(f"  {_thresholds_in_words(run)}", style="not bold not dim default")
    if run.partial:
        line.append("  PARTIAL", style="not dim yellow")
    return line


def _thresholds_in_words(run: Run) -> str:
    """`2 of 7 thresholds broken, 1 undecided`: what is wrong, or else how many are met; and what was left out.

    Where something else decides, like the baseline or `minPassRate`, the reasons below are announced.
    """
    statuses = [outcome.status for dataset in run.datasets for outcome in dataset.thresholds]
    decided = run.verdict in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE)
    announced = f"; {run.verdict} because:" if decided and run.verdict not in statuses else ""
    if not statuses:
        return f"no thresholds{announced}"
    count_of = {status: statuses.count(status) for status in _IN_WORDS}
    if count_of[VerdictStatus.FAIL] or count_of[VerdictStatus.INCOMPLETE]:
        del count_of[VerdictStatus.PASS]
    counts = [(count, _IN_WORDS[status]) for status, count in count_of.items() if count]
    (first, word), *others = counts
    total = counted(len(statuses), "threshold")
    return ", ".join([f"{first} of {total} {word}", *(f"{count} {word}" for count, word in others)]) + announced


def _reasons(run: Run) -> Iterator["RenderableType"]:
    reasons = run.reasons
    yield from (_indented(_plain(reason)) for reason in reasons[:_REASONS_SHOWN])
    if len(reasons) > _REASONS_SHOWN:
        yield _indented(dim(f"… and {len(reasons) - _REASONS_SHOWN} more"))


def _dataset_heading(dataset: DatasetResult) -> "Text":
    from rich.text import Text

    line = Text(inert(dataset.name), style="bold")
    unanswered = len(dataset.samples) - dataset.answered
    line.append(f"  {counted(len(dataset.samples), 'sample')}", style="not bold")
    if unanswered:
        line.append(f", {unanswered:,} without a usable reply", style="not bold red")
    return line


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
            Text(inert(trouble.metric or "no usable reply") + more, style="red" if trouble.value is None else ""),
            Text("failed" if trouble.metric and trouble.value is None else value),
            Text(inert(trouble.reason or ""), style="dim", no_wrap=True, overflow="ellipsis"),
        )
    count = f"{len(shown)} of {len(troubles):,}" if len(troubles) > len(shown) else str(len(troubles))
    yield _indented(Text(f"worst samples ({count})", style="dim"))
    yield _indented(table)


def _plain(text: str) -> "Text":
    from rich.text import Text

    return Text(inert(text))


def _indented(part: "RenderableType") -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2))
