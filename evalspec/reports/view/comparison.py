"""Build the view of a comparison: changes by metric and slice, their certainty, and the changed samples."""

from collections.abc import Iterator, Sequence

from evalspec.base.plural import counted
from evalspec.model import Direction
from evalspec.model.comparisons import (
    BestRun,
    CandidateComparison,
    Change,
    ComparedRun,
    Comparison,
    DatasetComparison,
    MetricChange,
    PeopleDifference,
    SampleChange,
    SampleKind,
    SideBySide,
    SliceChange,
)
from evalspec.reports.view.parts import (
    Column,
    Entries,
    Entry,
    Foreign,
    Line,
    Part,
    Role,
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
)
from evalspec.verdict.comparison.wording import (
    NOT_COMPARED,
    describe_common,
    render_counts,
    render_method,
    render_moves,
    render_p,
    render_relative,
    render_scores,
    render_span,
    render_statement,
    render_tally,
)
from evalspec.verdict.wording import UNKNOWN, render_delta, render_known

_MARKS = {
    Change.IMPROVED: "▲ ",
    Change.DEGRADED: "▼ ",
    Change.UNDECIDED: "· ",
    Change.TOO_FEW: "? ",
    Change.NOT_TESTED: "",
}
_TONES = {
    Change.IMPROVED: Tone.PASS,
    Change.DEGRADED: Tone.FAIL,
    Change.UNDECIDED: Tone.PLAIN,
    Change.TOO_FEW: Tone.WARN,
    Change.NOT_TESTED: Tone.QUIET,
}
_SAMPLE_TONES = {SampleKind.IMPROVED: Tone.PASS, SampleKind.DEGRADED: Tone.FAIL, SampleKind.MIXED: Tone.WARN}
_NARROW, _WIDE, _WIDEST = 80, 120, 160
"""Minimum widths for counts, for shares and statements, and for statements beside several runs."""


def build_comparison_view(comparison: Comparison, samples: int) -> View:
    """Return the view of a comparison for all reports. `samples`: the number to show per dataset."""
    datasets = dict.fromkeys(dataset.name for one in comparison.candidates for dataset in one.datasets)
    tone = Tone.FAIL if comparison.degraded else Tone.PLAIN
    return View(
        (cell(render_tally(comparison), tone=tone),),
        mark="▼" if comparison.degraded else "",
        lead=tuple(_lead(comparison)),
        sections=tuple(_build_dataset(comparison, dataset, samples) for dataset in datasets),
        notes=tuple(_notes(comparison)),
    )


def _lead(comparison: Comparison) -> Iterator[Line]:
    yield Line(("baseline: ", *_say_run(comparison.baseline)))
    for one in comparison.candidates:
        yield Line(("candidate: ", *_say_run(one)))
    for one in comparison.candidates:
        for mismatch in one.mismatches:
            yield Line(("NOT COMPARABLE, allowed: ", *name(one.name), ": ", *prose(mismatch)), tone=Tone.WARN)


def _say_run(named: ComparedRun) -> Words:
    """Return the name of a run with its id, without repeating an id that is the name."""
    return name(named.name) if named.name == named.run_id else (*name(named.name), "  ", *name(named.run_id))


def _notes(comparison: Comparison) -> Iterator[Line]:
    yield quiet(render_method(comparison))
    for one in comparison.candidates:
        of = (" of ", *name(one.name)) if len(comparison.candidates) > 1 else ()
        if one.differences:
            yield quiet("differences", *of, items=map(prose, one.differences))
    notes = [note for one in comparison.candidates for note in one.notes] + list(comparison.baseline.notes)
    yield from (quiet("note: ", *prose(note)) for note in notes)


def _build_dataset(comparison: Comparison, dataset: str, samples: int) -> Section:
    """Return the section of a dataset for all candidates, with slices and samples."""
    several = len(comparison.candidates) > 1
    found = [(one, part) for one in comparison.candidates for part in one.datasets if part.name == dataset]
    asides = [line for one, part in found for line in _asides(one, part, several=several)]
    inner = list(_build_choice(comparison, dataset)) if several else []
    for one, part in found:
        of: Words = (" of ", *name(one.name)) if several else ()
        inner += [_build_slices(part, of)] if part.slices else []
        inner += _build_samples(part, samples, of)
    rows = [(name(one.name), change) for one, part in found for change in part.metrics.values()]
    about = () if several else tuple(cell(describe_common(part) or counted(part.pairs, "pair")) for _, part in found)
    return Section(
        "dataset",
        name(dataset),
        (_metrics_table(rows, several=several), *asides),
        "the metrics",
        about=about,
        sections=tuple(inner),
        rank=1,
    )


def _build_choice(comparison: Comparison, dataset: str) -> Iterator[Section]:
    """Yield the best run by each metric, and the candidates compared with each other."""
    rows = tuple(_best_row(best) for best in comparison.best_runs if best.dataset == dataset)
    columns = (names("metric"), names(""), Column("may be the best", wrap=Wrap.WORDS), *numbers("samples"))
    rivals = [
        ((*name(pair.first), " → ", *name(pair.second)), pair.change)
        for pair in comparison.rivals
        if pair.dataset == dataset
    ]
    if rows:
        yield Section("best", ("Best run",), (Table(columns, rows),), "the best runs", rank=1)
    if rivals:
        table = _metrics_table(rivals, several=True, sides=("first", "second"))
        yield Section("rivals", ("Candidates with each other",), (table,), "the candidates", rank=2, folded=True)


def _best_row(best: BestRun) -> Row:
    alone = len(best.possible) == 1
    possible = [(", ", *name(run), f" {render_known(best.metric, best.means[run])}") for run in best.possible]
    verdict = cell("▲ ", *name(best.possible[0]), tone=Tone.PASS) if alone else cell("· undecided")
    return Row((cell(*name(best.metric)), verdict, cell(*sum(possible, ())[1:]), cell(f"{best.samples:,}")))


def _metrics_table(
    found: Sequence[tuple[Words, MetricChange]], *, several: bool, sides: Sequence[str] = ("baseline", "candidate")
) -> Table:
    """Return the table of metrics, in the order of the first candidate, each with all candidates.

    With `several` candidates, every row has its range and p. `sides`: titles of the values that are compared.
    """
    changes: dict[str, list[tuple[Words, MetricChange]]] = {}
    for runs, change in found:
        changes.setdefault(change.metric, []).append((runs, change))
    columns = (
        names("metric"),
        *([names("run")] if several else []),
        *numbers(*sides, "delta"),
        Column("range" if several else "", right=True, min_width=_WIDE),
        Column("pairs", right=True, min_width=_WIDE if several else _NARROW),
        Column(wrap=Wrap.WORDS),
        Column(wrap=Wrap.WORDS, min_width=_WIDEST if several else _WIDE, below=not several),
    )
    rows = [_metric_row(runs, change, several=several) for metric in changes.values() for runs, change in metric]
    return Table(columns, tuple(rows))


def _metric_row(runs: Words, change: MetricChange, *, several: bool) -> Row:
    metric, tone = change.metric, _TONES[change.verdict]
    decided = change.verdict in (Change.IMPROVED, Change.DEGRADED)
    p_value = f", {render_p(change.p_adjusted)}" if decided or (several and change.p_adjusted is not None) else ""
    hint = "lower is better" if change.direction is Direction.LOWER else ""
    remark = ", ".join(filter(None, [render_statement(change, spanned=several), hint]))
    return Row(
        (
            cell(*name(metric)),
            *([cell(*runs)] if several else []),
            cell(render_known(metric, change.baseline)),
            cell(render_known(metric, change.candidate)),
            cell(render_delta(metric, change.delta), tone=tone),
            cell(
                render_span(metric, change.interval, " to ") if several else render_relative(change.relative),
                tone=Tone.QUIET,
            ),
            cell(f"{change.pairs:,}"),
            cell(f"{_MARKS[change.verdict]}{change.verdict}{p_value}", tone=tone),
            cell(remark, tone=Tone.QUIET),
        )
    )


def _asides(one: CandidateComparison, dataset: DatasetComparison, *, several: bool) -> Iterator[Line]:
    """Yield lines with what people see of the metrics, and with the metrics that only one run has."""
    of: Words = (" of ", *name(one.name)) if several else ()
    common = describe_common(dataset)
    if several and common:
        yield quiet("every number", *of, f" is {common}")
    for metric, change in dataset.metrics.items():
        if change.people is not None:
            yield Line((*name(metric), *of, ": ", *prose(_say_people(metric, change.people))))
    candidate: Words = ("only in ", *name(one.name)) if several else ("only in the candidate",)
    sides = [
        (("only in the baseline",), dataset.metrics_only_in_baseline),
        (candidate, dataset.metrics_only_in_candidate),
    ]
    for said, metrics in sides:
        if metrics:
            yield quiet(*said, items=map(name, metrics))


def _say_people(metric: str, seen: PeopleDifference) -> str:
    on = f"on {counted(seen.labelled, 'sample')} with labels of both runs"
    if seen.delta is None:
        return f"what people see is unknown: {seen.reason}"
    return f"people see {render_delta(metric, seen.delta)} ({render_span(metric, seen.interval, ' to ')}) {on}"


def _build_slices(dataset: DatasetComparison, of: Words) -> Section:
    """Return the deltas of the slices, worst first. They are not tested, so they have no colour."""
    metrics = list(dataset.metrics)
    columns = (
        names("slice"),
        *numbers("pairs"),
        *(Column(Foreign(metric), right=True, extra=True) for metric in metrics),
        Column(wrap=Wrap.WORDS),
    )
    table = Table(columns, tuple(_slice_row(part, metrics) for part in dataset.slices))
    title = ("Slices", *of, f" ({len(dataset.slices):,}), deltas, worst first")
    return Section("slices", title, (table,), "the slices", rank=2, folded=True)


def _slice_row(part: SliceChange, metrics: Sequence[str]) -> Row:
    deltas = (cell(render_delta(metric, part.metrics[metric].delta)) for metric in metrics)
    small = cell("too few samples to rank" if part.small else "", tone=Tone.QUIET)
    return Row((cell(*name(part.name)), cell(f"{part.pairs:,}"), *deltas, small))


def _build_samples(dataset: DatasetComparison, most: int, of: Words) -> Iterator[Section]:
    """Yield the common samples that changed most, and those that are not compared, each kind of them."""
    common = [change for change in dataset.samples if change.kind not in NOT_COMPARED]
    left_out = [
        change for kind in NOT_COMPARED for change in [one for one in dataset.samples if one.kind is kind][:most]
    ]
    title = ("Samples", *of, f": {render_counts(dataset) or 'none'}")
    yield Section("samples", title, _list_entries(common[:most]), "the samples", rank=3, folded=True)
    if left_out:
        title = ("Samples", *of, " that are not compared")
        yield Section("left-out", title, _list_entries(left_out), "samples that are not compared", rank=3, folded=True)


def _list_entries(changes: Sequence[SampleChange]) -> tuple[Part, ...]:
    return (Entries("sample", tuple(map(_sample_entry, changes))),) if changes else ()


def _sample_entry(change: SampleChange) -> Entry:
    said: Words = (str(change.kind), ", ", *prose(render_scores(change.scores)))
    lines = tuple(_text_lines(change.texts)) if change.texts else ()
    return Entry(Foreign(change.id, Role.SAMPLE), said, _SAMPLE_TONES.get(change.kind, Tone.PLAIN), lines)


def _text_lines(texts: SideBySide) -> Iterator[Line]:
    if texts.rank_moves:
        yield quiet("ranks: ", *prose(render_moves(texts.rank_moves)))
    if texts.attempt:
        yield quiet(f"attempt {texts.attempt.number} of {texts.attempt.of}")
    calls = {"baseline": texts.baseline_calls, "candidate": texts.candidate_calls}
    if any(calls.values()):
        for side, made in calls.items():
            yield quiet(f"calls of the {side}{'' if made else ': none'}", items=map(prose, made))
    answers = {"baseline: ": texts.baseline, "candidate: ": texts.candidate}
    if any(answer is not None for answer in answers.values()):
        for side, answer in answers.items():
            yield quiet(side, UNKNOWN if answer is None else Foreign(answer, Role.ANSWER))
