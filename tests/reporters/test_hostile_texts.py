"""Every form of report, full of each hostile text, read back by a real parser of that form."""

import json
import re

import pytest

from evalspec.base.foreign_text import encodable, inert, visible
from evalspec.base.json_text import render_line, render_lines
from evalspec.model import Run
from evalspec.model.report_reading import parse_report
from evalspec.reports.attempt_lines import render_csv, render_jsonl
from evalspec.reports.base import REPORTERS, no_exchanges
from evalspec.reports.github import render_check_run, write_github
from evalspec.reports.json_report import render_json
from evalspec.reports.junit import render_junit
from evalspec.reports.markdown import code, render_fields, render_markdown
from evalspec.reports.sarif import render_sarif
from evalspec.reports.terminal import render_terminal
from hostile_texts import HOSTILE, commands, steering
from reporters.small_runs import exchanges_full_of, retrieval_full_of, run_full_of
from reporters.test_github import parse_command, parse_outputs
from reporters.test_html import LONGEST_ON_PAGE, MARKER, Page, assert_only_its_texts_differ
from reporters.test_junit import parsed as parsed_junit
from reporters.test_markdown import Skeleton
from reporters.test_rows import csv_rows, jsonl_records, parquet_rows
from reporters.test_sarif import parsed as parsed_sarif

RUNS = (run_full_of, retrieval_full_of)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
READ_BACK = {"json", "jsonl", "csv", "parquet", "parquet-spans", "html", "junit", "markdown", "sarif"}
"""Forms with a test of their own in here."""

pytestmark = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)


def test_json_has_the_text_and_shows_none_of_it(text):
    for run in (full_of(text) for full_of in RUNS):
        source = render_json(run)
        assert json.loads(source)["datasets"][0]["samples"][0]["id"] == text
        assert not steering(source) and not commands(source)
    for source in (render_line({text: [text]}), render_lines({text: [text]})):
        assert json.loads(source) == {text: [text]}
        assert not steering(source) and not commands(source)


def test_rows_have_the_text_and_compute_none_of_it(text):
    def exchanges():
        return exchanges_full_of(text)

    run = run_full_of(text)
    records = jsonl_records(run, exchanges)
    assert [records[0][key] for key in ("sample_id", "response", "dataset")] == [text] * 3
    assert not steering(render_jsonl(run, exchanges))
    assert not commands(render_jsonl(run, exchanges))
    assert parquet_rows(run, exchanges)[0]["response"] == encodable(text)
    rows = csv_rows(run, exchanges)
    assert rows[0]["dataset"] in (visible(text), f"'{visible(text)}")
    assert not [cell for row in rows for cell in row.values() if cell.startswith(FORMULA)]
    assert not steering(render_csv(run, exchanges).decode().replace("\r\n", "\n"))


def test_a_page_has_the_text_as_data(text):
    page = Page(run_full_of(text), lambda: exchanges_full_of(text))
    if len(text) < LONGEST_ON_PAGE:
        assert_only_its_texts_differ(page, Page(run_full_of(MARKER), lambda: exchanges_full_of(MARKER)), text)
    assert page.items("asked")[0][1] == [visible(text)] * 2
    assert not steering(page.source)


def test_xml_has_the_text(text):
    suite, gate = parsed_junit(run_full_of(text))
    assert (suite.name, next(case.name for case in suite)) == (visible(text), visible(text))
    assert len(list(gate)) == 4
    assert not steering(render_junit(run_full_of(text)).decode())


def test_sarif_has_the_text_and_no_link(text):
    run = parsed_sarif(run_full_of(text))
    assert visible(text) in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    messages = [result["message"]["text"] for result in run["results"]]
    messages += [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert not [message for message in messages if re.search(r"(?<!\\)\]\(", message)], messages
    assert not steering(render_sarif(run_full_of(text)))


def test_markdown_has_the_text_as_code(text):
    for full_of in RUNS:
        page = Skeleton(render_markdown(full_of(text)))
        assert page.parts == Skeleton(render_markdown(full_of("x"))).parts
        (shown,) = Skeleton(code(text)).code
        assert shown in page.code
        assert not steering(render_markdown(full_of(text)))
    assert inert(text).startswith(shown.rstrip("…"))


def test_the_fields_of_a_report_have_names_as_code_and_no_other_text(text):
    run = parse_report(render_json(run_full_of(text)))
    page, harmless = (Skeleton(render_fields(one)) for one in (run, run_full_of("x")))
    assert page.parts == harmless.parts
    assert not {"a", "img", "script", "em"} & {part.strip("</>").split()[0] for part in page.parts if "<" in part}
    assert not steering(render_fields(run))


def test_annotations_of_a_check_run_are_lines_that_steer_nothing(text):
    source = render_check_run(run_full_of(text))
    check, harmless = (json.loads(one) for one in (source, render_check_run(run_full_of("x"))))
    lines = [one[key] for one in check["output"]["annotations"] for key in ("title", "message")]
    assert len(lines) == 2 * len(harmless["output"]["annotations"])
    assert not [line for line in lines if "\n" in line or steering(line)]
    assert not steering(source) and not commands(source)


def test_the_files_and_annotations_of_github_say_what_they_say_of_any_run(text, tmp_path):
    def write(run: Run, folder: str) -> tuple[list[str], str, str]:
        places = {"GITHUB_STEP_SUMMARY": tmp_path / folder / "summary", "GITHUB_OUTPUT": tmp_path / folder / "output"}
        lines = write_github(run, {name: str(path) for name, path in places.items()})
        return lines, *(path.read_bytes().decode() for path in places.values())

    for name in ("x", "hostile"):
        (tmp_path / name).mkdir()
    harmless, summary, output = write(run_full_of("x"), "x")
    lines, hostile_summary, hostile_output = write(run_full_of(text), "hostile")
    assert Skeleton(hostile_summary).parts == Skeleton(summary).parts
    assert parse_outputs(hostile_output).keys() == parse_outputs(output).keys()
    assert parse_outputs(hostile_output)["verdict"] == "FAIL"
    assert json.loads(parse_outputs(hostile_output)["metrics"]).keys() == {text}
    assert commands("\n".join(lines)) == commands("\n".join(harmless))
    assert [parse_command(line)[1].keys() for line in lines] == [parse_command(line)[1].keys() for line in harmless]
    assert not steering("".join(lines))
    (no_place,) = write_github(run_full_of("x"), {"GITHUB_OUTPUT": str(tmp_path / visible(text)[:50] / "no")})[:1]
    assert parse_command(no_place)[0] == "warning"


def test_a_terminal_is_not_steered(text):
    for full_of in RUNS:
        assert not steering(render_terminal(full_of(text), width=100, color=False))
        coloured = render_terminal(full_of(text), width=100, color=True)
        assert not steering(re.sub(r"\x1b\[[0-9;]*m", "", coloured))
    explained = render_terminal(run_full_of(text), width=100, color=False, exchanges=lambda: exchanges_full_of(text))
    assert "expected  " in explained and not steering(explained)


def test_no_other_form_steers_a_terminal(text):
    others = [reporter for reporter in REPORTERS if reporter.name not in READ_BACK]
    for content in (reporter.render(full_of(text), no_exchanges) for reporter in others for full_of in RUNS):
        assert not steering(content if isinstance(content, str) else content.decode())
