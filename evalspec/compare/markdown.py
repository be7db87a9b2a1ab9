"""A comparison for a comment on a pull request: Markdown of GitHub's kind, foreign text in code spans only."""

from collections.abc import Iterator, Mapping

from evalspec.compare.comparison import CandidateComparison, Comparison, DatasetComparison, MetricChange, SampleChange
from evalspec.compare.document import Texts
from evalspec.compare.side_by_side import SideBySide
from evalspec.compare.wording import (
    MARKS,
    list_asides,
    render_attempt,
    render_counts,
    render_delta,
    render_method,
    render_moves,
    render_number,
    render_relative,
    render_scores,
    render_statement,
    render_tally,
    show_samples,
)
from evalspec.records import Direction
from evalspec.reporters.markdown import MOST_BYTES
from evalspec.reporters.markdown_parts import cell, code, folded, table

_LONGEST = 200
_ROWS_SHOWN = 60
_LINES_SHOWN = 20
_SLICES_SHOWN = 20
_SLICE_METRICS_SHOWN = 5


def render_comparison_markdown(comparison: Comparison, texts: Mapping[str, Texts], samples: int) -> str:
    """The comparison in less than MOST_BYTES of UTF-8: what has no room is left out from the end, and that is said.

    `samples`: how many of a dataset are shown.
    """
    end = f"{render_method(comparison)}\n"
    left_out = "> **Left out**: there is no room for more in a comment. The JSON document has all.\n\n"
    room = MOST_BYTES - len((end + left_out).encode())
    kept: list[str] = []
    for block in _blocks(comparison, texts, samples):
        room -= len(block.encode())
        if room < 0:
            return "".join([*kept, left_out, end])
        kept.append(block)
    return "".join([*kept, end])


def _blocks(comparison: Comparison, texts: Mapping[str, Texts], samples: int) -> Iterator[str]:
    yield _head(comparison)
    for one in comparison.candidates:
        yield _warnings(one)
    names = dict.fromkeys(dataset.name for one in comparison.candidates for dataset in one.datasets)
    for name in names:
        yield _metrics(comparison, name)
    for one in comparison.candidates:
        for dataset in one.datasets:
            of = f" of {code(one.candidate.name)}" if len(comparison.candidates) > 1 else ""
            if dataset.slices:
                yield _slices(dataset, of)
            yield _samples(dataset, texts.get(one.candidate.name, {}), samples, of)
        yield _remarks(one)
    yield "".join(f"note: {code(note, _LONGEST)}\n\n" for note in comparison.baseline.notes)


def _head(comparison: Comparison) -> str:
    candidates = ", ".join(code(one.candidate.name) for one in comparison.candidates)
    mark = "▼ " if comparison.degraded else ""
    return f"## {mark}{render_tally(comparison)}\n\n{candidates} against {code(comparison.baseline.name)}\n\n"


def _warnings(one: CandidateComparison) -> str:
    lines = [
        f"> **Not comparable**, allowed: {code(one.candidate.name)}: {code(mismatch, _LONGEST)}\n"
        for mismatch in one.mismatches
    ]
    return "".join(lines) + "\n" * bool(lines)


def _metrics(comparison: Comparison, name: str) -> str:
    several = len(comparison.candidates) > 1
    header = ["metric", "baseline:", "candidate:", "delta:", "", "pairs:", "", ""]
    rows: list[list[str]] = []
    asides: list[str] = []
    for one in comparison.candidates:
        for dataset in one.datasets:
            if dataset.name == name:
                rows += [_metric_cells(one, change, several=several) for change in dataset.metrics]
                asides += [code(aside, _LONGEST) for aside in list_asides(dataset)]
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    if several:
        header.insert(1, "run")
    said = "".join(f"{aside}\n\n" for aside in asides)
    return f"### {code(name)}\n\n{table(header, rows, _ROWS_SHOWN)}{said}"


def _metric_cells(one: CandidateComparison, change: MetricChange, *, several: bool) -> list[str]:
    metric, found = change.metric, change.found
    hint = "lower is better" if change.direction is Direction.LOWER else ""
    return [
        cell(metric),
        *([cell(one.candidate.name)] if several else []),
        render_number(metric, found.baseline),
        render_number(metric, found.candidate),
        render_delta(metric, found.delta),
        render_relative(found),
        f"{found.pairs:,}",
        f"{MARKS[change.change]} {change.change}",
        ", ".join(filter(None, [render_statement(change), hint])),
    ]


def _slices(dataset: DatasetComparison, of: str) -> str:
    shown = [change.metric for change in dataset.metrics[:_SLICE_METRICS_SHOWN]]
    header = ("slice", "pairs:", *(f"{cell(metric)}:" for metric in shown), "")
    rows = (
        [
            cell(part.name),
            f"{part.pairs:,}",
            *(render_delta(metric, part.metrics[metric].delta) for metric in shown),
            "too few samples to rank" if part.small else "",
        ]
        for part in dataset.slices
    )
    return _fold(f"Slices{of}, deltas, worst first ({len(dataset.slices):,})", table(header, rows, _SLICES_SHOWN))


def _samples(dataset: DatasetComparison, texts: Texts, most: int, of: str) -> str:
    title = f"Samples{of}: {render_counts(dataset) or 'none'}"
    shown = dataset.samples[: show_samples(dataset, most)]
    return _fold(title, "".join(_sample(change, texts.get((dataset.name, change.id))) for change in shown) + "\n")


def _sample(change: SampleChange, texts: SideBySide | None) -> str:
    lines = [f"- {code(change.id)} {change.kind}: {code(render_scores(change.scores), _LONGEST)}\n"]
    if texts is not None and texts.moves:
        lines.append(f"  - {code(render_moves(texts.moves), _LONGEST)}\n")
    if texts is not None and texts.attempt:
        lines.append(f"  - {render_attempt(texts.attempt)}\n")
    for side, answer in (("baseline", texts.baseline), ("candidate", texts.candidate)) if texts else ():
        if answer is not None:
            lines.append(f"  - {side}: {code(answer, _LONGEST)}\n")
    return "".join(lines)


def _fold(title: str, text: str) -> str:
    """Folded away; the title is a heading of its own where it holds foreign text, which no HTML may."""
    return folded(title, text) if "`" not in title else f"**{title}**\n\n{text}"


def _remarks(one: CandidateComparison) -> str:
    lines = [f"note: {code(note, _LONGEST)}" for note in one.notes[:_LINES_SHOWN]]
    lines += [f"differs: {code(difference, _LONGEST)}" for difference in one.differences[:_LINES_SHOWN]]
    more = len(one.differences) - _LINES_SHOWN
    lines += [f"differs: and {more} more"] if more > 0 else []
    return "  \n".join(lines) + "\n\n" * bool(lines)
