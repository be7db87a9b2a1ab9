"""The worked examples of CONTRIBUTING.md through the command line: in a copy of the repository, and as a package."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import evalspec.reports
from evalspec.reports.base import no_exchanges
from hostile_texts import HOSTILE, steering
from reporters.small_runs import run_full_of
from shell_pages import read_blocks

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
OF_ALL_THINGS = (
    "tests/metrics/test_definitions.py::test_every_metric_has_a_definition_and_says_when_to_use_it[starts_well]",
    "tests/metrics/test_definitions.py::test_the_examples_of_recorded_replies_have_the_scores_that_evalspec_computes"
    "[without a judge]",
    "tests/test_docs.py::test_implicit_metrics_are_named_where_thresholds_are_explained",
    "tests/metrics/test_stages.py::test_metrics_say_whether_they_look_at_the_answer",
    "tests/metrics/test_stages.py::test_the_list_names_the_stages_and_not_each_of_their_metrics",
    "tests/metrics/test_stages.py::test_the_list_for_programs_has_all_of_them",
    "tests/metrics/test_absent_data.py::test_missing_data_never_becomes_a_value[starts_well]",
    "tests/reporters/test_reporters.py::test_every_form_is_explained",
    "tests/datasets/test_recognition.py",
    "tests/test_architecture.py::test_rooms_import_only_what_is_below_them",
    "tests/test_architecture.py::test_only_formats_name_other_systems",
)
"""Tests that look at everything that is registered."""
IGNORED = shutil.ignore_patterns("__pycache__", "earlier", "golden")
COPIED = ("evalspec", "tests", "docs", "README.md", "CHANGELOG.md", "pyproject.toml")


class Example(NamedTuple):
    """What a section asks for: files by path, a test, and the lines of pyproject.toml of another package."""

    files: Mapping[str, str]
    tests: tuple[str, ...]
    group: str
    entry_point: str

    @property
    def module(self) -> str:
        return next(iter(self.files.values()))

    @property
    def module_name(self) -> str:
        return Path(next(iter(self.files))).stem


def read_example(heading: str) -> Example:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d\. \*\*One [^`\n]*`([\w/.]+)`:\n\n +(`{3,})\w+\n(.*?)^ +\2$", section, re.S | re.M)
    blocks = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", section, re.S)]
    group, line = re.search(r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)\n```", section).groups()
    files = {path: textwrap.dedent(text) for path, _, text in steps}
    return Example(files, tuple(block for block in blocks if "def test_" in block), group, line.replace('"', ""))


METRIC, FORMAT, REPORT, WIRE = EXAMPLES = [
    read_example(heading) for heading in ("Add a metric", "Add a dataset format", "Add a form of report", "Add a wire")
]


class Installed(NamedTuple):
    """A working folder, where Python finds evalspec with the examples, and the package that brings them."""

    folder: Path
    path: str
    package: str

    def python(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        environ = os.environ | {"PYTHONPATH": self.path}
        return subprocess.run(command, cwd=cwd or self.folder, env=environ, capture_output=True, text=True)

    def evalspec(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("evalspec", *arguments)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of this repository in which the steps of all four sections were done."""
    copy = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        source, target = ROOT / name, copy / name
        shutil.copytree(source, target, ignore=IGNORED) if source.is_dir() else shutil.copy(source, target)
    for path, text in (step for example in EXAMPLES for step in example.files.items()):
        with (copy / path).open("a") as file:
            file.write(f"\n{text}" if file.tell() else text)
    return Installed(tmp_path_factory.mktemp("work"), str(copy), "evalspec")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Another package with the four modules and their entry points, as pip would install it."""
    site = tmp_path_factory.mktemp("site")
    (site / "my_package").mkdir()
    facts = site / "acme_metrics-1.5.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-metrics\nVersion: 1.5\n")
    (facts / "top_level.txt").write_text("my_package\n")
    points = (f"[{example.group}]\n{example.entry_point}\n" for example in EXAMPLES)
    (facts / "entry_points.txt").write_text("\n".join(points))
    for example in EXAMPLES:
        (site / "my_package" / f"{example.module_name}.py").write_text(example.module)
    return Installed(tmp_path_factory.mktemp("work"), os.pathsep.join([str(site), str(ROOT)]), "my_package")


@pytest.fixture(params=["repository", "package"])
def installed(request):
    return request.getfixturevalue(request.param)


def test_an_extension_touches_two_files_of_the_repository():
    rows = PAGE.partition("## What an extension touches")[2].partition("\n## ")[0]
    described = [tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in re.findall(r"^\| a.*", rows, re.M)]
    assert (
        [len(example.files) for example in EXAMPLES] == [len(row[1].split(", ")) for row in described] == [2, 2, 2, 2]
    )
    assert [path for example in EXAMPLES for path in example.files if not (ROOT / path).exists()] == [
        "evalspec/scoring/metrics/opening.py",
        "evalspec/scoring/metrics/opening.md",
        "evalspec/inputs/formats/golden.py",
        "tests/datasets/test_golden.py",
        "evalspec/reports/latex.py",
        "evalspec/targets/agents/wires/gist.py",
        "tests/agents/test_gist.py",
    ]


def test_every_block_of_python_runs_here():
    written = [text for example in EXAMPLES for text in (*example.files.values(), *example.tests)]
    blocks = [block.code for block in read_blocks(ROOT / "CONTRIBUTING.md") if block.language == "python"]
    assert [block for block in blocks if block not in written] == [read_retriever()]


def test_no_other_test_asks_for_a_further_file(repository):
    """Those of everything that is registered pass in the copy."""
    done = repository.python(
        "pytest", "-q", *OF_ALL_THINGS, list(FORMAT.files)[1], list(WIRE.files)[1], cwd=Path(repository.path)
    )
    assert done.returncode == 0, done.stdout


def test_the_metric_is_listed(installed):
    listed = json.loads(installed.evalspec("metrics", "--json").stdout)["metrics"]
    (found,) = [metric for metric in listed if metric["name"] == "starts_well"]
    assert found["summary"] == "Whether the first words are those of the expected answer."
    words = {"name": "words", "type": "integer", "default": 1, "description": "whole number, default 1"}
    assert found["parameters"] == [words]
    assert (found["needs"], found["range"], found["engine"]) == (["expected"], [0, 1], installed.package)


def test_a_run_scores_the_metric_and_writes_the_report(installed):
    samples = [{"id": "a", "input": "Who?", "expected": "We do"}, {"id": "b", "input": "When?", "expected": "Now"}]
    replies = [{"id": "a", "response": "We all"}, {"id": "b", "response": "Later"}]
    for name, lines in (("qa.jsonl", samples), ("replies.jsonl", replies)):
        (installed.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset = {"name": "qa", "path": "qa.jsonl", "metrics": ["starts_well", {"name": "starts_well", "words": 2}]}
    limits = {"starts_well()": 0.5, "starts_well(words=2)": {"max": 0}}
    evaluation = {"datasets": [dataset], "thresholds": limits, "ciGate": {"minSamples": 1}}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
    (installed.folder / "agent.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))
    arguments = ["agent.yaml", "--responses", "replies.jsonl", "-o", "paper.tex", "--json"]
    done = installed.evalspec("evaluate", *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (engine,) = [part["engine"] for part in find_all(document["fingerprint"], "starts_well") if "engine" in part]
    assert engine == {"my_package": "my_package 1.5"}.get(installed.package, installed.package)
    (found,) = document["datasets"]
    values = {name: summary["value"] for name, summary in found["metrics"].items()}
    assert values == {"starts_well": 0.5, "starts_well(words=2)": 0}
    assert [limit["status"] for limit in found["thresholds"]] == ["PASS", "PASS"]
    report = (installed.folder / "paper.tex").read_text()
    assert "starts\\_well & 0.500" in report
    assert "starts\\_well(words=2) & 0.000" in report


def test_an_agent_answers_over_the_wire(installed, agent):
    (installed.folder / "qa.jsonl").write_text('{"id": "a", "input": "Who pays?", "expected": "You do."}\n')
    api = {"url": agent.url, "chatEndpoint": {"protocol": "gist"}}
    evaluation = {"datasets": [{"name": "qa", "path": "qa.jsonl", "metrics": ["exact_match"]}]}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
    (installed.folder / "gist.yaml").write_text(json.dumps(head | {"spec": {"api": api, "evaluation": evaluation}}))
    agent.reply = {"say": "You do.", "why": "stop"}
    done = installed.evalspec("evaluate", "gist.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["datasets"][0]["samples"][0]["finishReason"] == "stop"
    assert [(request.path, request.body) for request in agent.requests] == [("/gist", {"ask": "Who pays?"})]
    if installed.package == "my_package":
        done = installed.evalspec("validate", "gist.yaml", "--untrusted", "--url", agent.url)
        assert "unknown protocol 'gist'" in done.stdout
        assert "--untrusted uses no plugins" in done.stdout


def find_all(value, key):
    """What is under a key, wherever in a JSON document."""
    if isinstance(value, dict):
        yield from [value[key]] if isinstance(value.get(key), dict) else []
        for inner in value.values():
            yield from find_all(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from find_all(inner, key)


def test_convert_knows_the_format(installed):
    (installed.folder / "gold.jsonl").write_text('{"id": "q", "input": "Who?", "expected": "We", "relevant": ["d"]}\n')
    refused = installed.evalspec("convert", "gold.jsonl", "qa.json", "--to", "golden")
    assert (refused.returncode, "golden cannot hold the right answers (1 of 1 samples)" in refused.stderr) == (2, True)
    assert installed.evalspec("convert", "gold.jsonl", "qa.json", "--to", "golden", "--lossy").returncode == 0
    back = installed.evalspec("convert", "qa.json", "back.jsonl", "--to", "jsonl", "--json")
    assert (back.returncode, json.loads(back.stdout)["from"]) == (0, "golden")


def test_untrusted_uses_nothing_of_another_package(package):
    (package.folder / "u.json").write_text('{"golden": [{"id": "q", "ask": "Who?", "find": ["d"]}]}')
    arguments = ["u.json", "no.jsonl", "--to", "jsonl", "--from", "golden", "--untrusted"]
    untrusted = package.evalspec("convert", *arguments)
    assert (untrusted.returncode, "--untrusted uses no plugins" in untrusted.stderr) == (2, True)


def test_an_entry_point_without_a_metric_is_an_error(package, tmp_path):
    facts = tmp_path / "empty-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: empty\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[evalspec.metrics]\nnothing = colorsys\n")
    done = Installed(tmp_path, os.pathsep.join([str(tmp_path), str(ROOT)]), "").evalspec("metrics")
    assert done.returncode == 2
    assert "entry point nothing of group evalspec.metrics: plugin failed: TypeError: it has no metric" in done.stderr


def test_the_tests_of_the_examples_pass(package):
    tests = [test for example in EXAMPLES for test in example.tests]
    assert len(tests) == 3
    for number, test in enumerate(tests):
        (package.folder / f"test_{number}.py").write_text(test)
    names = [f"test_{number}.py" for number in range(len(tests))]
    done = package.python("pytest", "-q", "-p", "no:cacheprovider", *names)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def latex(tmp_path, monkeypatch):
    (tmp_path / "latex.py").write_text(REPORT.module)
    monkeypatch.setattr(evalspec.reports, "__path__", [*evalspec.reports.__path__, str(tmp_path)])
    yield import_module("evalspec.reports.latex").LATEX
    sys.modules.pop("evalspec.reports.latex")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_hostile_text_acts_in_the_report(latex, text):
    hostile, harmless = (latex.render(run_full_of(words), no_exchanges) for words in (text, "x"))
    assert not steering(hostile)
    assert find_commands(hostile) == find_commands(harmless)


def find_commands(latex: str) -> list[str]:
    """Commands of LaTeX but for signs and their names."""
    return [command for command in re.findall(r"\\[a-z]+", latex) if not command.startswith(r"\text")]


def read_retriever() -> str:
    section = PAGE.partition("## Add a retriever\n")[2].partition("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.S)[1]


def test_the_retriever_passes_its_own_check(tmp_path):
    (tmp_path / "newest.py").write_text(f"{read_retriever()}\n\nretriever = NewestFirst(100)\n")
    (tmp_path / "qa.jsonl").write_text('{"input": "Newest?", "relevant": ["d1"]}\n')
    datasets = [{"name": "qa", "path": "qa.jsonl", "metrics": ["Recall@5"]}]
    evaluation = {"datasets": datasets, "retrievers": {"mine": {"python": "newest:retriever"}}}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
    (tmp_path / "agent.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))
    for name, code, said in (("mine", 0, "✓"), ("other", 2, "NAME: no retriever is named 'other'. known: mine\n")):
        command = [sys.executable, "-m", "evalspec", "retrievers", "check", name, "agent.yaml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
