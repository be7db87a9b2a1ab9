"""The comparison of evaluations as a view, which Markdown shows."""

from collections.abc import Iterator

from evalspec.reports.view.parts import (
    Cell,
    Column,
    Line,
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
from evalspec.service.evaluation_comparison import NOT_COMPARABLE, CompletedEvaluation, MetricTable, TableRow
from evalspec.verdict.comparison.wording import render_relative
from evalspec.verdict.wording import render_delta, render_known


def build_table_view(table: MetricTable) -> View:
    """Return the table of a comparison with the evaluations and the method."""
    return View(
        (cell("Comparison of retrievers"),),
        lead=tuple(_lead(table)),
        sections=tuple(_build_section(table, one) for one in table.candidates),
        notes=tuple(_notes(table)),
    )


def _lead(table: MetricTable) -> Iterator[Line]:
    yield Line(("baseline: ", *_say(table.baseline)))
    for one in table.candidates:
        yield Line(("candidate: ", *_say(one)))
        for mismatch in one.mismatches:
            yield Line((f"{NOT_COMPARABLE}: ", *prose(mismatch)), tone=Tone.WARN)


def _say(one: CompletedEvaluation) -> Words:
    dataset = (*name(one.request.dataset_name), f" version {one.request.dataset_version}")
    return (*name(one.request.retriever_id), ", dataset ", *dataset, ", evaluation ", *name(one.id))


def _build_section(table: MetricTable, candidate: CompletedEvaluation) -> Section:
    columns = (
        names("Metric"),
        *numbers("Baseline", "Candidate", "Delta", "Relative"),
        Column("Conclusion", wrap=Wrap.WORDS),
        Column("Evidence", wrap=Wrap.WORDS),
    )
    rows = tuple(Row(tuple(_build_cells(row))) for row in table.rows if row.candidate.id == candidate.id)
    return Section("metrics", name(candidate.request.retriever_id), (Table(columns, rows),), "the metrics")


def _build_cells(row: TableRow) -> Iterator[Cell]:
    found = row.found
    yield cell(row.label)
    yield cell(render_known(row.label, found.baseline))
    yield cell(render_known(row.label, found.candidate))
    yield cell(render_delta(row.label, found.delta))
    yield cell(render_relative(found))
    yield cell(row.change)
    yield cell(*prose(row.statement))


def _notes(table: MetricTable) -> Iterator[Line]:
    yield quiet(f"alpha {table.alpha:g}, p adjusted for {table.tests} tests; each row is over the queries of both")
    if table.left_out:
        yield quiet("not compared, because some evaluation does not have them", items=map(name, table.left_out))
    for one in table.candidates:
        yield from (quiet(*name(one.request.retriever_id), ": ", *prose(note)) for note in one.notes)
