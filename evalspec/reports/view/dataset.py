"""The section of a dataset: metrics, slices, repeats and worst samples."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from evalspec.base.plural import counted
from evalspec.model import (
    DatasetResult,
    Direction,
    RepeatSummary,
    ScoreStatus,
    SliceResult,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reports.findings import OPINION
from evalspec.reports.view.curation import describe_gold
from evalspec.reports.view.failures import FailureTexts, build_failures, describe_failure
from evalspec.reports.view.parts import (
    TONES,
    Cell,
    Column,
    Foreign,
    Part,
    Piece,
    Plot,
    Row,
    Section,
    Table,
    Tone,
    Words,
    Wrap,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
    row,
    sample,
)
from evalspec.reports.view.retriever import build_missing, build_rerankings, build_stages, describe_settings
from evalspec.reports.worst import FailedSample, plain_summaries
from evalspec.verdict.summary import MIN_SLICE
from evalspec.verdict.wording import (
    DEMONSTRATION,
    MARKS,
    UNKNOWN,
    render_correction,
    render_gaps,
    render_interval,
    render_known,
    render_limit,
    render_not_applicable,
    render_value,
)

_MOST_ROWS = 100
"""Maximum rows of lists that grow with the samples. No reporter shows more; the others are counted."""

_METRIC_COLUMNS = (
    names("metric"),
    *numbers("value"),
    Column("95 % interval", aside=True),
    Column("threshold"),
    *numbers("scored"),
    Column(wrap=Wrap.WORDS, aside=True),
)
_WORST_COLUMNS = (
    Column("sample", wrap=Wrap.CUT),
    Column("metric"),
    *numbers("value"),
    Column("why", wrap=Wrap.CUT, aside=True),
)
_ORDER = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE)
"""Statuses of metrics that are shown first."""
_PASS_COLUMNS = numbers("k", "pass@k", "pass^k")
_VARIANCE_COLUMNS = (names("metric"), *numbers("variance of replies", "agent's", "judge's"))


def build_dataset(dataset: DatasetResult, broken: Collection[str], worst: Iterable[Section] = ()) -> Section:
    """Return the section of a dataset, with a subsection for each kind of result.

    `broken`: the metrics that are worse than a limit, or undecided. `worst`: the section of its worst samples, if any.
    """
    unanswered = len(dataset.samples) - dataset.answered
    gap = [cell(f"{unanswered:,} without a usable reply", tone=Tone.FAIL)] if unanswered else []
    sections = (
        *build_rerankings(dataset),
        *build_stages(dataset.stages),
        *_build_slices(dataset, broken),
        *_build_repeats(dataset.repeats),
        *worst,
        *build_missing(dataset.diagnosis),
    )
    shown = [cell(DEMONSTRATION, tone=Tone.WARN)] if dataset.gold and dataset.gold.demonstration else []
    about = (cell(counted(len(dataset.samples), "sample")), *gap, *shown)
    return Section("dataset", name(dataset.name), tuple(_metric_parts(dataset)), "the metrics", about, sections, rank=2)


def _metric_parts(dataset: DatasetResult) -> Iterator[Part]:
    if dataset.source_id or dataset.description:
        separator = ": " if dataset.source_id and dataset.description else ""
        yield quiet(*name(dataset.source_id or ""), separator, *prose(dataset.description or ""))
    if dataset.retriever:
        yield quiet("retriever ", *describe_settings(dataset.retriever))
    if dataset.gold:
        yield describe_gold(dataset.gold)
    if rows := tuple(_metric_rows(dataset)):
        yield Table(_METRIC_COLUMNS, rows)
    for metric, summary in dataset.metrics.items():
        for line in render_correction(metric, summary.correction):
            yield quiet(*name(metric), ": ", *prose(line))
    for reason, metrics in _find_skips(dataset).items():
        yield quiet("skipped, ", *prose(reason), items=map(name, metrics))


def _metric_rows(dataset: DatasetResult) -> Iterator[Row]:
    """Yield every metric with its own limit, followed by its other limits. Broken metrics come first."""
    summaries = plain_summaries(dataset)
    for metric in sorted(summaries, key=lambda metric: _rank(dataset, metric)):
        summary = summaries[metric]
        yield _summary_row(dataset, metric, summary)
        for threshold in dataset.thresholds:
            if threshold.metric == metric and not dataset.is_own(threshold):
                yield _threshold_row(threshold, under=name(metric))
    for threshold in dataset.thresholds:
        if threshold.metric not in dataset.metrics:
            yield _threshold_row(threshold)


def _rank(dataset: DatasetResult, metric: str) -> int:
    statuses = {limit.status for limit in dataset.thresholds if limit.metric == metric}
    return next((place for place, status in enumerate(_ORDER) if status in statuses), len(_ORDER))


def _summary_row(dataset: DatasetResult, metric: str, summary: Summary) -> Row:
    limit = dataset.own_threshold(metric)
    all_skipped = 0 < summary.skipped == summary.expected
    tone = Tone.QUIET if all_skipped else TONES[limit.status] if limit else Tone.PLAIN
    value = "skipped" if all_skipped else render_known(metric, summary.value, limit)
    hints = ["" if all_skipped else render_gaps(summary)]
    hints += ["lower is better"] if summary.direction is Direction.LOWER and limit is None else []
    own = [one for one in dataset.thresholds if one.metric == metric and dataset.is_own(one)]
    hints += [OPINION] if any(one.is_opinion for one in own) else []
    statistic = () if summary.statistic == "mean" else ((summary.statistic,),)
    return row(
        cell(*name(metric), tone=Tone.QUIET if all_skipped else Tone.PLAIN, details=statistic),
        cell(value, tone=tone, plot=_plot(summary.value, limit, summary.interval)),
        cell(render_interval(summary), tone=Tone.QUIET),
        _limit_cell(limit, tone) if limit else cell(UNKNOWN, tone=tone),
        _scored_cell(summary, Tone.WARN if summary.failed else Tone.PLAIN),
        _hints_cell(hints, own),
    )


def _threshold_row(threshold: Threshold, under: Words = ()) -> Row:
    metric = () if under else name(threshold.metric)
    part = name(f"[{threshold.slice}]") if threshold.slice else ()
    what: list[Piece] = [*metric, *([threshold.stat] if threshold.stat else []), *part]
    tone, value = TONES[threshold.status], render_known(threshold.metric, threshold.value, threshold)
    return row(
        cell(*[piece for one in what for piece in (" ", one)][1:]),
        cell(value, tone=tone, plot=_plot(threshold.value, threshold)),
        cell(),
        _limit_cell(threshold, tone),
        _scored_cell(threshold),
        _hints_cell([render_not_applicable(threshold), OPINION if threshold.is_opinion else ""], [threshold]),
        under=under,
    )


def _limit_cell(limit: Threshold, tone: Tone) -> Cell:
    return cell(render_limit(limit), tone=tone, mark=MARKS[limit.status])


def _scored_cell(counts: Summary | Threshold, tone: Tone = Tone.PLAIN) -> Cell:
    return cell(f"{counts.scored:,}/{counts.expected:,}", tone=tone)


def _hints_cell(hints: Sequence[str], thresholds: Sequence[Threshold]) -> Cell:
    reasons = dict.fromkeys(threshold.reason for threshold in thresholds if threshold.reason)
    return cell(", ".join(filter(None, hints)), tone=Tone.QUIET, details=map(prose, reasons))


def _plot(value: float | None, limit: Threshold | None, ends: tuple[float, float] | None = None) -> Plot | None:
    bounds = (limit.min, limit.max) if limit else (None, None)
    return None if value is None else Plot(value, ends, *bounds)


def _find_skips(dataset: DatasetResult) -> dict[str, dict[str, None]]:
    """Return the reasons for skipped metrics, each with its metrics."""
    metrics: dict[str, dict[str, None]] = {}
    for one in dataset.samples:
        for metric, score in one.scores.items():
            if score.status is ScoreStatus.SKIPPED:
                metrics.setdefault(score.reason or "no reason given", {})[metric] = None
    return metrics


def _build_slices(dataset: DatasetResult, broken: Collection[str]) -> Iterator[Section]:
    """Yield a table of slices by metric, worst first by the leading metric. Only its interval has a column.

    The columns of metrics with which nothing is wrong are minor, and so is a table without any other, or of small
    slices only.
    """
    if not dataset.slices or not dataset.metrics:
        return
    leading = _find_leading(dataset, broken)
    others = [metric for metric, summary in dataset.metrics.items() if metric != leading and summary.scored]
    others.sort(key=lambda metric: metric not in broken)
    columns = (
        names("slice"),
        *numbers("n"),
        Column(Foreign(leading), right=True, extra=True),
        Column("95 % interval", aside=True),
        *(Column(Foreign(one), right=True, wrap=Wrap.WORDS, extra=True, minor=one not in broken) for one in others),
        Column(wrap=Wrap.WORDS),
    )
    slices = sorted(dataset.slices, key=lambda part: _badness(part, leading)) if leading in broken else dataset.slices
    rows = tuple(_slice_row(part, leading, others) for part in slices)
    table = Table(columns, rows, minor=f"of fewer than {MIN_SLICE} samples")
    title = f"Slices ({len(dataset.slices):,}), worst first"
    minor = (not broken and bool(dataset.thresholds)) or all(row.minor for row in rows)
    yield Section("slices", (title,), (table,), "the slices", rank=5, folded=True, minor=minor)


def _find_leading(dataset: DatasetResult, broken: Collection[str]) -> str:
    """Return the metric that slices are ordered by: the first scored one that is broken, has a limit, or any."""
    limited = {threshold.metric for threshold in dataset.thresholds}
    scored = [metric for metric, summary in dataset.metrics.items() if summary.scored] or list(dataset.metrics)
    return min(scored, key=lambda metric: (metric not in broken, metric not in limited))


def _badness(part: SliceResult, metric: str) -> tuple[bool, bool, float]:
    """Return a sort key: small slices last, then those without a value, the worst value first."""
    summary = part.metrics.get(metric)
    if summary is None or summary.value is None:
        return part.small, True, 0.0
    return part.small, False, summary.value if summary.direction is Direction.HIGHER else -summary.value


def _slice_row(part: SliceResult, leading: str, others: Sequence[str]) -> Row:
    unknown = Summary(value=None, scored=0)  # of a slice that lacks the metric
    first = part.metrics.get(leading, unknown)
    return row(
        cell(*name(part.name)),
        cell(f"{part.selected:,}"),
        _slice_cell(leading, first),
        cell(render_interval(first)),
        *(_slice_cell(metric, part.metrics.get(metric, unknown), with_interval=True) for metric in others),
        cell("too few samples to rank" if part.small else "", tone=Tone.QUIET),
        minor=part.small,
    )


def _slice_cell(metric: str, summary: Summary, *, with_interval: bool = False) -> Cell:
    interval = [render_interval(summary)] if with_interval and summary.interval else []
    gaps = render_gaps(summary) if summary.value is None else render_not_applicable(summary)
    return cell(render_known(metric, summary.value), details=[(one,) for one in (*interval, gaps) if one])


def _build_repeats(repeats: RepeatSummary | None) -> Iterator[Section]:
    """Yield pass rates and variances, as a line each, and as tables for reports with details."""
    if repeats is None:
        return
    parts = [*_passing_parts(repeats), *_variance_parts(repeats)]
    if repeats.flaky:
        shown = repeats.flaky[:_MOST_ROWS]
        more = len(repeats.flaky) - len(shown)
        parts.append(quiet("sometimes passing, sometimes not", items=map(sample, shown), more=more))
    title = f"Repeats ({len(repeats.flaky):,} flaky)"
    yield Section("repeats", (title,), tuple(parts), "the repeats", rank=4, folded=True)


def _passing_parts(repeats: RepeatSummary) -> Iterator[Part]:
    k, known = repeats.repeats, "pass rates are unknown"
    if repeats.pass_at:
        decided = counted(repeats.decided, "decided sample")
        known = f"pass@{k} {repeats.pass_at[k]:.3f}, pass^{k} {repeats.pass_all[k]:.3f} over {decided}"
    if k > 1:
        yield quiet(f"{k} attempts each, {known}")
    rows = [(str(k), f"{share:.3f}", f"{repeats.pass_all[k]:.3f}") for k, share in repeats.pass_at.items()]
    if rows:
        yield Table(_PASS_COLUMNS, tuple(row(*map(cell, shares)) for shares in rows), detail=True)


def _variance_parts(repeats: RepeatSummary) -> Iterator[Part]:
    spread: list[Words] = [
        (*name(metric), f" {_deviation(found.replies)}", f" (judge {_deviation(found.judge)})" if found.judge else "")
        for metric, found in repeats.variance.items()
        if found.replies or found.judge
    ]
    if spread:
        yield quiet("standard deviation between replies to one sample", items=spread)
    rows = [
        row(cell(*name(metric)), *(cell(_share(part)) for part in (found.replies, found.agent, found.judge)))
        for metric, found in repeats.variance.items()
    ]
    if rows:
        yield Table(_VARIANCE_COLUMNS, tuple(rows), detail=True)


def _deviation(variance: float | None) -> str:
    return UNKNOWN if variance is None else f"{variance**0.5:.3g}"


def _share(part: float | None) -> str:
    return UNKNOWN if part is None else f"{part:.4f}"


def build_worst(
    dataset: DatasetResult, troubles: Sequence[FailedSample], texts: FailureTexts, *, is_minor: bool
) -> Iterator[Section]:
    """Yield the worst samples: with their texts if there are any, else as a table.

    `texts`: of the samples to show in full. `is_minor`: nothing is wrong with the dataset, so reports may omit them.
    """
    if troubles:
        shown = build_failures(dataset, troubles, texts)
        rows = tuple(map(_trouble_row, troubles[:_MOST_ROWS]))
        part = shown or Table(_WORST_COLUMNS, rows, more=len(troubles) - len(rows))
        title = f"Worst samples ({len(troubles):,})"
        yield Section("worst", (title,), (part,), "the worst samples", rank=3, folded=True, minor=is_minor)


def _trouble_row(trouble: FailedSample) -> Row:
    what = name(trouble.metric) if trouble.metric else describe_failure(trouble)
    more = f" +{len(trouble.others)} more" if trouble.others else ""
    unknown = "failed" if trouble.metric else UNKNOWN
    value = unknown if trouble.value is None or trouble.passed else render_value(trouble.metric or "", trouble.value)
    before = "" if trouble.before is None else f", was {render_value(trouble.metric or '', trouble.before)}"
    return row(
        cell(*sample(trouble.id)),
        cell(*what, more, tone=Tone.FAIL if trouble.value is None else Tone.PLAIN),
        cell(value + before),
        cell(*(prose(trouble.reason) if trouble.reason else ()), tone=Tone.QUIET),
    )
