"""A comparison that a person reads in ten seconds: what changed, how sure that is, and on which samples to look."""

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import TYPE_CHECKING

from evalspec.compare.comparison import (
    CandidateComparison,
    Change,
    Comparison,
    DatasetComparison,
    MetricChange,
    SampleChange,
    SampleKind,
)
from evalspec.compare.document import Texts
from evalspec.compare.pairing import sign_of
from evalspec.compare.side_by_side import SideBySide
from evalspec.compare.wording import (
    MARKS,
    list_asides,
    render_confidence,
    render_counts,
    render_delta,
    render_method,
    render_moves,
    render_number,
    render_p,
    render_relative,
    render_remark,
    render_scores,
    render_span,
    render_tally,
    show_samples,
)
from evalspec.records import Direction
from evalspec.reporters.foreign_text import cut
from evalspec.reporters.wording import UNKNOWN, counted, inert

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_NARROWEST = 60
_SLICES_SHOWN = 10
_SLICE_METRICS_SHOWN = 5
_LINES_SHOWN = 8
_LONGEST_TEXT = 300
_STYLES = {Change.IMPROVED: "green", Change.DEGRADED: "red", Change.NO_EVIDENCE: "", Change.TOO_FEW: "yellow"}
_SAMPLE_STYLES = {SampleKind.IMPROVED: "green", SampleKind.DEGRADED: "red", SampleKind.MIXED: "yellow"}


def render_comparison_terminal(
    comparison: Comparison, texts: Mapping[str, Texts], samples: int, *, width: int, color: bool
) -> str:
    """The comparison as lines of at most `width` columns (60 at least). `samples`: how many of a dataset are shown.

    Names, ids and answers come from elsewhere: whatever they hold is shown and never interpreted.
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
    for part in _parts(comparison, texts, samples):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().removesuffix("\n").split("\n"))


def _parts(comparison: Comparison, texts: Mapping[str, Texts], samples: int) -> Iterator["RenderableType"]:
    yield from _head(comparison)
    if len(comparison.candidates) > 1:
        yield from _side_by_side(comparison)
    for one in comparison.candidates:
        yield from _warnings(one)
        for dataset in one.datasets:
            yield ""
            yield _heading(comparison, one, dataset)
            if len(comparison.candidates) == 1:
                yield _indented(_metrics_table(comparison, dataset))
            yield from (_indented(_dim(line)) for line in map(inert, list_asides(dataset)))
            if dataset.slices:
                yield _indented(_slices_table(dataset))
            yield from _samples(dataset, texts.get(one.candidate.name, {}), samples)
        yield from _remarks(one)
    yield ""
    yield _dim(render_method(comparison))


def _head(comparison: Comparison) -> Iterator["Text"]:
    from rich.text import Text

    line = Text(render_tally(comparison), style="bold red" if comparison.degraded else "bold")
    yield line
    yield _indented_text(f"baseline   {_who(comparison.baseline.name, comparison.baseline.run.id)}")
    for one in comparison.candidates:
        yield _indented_text(f"candidate  {_who(one.candidate.name, one.candidate.run.id)}")


def _who(name: str, run_id: str) -> str:
    return inert(name) if name == run_id else f"{inert(name)}  {inert(run_id)}"


def _warnings(one: CandidateComparison) -> Iterator["RenderableType"]:
    from rich.text import Text

    for mismatch in one.mismatches:
        yield _indented(Text(f"NOT COMPARABLE, allowed: {inert(mismatch)}", style="yellow"))


def _remarks(one: CandidateComparison) -> Iterator["RenderableType"]:
    lines = [f"note: {inert(note)}" for note in one.notes]
    lines += [f"differs: {inert(difference)}" for difference in one.differences[:_LINES_SHOWN]]
    more = len(one.differences) - _LINES_SHOWN
    lines += [f"differs: and {more} more"] if more > 0 else []
    if lines:
        yield ""
        yield from map(_dim, lines)


def _heading(comparison: Comparison, one: CandidateComparison, dataset: DatasetComparison) -> "Text":
    from rich.text import Text

    line = Text(inert(dataset.name), style="bold")
    if len(comparison.candidates) > 1:
        line.append(f"  {inert(one.candidate.name)}", style="bold")
    line.append(f"  {counted(dataset.pairs, 'pair')}", style="not bold")
    return line


def _metrics_table(comparison: Comparison, dataset: DatasetComparison) -> "Table":
    from rich.text import Text

    table = _table("metric", ">baseline", ">candidate", ">delta", "", f"{render_confidence(comparison)} interval")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("")
    for change in dataset.metrics:
        table.add_row(
            Text(inert(change.metric)),
            render_number(change.metric, change.found.baseline),
            render_number(change.metric, change.found.candidate),
            Text(render_delta(change.metric, change.found.delta), style=_STYLES[change.change]),
            Text(render_relative(change.found), style="dim"),
            Text(render_span(change.found), style="dim"),
            render_p(change),
            _verdict(change),
            Text(_remark(change), style="dim"),
        )
    return table


def _side_by_side(comparison: Comparison) -> Iterator["RenderableType"]:
    """One table for all candidates: every metric of the baseline, and below it how each of them compares."""
    from rich.text import Text

    names = dict.fromkeys(dataset.name for one in comparison.candidates for dataset in one.datasets)
    for name in names:
        table = _table("metric", "run", ">value", ">delta", "", f"{render_confidence(comparison)} interval")
        table.add_column("p", justify="right", no_wrap=True)
        table.add_column("pairs", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for metric, found in _by_metric(comparison, name).items():
            base = next((change.found.baseline for _, change in found if change.found.baseline is not None), None)
            same = len({change.found.baseline for _, change in found}) == 1
            shown = render_number(metric, base) if same else "see below"
            table.add_row(Text(inert(metric)), Text("baseline", style="dim"), shown, *[""] * 5)
            for one, change in found:
                table.add_row(
                    "",
                    Text(inert(one.candidate.name)),
                    render_number(metric, change.found.candidate),
                    Text(render_delta(metric, change.found.delta), style=_STYLES[change.change]),
                    Text(render_relative(change.found), style="dim"),
                    Text(render_span(change.found), style="dim"),
                    render_p(change),
                    f"{change.found.pairs:,}",
                    _verdict(change),
                )
        yield ""
        yield Text(inert(name), style="bold")
        yield _indented(table)


def _by_metric(comparison: Comparison, dataset: str) -> Mapping[str, list[tuple[CandidateComparison, MetricChange]]]:
    found: dict[str, list[tuple[CandidateComparison, MetricChange]]] = {}
    for one in comparison.candidates:
        for compared in one.datasets:
            for change in compared.metrics if compared.name == dataset else ():
                found.setdefault(change.metric, []).append((one, change))
    return found


def _verdict(change: MetricChange) -> "Text":
    from rich.text import Text

    return Text(f"{MARKS[change.change]} {change.change}", style=_STYLES[change.change])


def _remark(change: MetricChange) -> str:
    hint = "lower is better" if change.direction is Direction.LOWER else ""
    return ", ".join(filter(None, [render_remark(change), hint]))


def _slices_table(dataset: DatasetComparison) -> "Table":
    """Deltas of the slices, worst first; coloured where the interval leaves out 0."""
    from rich.text import Text

    shown = dataset.metrics[:_SLICE_METRICS_SHOWN]
    table = _table("slice", ">pairs", *(f">{inert(change.metric)}" for change in shown), "")
    for part in dataset.slices[:_SLICES_SHOWN]:
        cells = []
        for change in shown:
            found = part.metrics[change.metric]
            low, high = found.interval or (0.0, 0.0)
            gain = (low if low > 0 else high if high < 0 else 0.0) * sign_of(change.direction)
            style = "" if part.small or not gain else "green" if gain > 0 else "red"
            cells.append(Text(render_delta(change.metric, found.delta), style=style))
        table.add_row(Text(inert(part.name)), f"{part.pairs:,}", *cells, Text("small" if part.small else "", "dim"))
    if len(dataset.slices) > _SLICES_SHOWN:
        table.add_row(_dim(f"… and {len(dataset.slices) - _SLICES_SHOWN:,} more"))
    return table


def _samples(dataset: DatasetComparison, texts: Texts, most: int) -> Iterator["RenderableType"]:
    yield _indented(_dim(f"samples: {render_counts(dataset) or 'none'}"))
    for change in dataset.samples[: show_samples(dataset, most)]:
        yield from map(_indented, _sample(change, texts.get((dataset.name, change.id))))


def _sample(change: SampleChange, texts: SideBySide | None) -> Iterator["Text"]:
    from rich.text import Text

    line = Text(f"  {inert(cut(change.id, 60))}  ", style="bold")
    line.append(str(change.kind), style=f"not bold {_SAMPLE_STYLES.get(change.kind, '')}".strip())
    line.append(f"  {inert(render_scores(change.scores))}", style="not bold")
    yield line
    if texts is None:
        return
    if texts.moves:
        yield _dim(f"    {inert(render_moves(texts.moves))}")
    for side, answer in (("baseline ", texts.baseline), ("candidate", texts.candidate)):
        shown = UNKNOWN if answer is None else inert(cut(answer, _LONGEST_TEXT))
        if texts.baseline is not None or texts.candidate is not None:
            yield Text(f"    {side} {shown}", style="dim", no_wrap=True, overflow="ellipsis")


def _table(*titles: str) -> "Table":
    """A title that begins with > is of a column of numbers."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(titles):
        right = title.startswith(">")
        justify = "right" if right else "left"
        table.add_column(
            title.removeprefix(">"),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=bool(number),
            overflow="fold",
        )
    return table


def _indented(part: "RenderableType") -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2))


def _indented_text(text: str) -> "Text":
    from rich.text import Text

    return Text(f"  {text}")


def _dim(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="dim")
