"""The report for a comment on a pull request, and for the step summary of GitHub Actions: Markdown of GitHub's kind.

Text from elsewhere stands in code spans only: in them GitHub makes no links, mentions, images or HTML, which it does
make of escaped or encoded text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evalspec.records import (
    DatasetResult,
    Direction,
    JudgeUsage,
    RepeatSummary,
    Run,
    ScoreStatus,
    SliceResult,
    Summary,
    Threshold,
)
from evalspec.reporters.base import Reporter, register
from evalspec.reporters.markdown_parts import cell, code, folded, table
from evalspec.reporters.markdown_regressions import render_regressions
from evalspec.reporters.markdown_retriever import render_asked, render_missing, render_rerankings, render_stages
from evalspec.reporters.retrieval import find_plain
from evalspec.reporters.wording import (
    MARKS,
    UNKNOWN,
    counted,
    render_gaps,
    render_interval,
    render_limit,
    render_not_applicable,
    render_usage,
    render_value,
    split_notes,
)
from evalspec.reporters.worst import Trouble, find_worst

MOST_BYTES = 60_000
"""A comment may have 65,536 characters; counting bytes is on the safe side in every script."""

_ROOM_FOR_NOTE = 2_000
_LONGEST_REASON = 200
_REASONS_SHOWN = 20
_ROWS_SHOWN = 60
_WORST_SHOWN = 10
_SLICES_SHOWN = 20
_SLICE_METRICS_SHOWN = 5
_FLAKY_SHOWN = 20
_NAMED_AS_LEFT_OUT = 5


@dataclass(frozen=True, slots=True)
class _Block:
    """A part that is shown whole or not at all. `rank`: those of a low one are given room first."""

    what: str
    text: str
    rank: int


def render_markdown(run: Run) -> str:
    """The report in less than MOST_BYTES of UTF-8, with a note of what had no room."""
    blocks = list(_blocks(run))
    end = _footer(run)
    room = MOST_BYTES - _ROOM_FOR_NOTE - _size(end)
    kept: set[int] = set()
    for number, block in sorted(enumerate(blocks), key=lambda numbered: numbered[1].rank):
        if _size(block.text) <= room:
            kept.add(number)
            room -= _size(block.text)
    left_out = [block.what for number, block in enumerate(blocks) if number not in kept]
    texts = [block.text for number, block in enumerate(blocks) if number in kept]
    return "".join([*texts, _note(left_out), end])


def _size(text: str) -> int:
    return len(text.encode())


def _note(left_out: Sequence[str]) -> str:
    if not left_out:
        return ""
    named = ", ".join(left_out[:_NAMED_AS_LEFT_OUT])
    more = f" and {len(left_out) - _NAMED_AS_LEFT_OUT:,} more" if len(left_out) > _NAMED_AS_LEFT_OUT else ""
    return f"> **Left out**, as a comment has room for {MOST_BYTES:,} bytes: {named}{more}. Other reports have all.\n\n"


def _blocks(run: Run) -> Iterator[_Block]:
    yield _Block("the verdict", _headline(run), 0)
    if run.regressions:
        yield _Block("the comparison with the baseline", render_regressions(run.regressions), 1)
    for dataset in run.datasets:
        name = code(dataset.name)
        yield _Block(f"the metrics of {name}", _metrics(dataset), 2)
        if dataset.stages:
            yield _Block(f"the latencies of {name}", render_stages(dataset.stages), 3)
        if troubles := find_worst(dataset):
            yield _Block(f"the worst samples of {name}", _worst(troubles), 3)
        if dataset.diagnosis and dataset.diagnosis.queries:
            yield _Block(f"what is missing in {name}", render_missing(dataset.diagnosis), 4)
        if dataset.repeats:
            yield _Block(f"the repeats of {name}", _repeats(dataset.repeats), 4)
        if dataset.slices:
            yield _Block(f"the slices of {name}", _slices(dataset), 5)


def _headline(run: Run) -> str:
    status = run.verdict
    parts = [f"## {MARKS[status]} {status.replace('_', ' ')}"]
    if name := run.fingerprint.get("agent", {}).get("name"):
        parts.append(code(str(name)))
    if run.partial:
        parts.append("PARTIAL")
    reuse, _ = split_notes(run)
    lines = [f"{' · '.join(parts)}\n\n", *([f"{code(reuse)}\n\n"] if reuse else [])]
    reasons = run.reasons
    lines += [f"- {code(reason, _LONGEST_REASON)}\n" for reason in reasons[:_REASONS_SHOWN]]
    lines += [f"- and {len(reasons) - _REASONS_SHOWN:,} more\n"] if len(reasons) > _REASONS_SHOWN else []
    return "".join(lines) + "\n" * bool(reasons)


def _metrics(dataset: DatasetResult) -> str:
    unanswered = len(dataset.samples) - dataset.answered
    gap = f", {unanswered:,} without a usable reply" if unanswered else ""
    rows = list(_metric_rows(dataset))
    heading = f"### {code(dataset.name)}\n\n{counted(len(dataset.samples), 'sample')}{gap}\n\n{render_asked(dataset)}"
    plain = table(("metric", "value:", "95 % interval", "threshold", "scored:", ""), rows, _ROWS_SHOWN)
    return heading + plain + render_rerankings(dataset)


def _metric_rows(dataset: DatasetResult) -> Iterator[list[str]]:
    for metric, summary in find_plain(dataset).items():
        yield _summary_cells(dataset, metric, summary)
        for outcome in dataset.thresholds:
            if outcome.metric == metric and not dataset.is_own(outcome):
                yield _outcome_cells(outcome)
    for outcome in dataset.thresholds:
        if outcome.metric not in dataset.metrics:
            yield _outcome_cells(outcome)


def _summary_cells(dataset: DatasetResult, metric: str, summary: Summary) -> list[str]:
    limit = dataset.own_threshold(metric)
    hints = [render_gaps(summary), *(cell(reason, _LONGEST_REASON) for reason in _skip_reasons(dataset, metric))]
    hints += ["lower is better"] if dataset.metrics[metric].direction is Direction.LOWER and limit is None else []
    return [
        cell(metric),
        UNKNOWN if summary.value is None else render_value(metric, summary.value, limit),
        render_interval(summary),
        render_limit(metric, limit) if limit else UNKNOWN,
        f"{summary.scored:,}/{summary.expected:,}",
        ", ".join(filter(None, hints)),
    ]


def _skip_reasons(dataset: DatasetResult, metric: str) -> Iterable[str]:
    """Why a metric was not computed, each reason once."""
    scores = (sample.scores.get(metric) for sample in dataset.samples)
    return dict.fromkeys(s.reason for s in scores if s and s.status is ScoreStatus.SKIPPED and s.reason)


def _outcome_cells(outcome: Threshold) -> list[str]:
    threshold = limit = outcome
    names = [threshold.metric, threshold.stat or "", f"[{threshold.slice}]" if threshold.slice else ""]
    return [
        cell(" ".join(filter(None, names))),
        UNKNOWN if outcome.value is None else render_value(threshold.metric, outcome.value, limit),
        "",
        render_limit(threshold.metric, limit),
        f"{outcome.scored:,}/{outcome.expected:,}",
        render_not_applicable(outcome),
    ]


def _worst(troubles: Sequence[Trouble]) -> str:
    rows = []
    for trouble in troubles[:_WORST_SHOWN]:
        unscored = "no usable reply" if trouble.metric is None else "failed"
        value = unscored if trouble.value is None else render_value(trouble.metric or "", trouble.value)
        more = f" +{trouble.more} more" if trouble.more else ""
        metric = (cell(trouble.metric) if trouble.metric else UNKNOWN) + more
        reason = cell(trouble.reason, _LONGEST_REASON) if trouble.reason else ""
        rows.append([cell(trouble.id), metric, value, reason])
    count = f"{len(rows)} of {len(troubles):,}" if len(troubles) > len(rows) else str(len(troubles))
    return folded(f"Worst samples ({count})", table(("sample", "metric", "value:", "why"), rows, _WORST_SHOWN))


def _slices(dataset: DatasetResult) -> str:
    metrics = list(dataset.metrics)[:_SLICE_METRICS_SHOWN]
    header = ("slice", "n:", *(f"{cell(metric)}:" for metric in metrics), "")
    rows = (_slice_cells(part, metrics) for part in dataset.slices)
    return folded(f"Slices ({len(dataset.slices):,})", table(header, rows, _SLICES_SHOWN))


def _slice_cells(part: SliceResult, metrics: Iterable[str]) -> list[str]:
    values = {metric: part.metrics[metric].value for metric in metrics}
    cells = [UNKNOWN if value is None else render_value(metric, value) for metric, value in values.items()]
    return [cell(part.name), f"{part.selected:,}", *cells, "too few samples to rank" if part.small else ""]


def _repeats(repeats: RepeatSummary) -> str:
    rows = ([str(k), f"{share:.3f}", f"{repeats.pass_all[k]:.3f}"] for k, share in repeats.pass_at.items())
    spread = [
        [cell(metric), *(UNKNOWN if part is None else f"{part:.4f}" for part in (v.replies, v.agent, v.judge))]
        for metric, v in repeats.variance.items()
    ]
    text = f"Each sample was asked {counted(repeats.repeats, 'time')}; "
    text += f"whether it passes is known of {counted(repeats.decided, 'sample')}.\n\n"
    text += table(("k:", "pass@k:", "pass^k:"), rows, _ROWS_SHOWN) if repeats.pass_at else ""
    text += table(("metric", "variance of replies:", "agent's:", "judge's:"), spread, _ROWS_SHOWN) if spread else ""
    if repeats.flaky:
        named = ", ".join(code(sample) for sample in repeats.flaky[:_FLAKY_SHOWN])
        more = f" and {len(repeats.flaky) - _FLAKY_SHOWN:,} more" if len(repeats.flaky) > _FLAKY_SHOWN else ""
        text += f"Sometimes passing, sometimes not: {named}{more}\n\n"
    return folded(f"Repeats ({len(repeats.flaky):,} flaky)", text)


def _footer(run: Run) -> str:
    _, notes = split_notes(run)
    lines = [f"note: {code(note, _LONGEST_REASON)}" for note in notes[:_REASONS_SHOWN]]
    lines += [render_usage(sum(run.judge_usage.values(), JudgeUsage()))] if run.judge_usage else []
    lines += [] if run.has_texts else ["questions, answers and reasons are left out (--no-content)"]
    return "  \n".join([*lines, f"run {code(run.id)}, exit code {int(run.exit_code)}"]) + "\n"


MARKDOWN = register(Reporter("markdown", (".md",), lambda run, _transcripts: render_markdown(run)))
