"""A comparison that a person reads in ten seconds: what changed, how sure that is, and on which samples to look."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalspec.compare.comparison import (
    CandidateComparison,
    Comparison,
    DatasetComparison,
    SampleChange,
    SampleKind,
)
from evalspec.compare.document import Texts
from evalspec.compare.side_by_side import SideBySide
from evalspec.compare.terminal_tables import candidates_table, metrics_table, remark_lines, slices_table
from evalspec.compare.wording import (
    list_asides,
    render_attempt,
    render_counts,
    render_method,
    render_moves,
    render_scores,
    render_tally,
    show_samples,
)
from evalspec.reporters.console import render_parts
from evalspec.reporters.foreign_text import cut
from evalspec.reporters.wording import UNKNOWN, counted, inert

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_LINES_SHOWN = 8
_LONGEST_TEXT = 300
_SAMPLE_STYLES = {SampleKind.IMPROVED: "green", SampleKind.DEGRADED: "red", SampleKind.MIXED: "yellow"}


def render_comparison_terminal(
    comparison: Comparison, texts: Mapping[str, Texts], samples: int, *, width: int, color: bool
) -> str:
    """The comparison as lines of at most `width` columns (60 at least). `samples`: how many of a dataset are shown.

    Names, ids and answers come from elsewhere: whatever they hold is shown and never interpreted.
    """
    return render_parts(_parts(comparison, texts, samples, width), width=width, color=color)


def _parts(comparison: Comparison, texts: Mapping[str, Texts], samples: int, width: int) -> Iterator["RenderableType"]:
    yield from _head(comparison)
    if len(comparison.candidates) > 1:
        yield from _candidates(comparison, width)
    for one in comparison.candidates:
        yield from _warnings(one)
        for dataset in one.datasets:
            yield ""
            yield _heading(comparison, one, dataset)
            if len(comparison.candidates) == 1:
                yield _indented(metrics_table(dataset, width))
                yield from (_indented(_dim(line)) for line in remark_lines(dataset, width))
            yield from (_indented(_dim(line)) for line in map(inert, list_asides(dataset)))
            if dataset.slices:
                yield _indented(slices_table(dataset, width))
            yield from _samples(dataset, texts.get(one.candidate.name, {}), samples)
        yield from _remarks(one)
    yield ""
    yield from (_dim(f"note: {inert(note)}") for note in comparison.baseline.notes)
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
        yield _indented(
            Text(f"NOT COMPARABLE, allowed: {inert(one.candidate.name)}: {inert(mismatch)}", style="yellow")
        )


def _remarks(one: CandidateComparison) -> Iterator["RenderableType"]:
    lines = [f"note: {inert(note)}" for note in one.notes]
    lines += [f"differs: {inert(difference)}" for difference in one.differences[:_LINES_SHOWN]]
    more = len(one.differences) - _LINES_SHOWN
    lines += [f"differs: and {more} more"] if more > 0 else []
    if lines:
        yield ""
        yield from map(_dim, lines)


def _candidates(comparison: Comparison, width: int) -> Iterator["RenderableType"]:
    from rich.text import Text

    for name in dict.fromkeys(dataset.name for one in comparison.candidates for dataset in one.datasets):
        yield ""
        yield Text(inert(name), style="bold")
        yield _indented(candidates_table(comparison, name, width))


def _heading(comparison: Comparison, one: CandidateComparison, dataset: DatasetComparison) -> "Text":
    from rich.text import Text

    line = Text(inert(dataset.name), style="bold")
    if len(comparison.candidates) > 1:
        line.append(f"  {inert(one.candidate.name)}", style="bold")
    line.append(f"  {counted(dataset.pairs, 'pair')}", style="not bold")
    return line


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
    if texts.attempt:
        yield _dim(f"    {render_attempt(texts.attempt)}")
    for side, answer in (("baseline ", texts.baseline), ("candidate", texts.candidate)):
        shown = UNKNOWN if answer is None else inert(cut(answer, _LONGEST_TEXT))
        if texts.baseline is not None or texts.candidate is not None:
            yield Text(f"    {side} {shown}", style="dim", no_wrap=True, overflow="ellipsis")


def _indented(part: "RenderableType") -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2))


def _indented_text(text: str) -> "Text":
    from rich.text import Text

    return Text(f"  {text}")


def _dim(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="dim")
