"""The sections of a gold set: agreement of its reviewers, flag rates, disputes, sources and coverage."""

from collections.abc import Iterator, Mapping, Sequence

from evalspec.base.plural import counted
from evalspec.model import (
    Coverage,
    Curation,
    DisputeSummary,
    DroppedTriple,
    FlagAlarm,
    FlagRate,
    Objection,
    ResolutionTime,
    SourceShare,
)
from evalspec.model.curation import FlagBaseline, FlagRole, SourceBalance
from evalspec.reports.view.agreement import (
    build_agreement_table,
    join_words,
    render_percent,
    render_percents,
)
from evalspec.reports.view.parts import (
    Cell,
    Column,
    Line,
    Part,
    Piece,
    Row,
    Section,
    Table,
    Tone,
    View,
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
from evalspec.verdict.wording import DEMONSTRATION, UNKNOWN

GOLD = "gold"
"""The key of the section. Reports of runs with little room leave it out."""

_ACCEPTED = "accepted"
_ALPHA = "Krippendorff's alpha"
_FLAG_COLUMNS = (names("person"), *numbers("flagged", "rate"), Column("95 % interval"))
_BASELINES = {"recent": "latest 50", "own": "before", "team": "team"}
"""Titles of columns that are shown once a rate has them, which takes until the end of a newcomer's time."""
_DISPUTE_COLUMNS = (names("category"), *numbers("disputes"), Column("outcomes", wrap=Wrap.WORDS))
_DROPPED_COLUMNS = (Column("triple", wrap=Wrap.CUT), names("author"), Column("flags", wrap=Wrap.WORDS))
_SOURCE_COLUMNS = (
    names("source"),
    *numbers("triples", "share"),
    Column("95 % interval"),
    *numbers("target"),
    Column(wrap=Wrap.WORDS),
)
_STATUSES = {
    SourceBalance.BALANCED: ("balanced", Tone.PLAIN),
    SourceBalance.UNBALANCED: ("unbalanced", Tone.WARN),
    SourceBalance.UNKNOWN: ("too few triples to tell", Tone.QUIET),
}
_UNITS = {FlagRole.AUTHOR: "triples", FlagRole.REVIEWER: "reviews"}
_ALARMS = {
    (FlagRole.AUTHOR, FlagBaseline.TEAM): "of {who}'s triples are flagged, against {baseline} of the team's",
    (FlagRole.AUTHOR, FlagBaseline.OWN): "of {who}'s latest triples are flagged, against {baseline} before",
    (FlagRole.REVIEWER, FlagBaseline.TEAM): "of {who}'s reviews are flags, against {baseline} of the team's",
    (FlagRole.REVIEWER, FlagBaseline.OWN): "of {who}'s latest reviews are flags, against {baseline} before",
}
_HOURS_A_DAY = 24


def build_curation_view(gold: Curation) -> View:
    """Return the view of a gold set on its own."""
    headline = (cell(*name(gold.name)), *_about(gold))
    return View(headline, sections=tuple(build_curation(gold)))


def build_gold(dataset: str, gold: Curation) -> Section:
    """Return the section of a dataset that is a gold set, with a subsection for each topic."""
    title = ("Gold set ", *name(dataset))
    return Section(GOLD, title, (), "the gold set", tuple(_about(gold)), tuple(build_curation(gold)), rank=6)


def describe_gold(gold: Curation) -> Line:
    """Return one line about a gold set, for reports that leave out its section."""
    alpha = next((one for one in gold.agreement if one.measure == _ALPHA), None)
    said = [f"{gold.states.get(_ACCEPTED, 0):,} of {counted(gold.triples, 'triple')} accepted"]
    said += [f"{_ALPHA} {alpha.value:z.2f}"] if alpha and alpha.value is not None else []
    said += [counted(gold.alarms, "alarm")] if gold.alarms else []
    return Line((f"gold set: {', '.join(said)}",), tone=Tone.WARN if gold.alarms else Tone.QUIET)


def build_curation(gold: Curation) -> Iterator[Section]:
    """Yield the sections of a gold set."""
    yield Section("agreement", ("Agreement",), tuple(_agreement_parts(gold)), "the agreement")
    for role in _UNITS:
        yield from _build_flags(role, [rate for rate in gold.flag_rates if rate.role == role], gold.false_alarms)
    yield _build_disputes(gold.disputes, gold.resolution_time)
    yield from _build_dropped(gold.dropped)
    yield _build_sources(gold)
    yield _build_coverage(gold.coverage)


def _about(gold: Curation) -> Iterator[Cell]:
    states = ", ".join(f"{count:,} {state}" for state, count in gold.states.items())
    yield cell(states or "no triples")
    if gold.demonstration:
        yield cell(DEMONSTRATION, tone=Tone.WARN)


def _agreement_parts(gold: Curation) -> Iterator[Part]:
    yield build_agreement_table([(one, one.reviewers, one.triples) for one in gold.agreement], "triples")
    yield quiet("only blind reviews count: those whose author could not see the others")
    if gold.left_out:
        items = [(f"{count:,} {reason}",) for reason, count in gold.left_out.items()]
        yield quiet("reviews left out", items=items)


def _build_flags(role: FlagRole, rates: Sequence[FlagRate], false_alarms: float) -> Iterator[Section]:
    if not rates:
        return
    known = [key for key in _BASELINES if any(getattr(rate, key) is not None for rate in rates)]
    columns = (*_FLAG_COLUMNS, *numbers(*(_BASELINES[key] for key in known)), Column(wrap=Wrap.WORDS))
    parts: list[Part] = [Table(columns, tuple(_flag_row(rate, known) for rate in rates))]
    newcomers = {rate.reviewed + rate.newcomer_left for rate in rates if rate.newcomer_left}
    parts += [quiet(f"newcomer: the first {count:,} {_UNITS[role]} of a person raise no alarm") for count in newcomers]
    for rate in rates:
        parts += [_alarm_line(rate, alarm) for alarm in rate.alarms]
    if any(rate.periods for rate in rates):
        parts.append(_months_table(rates))
    parts.append(quiet(f"the probability that the set ever raises a false alarm is at most {false_alarms:.2g}"))
    yield Section(f"flags-{role}", (f"Flags by {role}",), tuple(parts), f"the flags by {role}")


def _flag_row(rate: FlagRate, baselines: Sequence[str]) -> Row:
    remarks = ["newcomer"] if rate.newcomer_left else []
    remarks += [counted(rate.calibrations, "calibration")] if rate.calibrations else []
    remarks += ["alarm"] if rate.alarms else []
    tone = Tone.WARN if rate.alarms else Tone.PLAIN
    return row(
        cell(*name(rate.person)),
        cell(f"{rate.flagged:,}/{rate.reviewed:,}"),
        cell(render_percent(rate.rate), tone=tone),
        cell(render_percents(rate.interval), tone=Tone.QUIET),
        *(cell(render_percent(getattr(rate, key))) for key in baselines),
        cell(", ".join(remarks), tone=tone if rate.alarms else Tone.QUIET),
    )


def _alarm_line(rate: FlagRate, alarm: FlagAlarm) -> Line:
    before, _, after = _ALARMS[rate.role, alarm.against].partition("{who}")
    said = after.format(baseline=render_percent(alarm.baseline))
    where = f" after {alarm.after:,} {_UNITS[rate.role]} (p = {alarm.p_value:.1g}). Hold a calibration session, then: "
    command: Words = ("evalspec gold calibrate ", *name(rate.person))
    return Line(
        ("alarm: ", f"{render_percent(alarm.rate)} {before}", *name(rate.person), f"{said},{where}", *command),
        tone=Tone.WARN,
    )


def _months_table(rates: Sequence[FlagRate]) -> Table:
    """Return flags over reviews by month, latest month first."""
    months = sorted({period.month for rate in rates for period in rate.periods}, reverse=True)
    columns = (names("latest months"), *(Column(month, right=True, extra=True) for month in months))
    counts = [{period.month: f"{period.flagged:,}/{period.reviewed:,}" for period in rate.periods} for rate in rates]
    rows = [
        row(cell(*name(rate.person)), *(cell(known.get(month, UNKNOWN)) for month in months))
        for rate, known in zip(rates, counts, strict=True)
    ]
    return Table(columns, tuple(rows))


def _build_disputes(disputes: Sequence[DisputeSummary], resolution_time: ResolutionTime) -> Section:
    total = sum(one.disputes for one in disputes)
    parts: list[Part] = []
    if disputes:
        parts.append(Table(_DISPUTE_COLUMNS, tuple(map(_dispute_row, disputes))))
        parts.append(quiet(_describe_resolution_time(resolution_time)))
    return Section("disputes", (f"Disputes ({total:,})",), tuple(parts), "the disputes")


def _dispute_row(one: DisputeSummary) -> Row:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in one.outcomes.items())
    return row(cell(one.category or "without a category"), cell(f"{one.disputes:,}"), cell(outcomes))


def _describe_resolution_time(resolution_time: ResolutionTime) -> str:
    if not resolution_time.known and not resolution_time.unknown:
        return f"open: {resolution_time.still_open:,}"
    said = "time from the first flag to the end: "
    if resolution_time.median is None or resolution_time.longest is None:
        said += "unknown"
    else:
        said += f"median {_duration(resolution_time.median)}, longest {_duration(resolution_time.longest)}"
        said += f" ({counted(resolution_time.known, 'dispute')})"
    said += f"; unknown, because the times contradict: {resolution_time.unknown:,}" if resolution_time.unknown else ""
    return said + (f"; open: {resolution_time.still_open:,}" if resolution_time.still_open else "")


def _build_dropped(dropped: Sequence[DroppedTriple]) -> Iterator[Section]:
    if dropped:
        table = Table(_DROPPED_COLUMNS, tuple(map(_dropped_row, dropped)))
        title = f"Quality tracker: dropped because two people flagged them ({len(dropped):,})"
        yield Section("dropped", (title,), (table,), "the quality tracker")


def _dropped_row(one: DroppedTriple) -> Row:
    flags = join_words([tuple(_say_flag(flag)) for flag in one.flags], "; ")
    author = name(one.author) if one.author else (UNKNOWN,)
    return row(cell(*sample(one.id)), cell(*author), cell(*flags))


def _say_flag(flag: Objection) -> Iterator[Piece]:
    yield from name(flag.by)
    yield f": {flag.verdict}" + (f" ({flag.category})" if flag.category else "")
    if flag.note:
        yield ", "
        yield from prose(flag.note)


def _build_sources(gold: Curation) -> Section:
    parts: list[Part] = [Table(_SOURCE_COLUMNS, tuple(map(_source_row, gold.sources)))]
    if gold.without_source:
        parts.append(quiet(f"accepted triples without a source: {gold.without_source:,}"))
    return Section("sources", ("Sources of accepted triples",), tuple(parts), "the sources")


def _source_row(one: SourceShare) -> Row:
    status, tone = _STATUSES[one.status]
    return row(
        cell(*name(one.source)),
        cell(f"{one.triples:,}"),
        cell(render_percent(one.share), tone=tone if one.status is SourceBalance.UNBALANCED else Tone.PLAIN),
        cell(render_percents(one.interval), tone=Tone.QUIET),
        cell(render_percent(one.target)),
        cell(status, tone=tone),
    )


def _build_coverage(coverage: Coverage) -> Section:
    parts = tuple(_coverage_parts(coverage))
    if not coverage.cells:
        title = "Coverage"
    elif coverage.sparse is None:
        title = f"Coverage: {counted(coverage.cells, 'cell')}"
    else:
        title = f"Coverage: {len(coverage.sparse):,} of {counted(coverage.cells, 'cell')} sparse"
    return Section("coverage", (title,), parts, "the coverage")


def _coverage_parts(coverage: Coverage) -> Iterator[Part]:
    if coverage.sparse is None:
        yield quiet("the sparse cells are omitted (--no-content)")
    elif coverage.sparse:
        columns = (*(names(key) for key in coverage.keys), *numbers("triples"))
        rows = (
            row(*(cell(*name(one.values[key])) for key in coverage.keys), cell(f"{one.count:,}"))
            for one in coverage.sparse
        )
        yield Table(columns, tuple(rows))
        yield quiet(f"a cell is sparse below {counted(coverage.needed, 'accepted triple')}")
    if not coverage.keys:
        yield quiet("no accepted triple has a domain, difficulty or failure mode")
    yield from map(quiet, _say_unplaced(coverage.unplaced))


def _say_unplaced(unplaced: Mapping[str, int]) -> Iterator[str]:
    for key, count in unplaced.items():
        yield f"left out, because they lack {key}: {counted(count, 'accepted triple')}"


def _duration(hours: float) -> str:
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.1f} h" if hours < 2 * _HOURS_A_DAY else f"{hours / _HOURS_A_DAY:.1f} days"
