"""One dataset of a run as a section: its metrics, slices, repeats and worst samples."""

from collections.abc import Iterator

from evalspec.records import (
    DatasetResult,
    Direction,
    RepeatSummary,
    ScoreStatus,
    SliceResult,
    Summary,
    Threshold,
)
from evalspec.reporters.view.parts import (
    TONES,
    Cell,
    Column,
    Foreign,
    Line,
    Part,
    Piece,
    Plot,
    Row,
    Section,
    Table,
    Tone,
    Words,
    Wrap,
    name,
    prose,
    sample,
)
from evalspec.reporters.view.retriever import build_missing, build_rerankings, build_stages, describe_settings
from evalspec.reporters.wording import (
    MARKS,
    UNKNOWN,
    counted,
    render_gaps,
    render_interval,
    render_known,
    render_limit,
    render_not_applicable,
    render_value,
)
from evalspec.reporters.worst import Trouble, find_plain, find_worst
from evalspec.summary import MIN_SLICE

MOST_ROWS = 100
"""Of lists that grow with the samples: more are counted, and no form shows them."""


def build_dataset(dataset: DatasetResult) -> Section:
    """A section with a section for each thing that is known of the dataset."""
    unanswered = len(dataset.samples) - dataset.answered
    gap = [Cell((f"{unanswered:,} without a usable reply",), Tone.FAIL)] if unanswered else []
    troubles = find_worst(dataset)
    sections = [
        *build_rerankings(dataset),
        *build_stages(dataset.stages),
        *([_build_slices(dataset)] if dataset.slices and dataset.metrics else []),
        *([_build_repeats(dataset.repeats)] if dataset.repeats else []),
        *([_build_worst(troubles)] if troubles else []),
        *build_missing(dataset.diagnosis),
    ]
    return Section(
        "dataset",
        name(dataset.name),
        tuple(_metric_parts(dataset)),
        "the metrics",
        about=(Cell((counted(len(dataset.samples), "sample"),)), *gap),
        sections=tuple(sections),
        rank=2,
    )


def _metric_parts(dataset: DatasetResult) -> Iterator[Part]:
    if dataset.retriever:
        yield Line(("asked of ", *describe_settings(dataset.retriever)), tone=Tone.QUIET)
    if rows := tuple(_metric_rows(dataset)):
        columns = (
            Column("metric", wrap=Wrap.FOLD),
            Column("value", right=True),
            Column("95 % interval"),
            Column("threshold"),
            Column("scored", right=True),
            Column(wrap=Wrap.WORDS),
        )
        yield Table(columns, rows)
    yield from _skip_lines(dataset)


def _metric_rows(dataset: DatasetResult) -> Iterator[Row]:
    """Every metric with its own limit, followed by its limits on slices and other statistics."""
    for metric, summary in find_plain(dataset).items():
        yield _summary_row(dataset, metric, summary)
        for threshold in dataset.thresholds:
            if threshold.metric == metric and not dataset.is_own(threshold):
                yield _threshold_row(threshold, under=name(metric))
    for threshold in dataset.thresholds:
        if threshold.metric not in dataset.metrics:
            yield _threshold_row(threshold)


def _summary_row(dataset: DatasetResult, metric: str, summary: Summary) -> Row:
    limit = dataset.own_threshold(metric)
    all_skipped = 0 < summary.skipped == summary.expected
    tone = Tone.QUIET if all_skipped else TONES[limit.status] if limit else Tone.PLAIN
    value = render_known(metric, summary.value, limit)
    hints = [] if all_skipped else [render_gaps(summary)]
    hints += ["lower is better"] if summary.direction is Direction.LOWER and limit is None else []
    own = [one.reason for one in dataset.thresholds if one.metric == metric and dataset.is_own(one) and one.reason]
    statistic = () if summary.statistic == "mean" else ((summary.statistic,),)
    return Row(
        (
            Cell(name(metric), Tone.QUIET if all_skipped else Tone.PLAIN, details=statistic),
            Cell(("skipped" if all_skipped else value,), tone, plot=_plot(summary.value, limit, summary.interval)),
            Cell((render_interval(summary),), Tone.QUIET),
            _limit_cell(limit, tone) if limit else Cell((UNKNOWN,), tone),
            Cell((f"{summary.scored:,}/{summary.expected:,}",), Tone.WARN if summary.failed else Tone.PLAIN),
            _hints_cell(hints, own),
        )
    )


def _threshold_row(threshold: Threshold, under: Words = ()) -> Row:
    names: list[Piece] = [] if under else [Foreign(threshold.metric)]
    names += [threshold.stat] if threshold.stat else []
    names += [Foreign(f"[{threshold.slice}]")] if threshold.slice else []
    words = [piece for one in names for piece in (" ", one)][1:]
    tone = TONES[threshold.status]
    return Row(
        (
            Cell(tuple(words)),
            Cell(
                (render_known(threshold.metric, threshold.value, threshold),),
                tone,
                plot=_plot(threshold.value, threshold),
            ),
            Cell(),
            _limit_cell(threshold, tone),
            Cell((f"{threshold.scored:,}/{threshold.expected:,}",)),
            _hints_cell([render_not_applicable(threshold)], [threshold.reason] if threshold.reason else []),
        ),
        under=under,
    )


def _limit_cell(limit: Threshold, tone: Tone) -> Cell:
    return Cell((render_limit(limit),), tone, MARKS[limit.status])


def _hints_cell(hints: list[str], reasons: list[str]) -> Cell:
    said = ", ".join(filter(None, hints))
    return Cell((said,) if said else (), Tone.QUIET, details=tuple(map(prose, dict.fromkeys(reasons))))


def _plot(value: float | None, limit: Threshold | None, ends: tuple[float, float] | None = None) -> Plot | None:
    bounds = (limit.min, limit.max) if limit else (None, None)
    return None if value is None else Plot(value, ends, *bounds)


def _skip_lines(dataset: DatasetResult) -> Iterator[Line]:
    """Each reason for skipping once, with the metrics that it holds for."""
    metrics: dict[str, dict[str, None]] = {}
    for one in dataset.samples:
        for metric, score in one.scores.items():
            if score.status is ScoreStatus.SKIPPED:
                metrics.setdefault(score.reason or "no reason given", {})[metric] = None
    for reason, names in metrics.items():
        yield Line(("skipped, ", *prose(reason)), tuple(map(name, names)), tone=Tone.QUIET)


def _build_slices(dataset: DatasetResult) -> Section:
    """The slices by metric, worst first by the leading one, of which alone the interval has a column."""
    leading = _find_leading(dataset)
    others = [metric for metric, summary in dataset.metrics.items() if metric != leading and summary.scored]
    columns = (
        Column("slice", wrap=Wrap.FOLD),
        Column("n", right=True),
        Column(Foreign(leading), right=True, extra=True),
        Column("95 % interval"),
        *(Column(Foreign(metric), right=True, wrap=Wrap.WORDS, extra=True) for metric in others),
        Column(wrap=Wrap.WORDS),
    )
    rows = tuple(_slice_row(part, leading, others) for part in dataset.slices)
    table = Table(columns, rows, minor=f"of fewer than {MIN_SLICE} samples")
    title = f"Slices ({len(dataset.slices):,}), worst first"
    return Section("slices", (title,), (table,), "the slices", rank=5, folded=True)


def _find_leading(dataset: DatasetResult) -> str:
    """The metric that slices are ordered by: the first that has a limit, else the first; skipped ones are none."""
    limited = {threshold.metric for threshold in dataset.thresholds}
    scored = [metric for metric, summary in dataset.metrics.items() if summary.scored] or list(dataset.metrics)
    return next((metric for metric in scored if metric in limited), scored[0])


def _slice_row(part: SliceResult, leading: str, others: list[str]) -> Row:
    first = part.metrics[leading]
    cells = (
        Cell(name(part.name)),
        Cell((f"{part.selected:,}",)),
        Cell((render_known(leading, first.value),), details=_slice_details(first)[1:]),
        Cell((render_interval(first),)),
        *(_slice_cell(metric, part.metrics[metric]) for metric in others),
        Cell(("too few samples to rank",) if part.small else (), Tone.QUIET),
    )
    return Row(cells, minor=part.small)


def _slice_cell(metric: str, summary: Summary) -> Cell:
    details = _slice_details(summary)
    return Cell((render_known(metric, summary.value),), details=tuple(one for one in details if one != (UNKNOWN,)))


def _slice_details(summary: Summary) -> tuple[tuple[str], ...]:
    """The interval, then what is not scored."""
    gaps = render_gaps(summary) if summary.value is None else render_not_applicable(summary)
    return ((render_interval(summary),), *(((gaps,),) if gaps else ()))


def _build_repeats(repeats: RepeatSummary) -> Section:
    """Pass rates and where the spread comes from, in a line each, and in tables for forms with room."""
    parts = [*_passing_parts(repeats), *_variance_parts(repeats)]
    if repeats.flaky:
        flaky = tuple(map(sample, repeats.flaky[:MOST_ROWS]))
        more = len(repeats.flaky) - len(flaky)
        parts.append(Line(("sometimes passing, sometimes not",), flaky, more, Tone.QUIET))
    title = f"Repeats ({len(repeats.flaky):,} flaky)"
    return Section("repeats", (title,), tuple(parts), "the repeats", rank=4, folded=True)


def _passing_parts(repeats: RepeatSummary) -> Iterator[Part]:
    k, known = repeats.repeats, "whether a sample passes is not known"
    if repeats.pass_at:
        decided = counted(repeats.decided, "decided sample")
        known = f"pass@{k} {repeats.pass_at[k]:.3f}, pass^{k} {repeats.pass_all[k]:.3f} over {decided}"
    if k > 1:
        yield Line((f"asked {k} times each, {known}",), tone=Tone.QUIET)
    rows = [(str(k), f"{share:.3f}", f"{repeats.pass_all[k]:.3f}") for k, share in repeats.pass_at.items()]
    columns = tuple(Column(title, right=True) for title in ("k", "pass@k", "pass^k"))
    if rows:
        yield Table(columns, tuple(_plain_row(*row) for row in rows), detail=True)


def _variance_parts(repeats: RepeatSummary) -> Iterator[Part]:
    spread = tuple(
        (*name(metric), f" {_deviation(found.replies)}", f" (judge {_deviation(found.judge)})" if found.judge else "")
        for metric, found in repeats.variance.items()
        if found.replies or found.judge
    )
    if spread:
        yield Line(("standard deviation between replies to one sample",), spread, tone=Tone.QUIET)
    rows = [
        Row((Cell(name(metric)), *(Cell((_share(part),)) for part in (found.replies, found.agent, found.judge))))
        for metric, found in repeats.variance.items()
    ]
    titles = ("variance of replies", "agent's", "judge's")
    columns = (Column("metric", wrap=Wrap.FOLD), *(Column(title, right=True) for title in titles))
    if rows:
        yield Table(columns, tuple(rows), detail=True)


def _plain_row(*texts: str) -> Row:
    return Row(tuple(Cell((text,)) for text in texts))


def _deviation(variance: float | None) -> str:
    return UNKNOWN if variance is None else f"{variance**0.5:.3g}"


def _share(part: float | None) -> str:
    return UNKNOWN if part is None else f"{part:.4f}"


def _build_worst(troubles: list[Trouble]) -> Section:
    columns = (
        Column("sample", wrap=Wrap.CUT),
        Column("metric"),
        Column("value", right=True),
        Column("why", wrap=Wrap.CUT),
    )
    rows = tuple(map(_trouble_row, troubles[:MOST_ROWS]))
    table = Table(columns, rows, more=len(troubles) - len(rows))
    return Section("worst", (f"Worst samples ({len(troubles):,})",), (table,), "the worst samples", rank=3, folded=True)


def _trouble_row(trouble: Trouble) -> Row:
    what = name(trouble.metric) if trouble.metric else ("no usable reply",)
    more = (f" +{trouble.more} more",) if trouble.more else ()
    unknown = "failed" if trouble.metric else UNKNOWN
    value = unknown if trouble.value is None else render_value(trouble.metric or "", trouble.value)
    return Row(
        (
            Cell(sample(trouble.id)),
            Cell((*what, *more), Tone.FAIL if trouble.value is None else Tone.PLAIN),
            Cell((value,)),
            Cell(prose(trouble.reason) if trouble.reason else (), Tone.QUIET),
        )
    )
