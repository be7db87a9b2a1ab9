"""What GitHub Actions is told, read back as its runner does: environment files and workflow commands."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.base.foreign_text import visible
from evalspec.model import Run
from evalspec.reports.github import render_check_run, write_github, write_run_url
from evalspec.reports.markdown import render_markdown
from reporters.sample_run import LONG_ID, sample_run
from reporters.small_runs import FAIL, INCOMPLETE, NOT_GATED, PASS, run_full_of, run_of


def parse_outputs(text: str) -> dict[str, str]:
    """An output file as the runner reads it: name<<delimiter, lines, delimiter."""
    outputs, lines = {}, iter(text.split("\n"))
    for line in lines:
        if line:
            name, _, delimiter = line.partition("<<")
            assert delimiter
            value = []
            while (part := next(lines)) != delimiter:
                value.append(part)
            outputs[name] = "\n".join(value)
    return outputs


def unescape(text: str, *more: tuple[str, str]) -> str:
    for escape, character in (*more, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it: up to the first `::` after the leading one."""
    assert "\n" not in line
    assert "\r" not in line
    head, data = re.fullmatch(r"::(.*?)::(.*)", line).groups()
    name, _, properties = head.partition(" ")
    pairs = (pair.split("=", 1) for pair in properties.split(",") if pair)
    return name, {key: unescape(value, ("%3A", ":"), ("%2C", ",")) for key, value in pairs}, unescape(data)


@pytest.fixture
def step(tmp_path):
    """The environment of a step."""
    return {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_OUTPUT": str(tmp_path / "output")}


def annotations(run: Run) -> list[tuple[str, dict[str, str], str]]:
    return [parse_command(line) for line in write_github(run, {})]


def test_summary_and_outputs_are_appended(step, tmp_path):
    (tmp_path / "summary.md").write_text("before\n")
    (tmp_path / "output").write_text("other=1\n")
    write_github(sample_run(), step)
    assert (tmp_path / "summary.md").read_text() == f"before\n{render_markdown(sample_run())}\n"
    outputs = parse_outputs((tmp_path / "output").read_text().removeprefix("other=1\n"))
    assert (outputs["verdict"], outputs["exit-code"], outputs["run-id"]) == ("FAIL", "1", "20261121T061500Z-0a1b2c3d")
    assert outputs["partial"] == "true"
    metrics = json.loads(outputs["metrics"])
    assert metrics["rag-quality"]["Recall@5"] == 0.625
    assert metrics["rag-quality"]["faithfulness"] is None
    assert metrics.keys() == {dataset.name for dataset in sample_run().datasets}


def test_annotations_stand_at_file_and_line():
    found = annotations(sample_run())
    place = {"file": "evals/rag.jsonl", "line": "3", "title": f"rag-quality: {LONG_ID}: context_recall"}
    assert ("warning", place, "judge answered prose, twice") in found
    (limit,) = [command for command in found if command[2].startswith("string_match ≥ 0.80:")]
    assert limit[:2] == ("error", {"file": "evals/rag.jsonl", "title": "rag-quality: string_match"})


def test_a_pushed_run_is_linked_and_an_output(step, tmp_path):
    assert write_run_url("https://evals.example.com/runs/1%202?)[x](y)", step) == []
    assert (
        (tmp_path / "summary.md")
        .read_text()
        .startswith("[The run on the server](<https://evals.example.com/runs/1%202")
    )
    assert parse_outputs((tmp_path / "output").read_text()) == {
        "run-url": "https://evals.example.com/runs/1%202?)[x](y)"
    }


def test_a_check_run_annotates_samples_at_their_lines():
    check = json.loads(render_check_run(sample_run()))
    assert (check["name"], check["status"], check["conclusion"]) == ("evalspec", "completed", "failure")
    assert check["output"]["title"] == "FAIL (PARTIAL)"
    assert check["output"]["summary"] == render_markdown(sample_run())
    place = {"path": "evals/rag.jsonl", "start_line": 3, "end_line": 3, "annotation_level": "warning"}
    title = f"rag-quality: {LONG_ID}: context_recall"
    assert place | {"title": title, "message": "judge answered prose, twice"} in check["output"]["annotations"]
    assert all(type(one["start_line"]) is int and one["path"] for one in check["output"]["annotations"])


@pytest.mark.parametrize(
    ("verdict", "conclusion"),
    [(PASS, "success"), (FAIL, "failure"), (INCOMPLETE, "failure"), (NOT_GATED, "neutral")],
)
def test_a_check_run_succeeds_only_if_the_run_passes(verdict, conclusion):
    run = run_of(0.9, status=verdict, gated=verdict, min=0.5)
    assert json.loads(render_check_run(run))["conclusion"] == conclusion


def test_a_check_run_has_as_many_annotations_as_github_takes():
    output = json.loads(render_check_run(run_of(*[0.1] * 80, min=0.5)))["output"]
    assert len(output["annotations"]) == 50
    assert output["summary"].endswith("\n30 more annotations have no room.\n")


@pytest.mark.parametrize(("verdict", "kind"), [(FAIL, "error"), (INCOMPLETE, "warning")])
def test_a_verdict_that_no_limit_explains_is_told_all_the_same(verdict, kind):
    run = run_of(0.9, status=PASS, gated=verdict, min=0.5)
    assert annotations(run) == [(kind, {"title": "evalspec: verdict"}, f"{verdict}\nwhy")]
    assert annotations(replace(run, partial=True))[0][2] == f"{verdict} (PARTIAL)\nwhy"
    assert annotations(run_of(0.9, status=PASS, min=0.5)) == []


def test_at_most_ten_of_a_kind_and_the_last_counts_the_others():
    errors = [command for command in annotations(run_of(*[0.1] * 30, min=0.5)) if command[0] == "error"]
    assert len(errors) == 10
    assert errors[-1] == ("error", {"title": "evalspec"}, "and 23 more; reports (-o) list all of them")
    assert len(annotations(run_of(*[0.1] * 8, min=0.5))) == 10
    assert annotations(run_of(*[0.1] * 8, min=0.5))[-1][1]["line"] == "8"


def test_a_run_that_is_not_gated_gives_notices():
    found = annotations(run_of(0.1, status=FAIL, gated=NOT_GATED, min=0.5))
    assert {name for name, _, _ in found} == {"notice"}


def test_files_that_cannot_be_written_are_a_warning_each(tmp_path):
    environment = {"GITHUB_STEP_SUMMARY": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "no" / "output")}
    summary, outputs, *rest = map(parse_command, write_github(sample_run(), environment))
    assert summary[0] == outputs[0] == "warning"
    assert summary[2] == f"cannot write the step summary of this run to {tmp_path}: Is a directory"
    assert outputs[2] == f"cannot write the outputs of this run to {tmp_path}/no/output: No such file or directory"
    assert rest == annotations(sample_run())


@given(text=st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30))
@example(text="100%0A%25,a:b::error::")
def test_no_text_adds_a_command_or_an_output(text, tmp_path_factory):
    harmless, hostile = annotations(run_full_of("x")), annotations(run_full_of(text))
    assert hostile[0][2] == f"FAIL\n{visible(text)}"
    assert [(name, properties.keys()) for name, properties, _ in hostile] == [
        (name, properties.keys()) for name, properties, _ in harmless
    ]
    output = tmp_path_factory.mktemp("step") / "output"
    write_github(replace(run_full_of(text), id=f"{text}\nevil=1\n"), {"GITHUB_OUTPUT": str(output)})
    outputs = parse_outputs(output.read_bytes().decode())
    assert outputs.keys() == {"verdict", "partial", "exit-code", "run-id", "metrics"}
