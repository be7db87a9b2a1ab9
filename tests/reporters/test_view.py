"""A view, how it is cut to a form, and that every form shows what it says."""

import re

import pytest
from msgspec.structs import replace

from evalspec.model import DatasetResult, Direction, Run, SliceResult, Summary, Threshold
from evalspec.reports.base import no_exchanges
from evalspec.reports.html import render_html
from evalspec.reports.html_report import page
from evalspec.reports.markdown import render_view_markdown
from evalspec.reports.terminal import render_view_terminal
from evalspec.reports.view.fit import Limits, fit_view, join_items
from evalspec.reports.view.parts import (
    Column,
    Entries,
    Entry,
    Foreign,
    Line,
    Row,
    Section,
    Table,
    Tone,
    View,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
    sample,
)
from evalspec.reports.view.run import build_view
from reporters.sample_run import sample_run
from reporters.small_runs import FAIL, run_of


def view_of(*parts, **more) -> View:
    section = Section("dataset", name("d"), parts, "the metrics")
    return View((cell("PASS"),), sections=(section,), **more)


def parts_of(view: View) -> tuple:
    return view.sections[0].parts


def words_of(part) -> str:
    return "".join(piece if isinstance(piece, str) else piece.text for piece in join_items(part))


ROWS = tuple(Row((cell(f"r{number}"), cell(str(number))), minor=number == 3) for number in range(5))
TABLE = Table((names("a"), *numbers("b")), ROWS, minor="of few samples")


@pytest.mark.parametrize(
    ("limits", "more", "shown", "rest"),
    [
        (Limits(), 0, 5, None),
        (Limits({"dataset": 2}), 0, 2, "… and 3 more"),
        (Limits({"other": 2}), 0, 5, None),
        (Limits({"dataset": None}, 2), 7, 5, "… and 7 more"),
        (Limits(other_rows=2), 7, 2, "… and 10 more"),
        (Limits(other_rows=4, minor=False), 0, 4, "… and 1 of few samples"),
        (Limits(other_rows=1, minor=False), 1000, 1, "… and 1,003 more, 1 of few samples"),
    ],
)
def test_rows_are_cut_and_the_others_counted(limits, more, shown, rest):
    table, *others = parts_of(fit_view(view_of(replace(TABLE, more=more)), limits))
    assert [row.cells for row in table.rows] == [row.cells for row in ROWS if limits.minor or not row.minor][:shown]
    assert [words_of(line) for line in others] == ([rest] if rest else [])


def test_a_table_of_minor_rows_alone_is_only_counted():
    (line,) = parts_of(fit_view(view_of(replace(TABLE, rows=ROWS[3:4])), Limits(minor=False)))
    assert words_of(line) == "1 of few samples, not shown"


def test_columns_that_have_no_room_are_left_out_or_told_below():
    columns = (
        names("a"),
        Column("wide", min_width=90),
        Column("told", min_width=90, below=True),
        Column("narrow", min_width=60),
    )
    rows = (Row((cell(*name("x")), cell("1"), cell("long"), cell("2"))), Row((cell("y"), cell("1"), cell(), cell("3"))))
    table, line = parts_of(fit_view(view_of(Table(columns, rows)), Limits(width=89)))
    assert [column.title for column in table.columns] == ["a", "narrow"]
    assert [[words_of(Line(one.words)) for one in row.cells] for row in table.rows] == [["x", "2"], ["y", "3"]]
    assert (words_of(line), line.tone) == ("x: long", Tone.QUIET)
    for width in (90, None):
        assert parts_of(fit_view(view_of(Table(columns, rows)), Limits(width=width))) == (Table(columns, rows),)


def test_of_columns_alike_the_first_are_shown():
    columns = (names("a"), *(Column(title, extra=True) for title in "bcd"), Column("last"))
    table = Table(columns, (Row(tuple(map(cell, "12345"))),))
    (shown,) = parts_of(fit_view(view_of(table), Limits(extras=2)))
    assert [column.title for column in shown.columns] == ["a", "b", "c", "last"]
    assert [one.words for one in shown.rows[0].cells] == [("1",), ("2",), ("3",), ("5",)]


def test_items_and_entries_are_cut_and_details_left_out():
    line = Line(("these",), tuple((item,) for item in "abc"), 4)
    entries = Entries("thing", tuple(Entry(Foreign(text), ("said",), lines=(line,)) for text in "xyz"), "Things", 1)
    view = view_of(
        line, replace(TABLE, detail=True), entries, notes=(line, Line(("detail",), detail=True), line), lead=(line,) * 3
    )
    fitted = fit_view(view, Limits(other_rows=2, items=2, notes=1, details=False))
    shown, things, rest = parts_of(fitted)
    assert words_of(shown) == "these: a, b and 5 more"
    assert (things.title, [entry.name.text for entry in things.entries]) == ("Things", ["x", "y"])
    assert words_of(things.entries[0].lines[0]) == "these: a, b and 5 more"
    assert words_of(rest) == "… and 2 more"
    assert [words_of(note) for note in fitted.lead] == ["these: a, b and 5 more", "… and 2 more"]
    assert [words_of(note) for note in fitted.notes] == ["these: a, b and 5 more", "… and 1 more"]


def test_sections_and_reasons_are_left_out():
    inner = (Section("worst", ("W",), (TABLE,), "w"), Section("slices", ("S",), (TABLE,), "s"))
    view = View((cell("FAIL"),), reasons=(("a",), ("b",), ("c",)), sections=(Section("d", ("D",), (), "d", (), inner),))
    fitted = fit_view(view, Limits(reasons=1, without=frozenset({"worst"})))
    assert fitted.reasons == (("a",), ("… and 2 more",))
    assert [section.key for section in fitted.sections[0].sections] == ["slices"]


def test_a_further_column_of_the_view_is_in_every_form(monkeypatch):
    """As build_view would give it: no form knows which columns there are."""
    run = run_of(0.1, status=FAIL, min=0.5)
    view = build_view(run)
    section = view.sections[0]
    (table,) = section.parts
    assert isinstance(table, Table)
    rows = tuple(replace(row, cells=(*row.cells, cell("0.123", tone=Tone.FAIL))) for row in table.rows)
    wider = replace(table, columns=(*table.columns, *numbers("std")), rows=rows)
    changed = replace(view, sections=(replace(section, parts=(wider,)),))
    assert "std" in render_view_terminal(changed, width=100, color=False)
    assert "0.123" in render_view_terminal(changed, width=100, color=False)
    assert "|  | std |\n" in render_view_markdown(changed)
    assert "| 0.123 |\n" in render_view_markdown(changed)
    monkeypatch.setattr(page, "build_view", lambda run: changed)
    drawn = render_html(run, no_exchanges).partition('aria-label="the metrics of d"')[2].partition("</table>")[0]
    head, row = re.findall(r"<tr.*?</tr>", drawn)
    assert head.endswith('<th scope="col" role="columnheader" class="number">std</th></tr>')
    assert row.endswith('data-title="std"><span class="fail">0.123</span></td></tr>')


def test_each_form_marks_what_is_foreign_and_what_is_wrong():
    rows = (Row((cell(*name("<b>"), mark="✗", tone=Tone.FAIL),)), Row((cell("min"),), name("up")))
    part = Table((names("a"),), rows)
    lines = (Line(("careful ", *prose("|x|")), tone=Tone.WARN), quiet("of ", items=[sample("s"), sample("t")]))
    view = view_of(part, *lines)
    text = render_view_markdown(view)
    assert "| `<b>` ✗ |\n| `up` min |\n" in text
    assert "> careful `|x|`\n" in text
    assert "of : `s`, `t`\n" in text
    terminal = render_view_terminal(view, width=80, color=True)
    assert "\x1b[31m<b> ✗\x1b[0m" in terminal
    assert "\x1b[33mcareful |x|\x1b[0m" in terminal


def test_every_dataset_of_a_run_is_a_section_with_its_parts():
    view = build_view(sample_run())
    assert [section.key for section in view.sections] == ["baseline", *["dataset"] * 4]
    assert [[part.key for part in section.sections] for section in view.sections] == [
        [], ["worst"], ["slices"], [], ["repeats", "worst"]
    ]  # fmt: skip
    assert all(len(row.cells) == len(part.columns) for part in tables(view.sections) for row in part.rows)


def tables(sections):
    for section in sections:
        yield from (part for part in section.parts if isinstance(part, Table))
        yield from tables(section.sections)


def cells_of(key: str, column: int) -> list:
    """The cells of a column in the sections of a key, or of the metrics."""
    view = build_view(sample_run())
    sections = [view.sections[1], *(part for section in view.sections for part in section.sections)]
    parts = [section.parts[0] for section in sections if section.key == key]
    return [row.cells[column] for part in parts if isinstance(part, Table) for row in part.rows]


def test_colours_say_what_is_wrong():
    assert [one.tone for one in cells_of("dataset", 4)] == [
        Tone.WARN, Tone.PLAIN, Tone.WARN, Tone.PLAIN, Tone.PLAIN, Tone.WARN, *[Tone.PLAIN] * 3
    ]  # fmt: skip
    assert [one.tone for one in cells_of("dataset", 1)] == [
        Tone.FAIL, Tone.PASS, Tone.PLAIN, Tone.FAIL, Tone.FAIL, Tone.WARN, *[Tone.QUIET] * 3
    ]  # fmt: skip
    assert [one.tone for one in cells_of("worst", 1)][:4] == [Tone.FAIL, Tone.PLAIN, Tone.PLAIN, Tone.PLAIN]


def test_a_slice_says_what_it_lacks():
    assert [one.details for one in cells_of("slices", 4)] == [(("2 failed",),), ()]


@pytest.mark.parametrize(("direction", "order"), [(Direction.HIGHER, "bacd"), (Direction.LOWER, "cabd")])
def test_slices_stand_worst_first_and_small_ones_last(direction, order):
    values = {"a": 0.5, "b": 0.2, "c": 0.8, "d": 0.0}
    slices = tuple(
        SliceResult(name=one, selected=9, small=one == "d", metrics={"m": summarised(value, direction)})
        for one, value in values.items()
    )
    limit = Threshold("m", min=0.9, status=FAIL, value=0.5, scored=9, expected=9)
    dataset = DatasetResult(
        name="x", source_id="of-elsewhere", samples=(), slices=slices, thresholds=(limit,),
        metrics={"m": summarised(0.5, direction)},
    )  # fmt: skip
    (section,) = build_view(Run(id="r", datasets=(dataset,))).sections
    (line,) = (part for part in section.parts if isinstance(part, Line))
    assert name("of-elsewhere")[0] in line.words
    (found,) = [one for one in section.sections if one.key == "slices"]
    (table,) = (part for part in found.parts if isinstance(part, Table))
    assert [row.cells[0].words for row in table.rows] == [name(one) for one in order]
    assert (table.rows[-1].cells[-1].tone, table.rows[-1].minor, found.minor) == (Tone.QUIET, True, False)


def summarised(value, direction):
    return Summary(value=value, scored=9, direction=direction)


def test_a_threshold_without_a_summary_has_a_row_with_its_name():
    """For example a limit on a metric that this run leaves out of the summaries."""
    run = sample_run()
    dataset = run.datasets[0]
    alone = replace(dataset.thresholds[0], metric="unheard_of", min=0.5, max=None, slice=None, stat=None)
    shown = build_view(replace(run, datasets=(replace(dataset, thresholds=(alone,)),)))
    section = next(section for section in shown.sections if section.key == "dataset")
    table = next(part for part in section.parts if isinstance(part, Table))
    first_cells = ["".join(p if isinstance(p, str) else p.text for p in row.cells[0].words) for row in table.rows]
    assert first_cells.count("unheard_of") == 1
    known = {row for row in first_cells if row != "unheard_of"}
    assert known <= set(dataset.metrics), "no second row for a metric"


def test_a_row_of_a_metric_has_its_statistic_its_plot_and_its_tone():
    run = sample_run()
    sections = [section for section in build_view(run).sections if section.key == "dataset"]
    for dataset, section in zip(run.datasets, sections, strict=False):
        table = next(part for part in section.parts if isinstance(part, Table))
        rows = {row.cells[0].words[0]: row for row in table.rows if row.cells[0].words}
        rows = {key if isinstance(key, str) else key.text: row for key, row in rows.items()}
        for metric, summary in dataset.metrics.items():
            title, value = rows[metric].cells[:2]
            skipped = 0 < summary.skipped == summary.expected
            assert title.tone is (Tone.QUIET if skipped else Tone.PLAIN)
            assert title.details == (() if summary.statistic == "mean" else ((summary.statistic,),))
            limit = dataset.own_threshold(metric)
            assert (value.plot is None) == (summary.value is None)
            if value.plot is not None:
                assert (value.plot.point, value.plot.ends) == (summary.value, summary.interval)
                assert (value.plot.min, value.plot.max) == ((limit.min, limit.max) if limit else (None, None))
