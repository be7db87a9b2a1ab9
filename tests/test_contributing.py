"""The worked examples of CONTRIBUTING.md: inside the package, and as another package's."""

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import evalspec.formats
import evalspec.reporters
from evalspec.registry import Registry
from evalspec.reporters.base import no_exchanges
from hostile_texts import HOSTILE, steering
from reporters.small_runs import run_full_of

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()


class Example(NamedTuple):
    """A module, its test, and the entry point of another package that has it."""

    name: str
    module: str
    test: str
    group: str
    entry_point: str


def read_example(heading: str, name: str) -> Example:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    module, test = (textwrap.dedent(found) for found in re.findall(r"```python\n(.*?)```", section, re.S))
    group, line = re.search(r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)\n```", section).groups()
    return Example(name, module, test, group, line.replace('"', ""))


FORMAT = read_example("Add a dataset format", "golden")
REPORT = read_example("Add a form of report", "latex")


@pytest.fixture
def among_ours(tmp_path, monkeypatch):
    """A way to have an example as a module of a package of ours."""

    def add(example, package):
        (tmp_path / f"{example.name}.py").write_text(example.module)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    yield add
    for name in ("evalspec.formats.golden", "evalspec.reporters.latex"):
        sys.modules.pop(name, None)


def test_a_module_among_the_formats_is_all_that_it_needs(among_ours):
    among_ours(FORMAT, evalspec.formats)
    registry = Registry("dataset format", "evalspec.nothing", "evalspec.formats:register_formats")
    assert {"jsonl", "golden"} <= set(registry.names())


def test_a_report_needs_a_module_and_one_line(among_ours, monkeypatch):
    (line,) = re.findall(r'`"(.*?)",`', PAGE)
    among_ours(REPORT, evalspec.reporters)
    monkeypatch.setattr(evalspec.reporters, "_FORMS", (*evalspec.reporters._FORMS, line))
    registry = Registry("reporter", "evalspec.nothing", "evalspec.reporters:register_reporters")
    assert {"json", "latex"} <= set(registry.names())


@pytest.fixture(params=[FORMAT, REPORT], ids=lambda example: example.name)
def example(request):
    return request.param


@pytest.fixture
def another_package(tmp_path, monkeypatch):
    """A folder on the path of Python with an example as an installed package."""

    def install(example):
        folder = tmp_path / "site"
        (folder / "my_package").mkdir(parents=True)
        (folder / "my_package" / f"{example.name}.py").write_text(example.module)
        facts = folder / "my_package-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[{example.group}]\n{example.entry_point}\n")
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        return tmp_path

    return install


def test_its_test_passes_with_another_package(another_package, example):
    folder = another_package(example)
    (folder / "test_example.py").write_text(example.test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_commands_know_the_format(another_package):
    folder = another_package(FORMAT)
    (folder / "qa.jsonl").write_text('{"id": "q", "input": "Who?", "expected": "We", "relevant": ["d"]}\n')

    def evalspec(*arguments):
        command = [sys.executable, "-m", "evalspec", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)

    refused = evalspec("convert", "qa.jsonl", "qa.json", "--to", "golden")
    assert (refused.returncode, "golden cannot hold the right answers (1 of 1 samples)" in refused.stderr) == (2, True)
    assert evalspec("convert", "qa.jsonl", "qa.json", "--to", "golden", "--lossy").returncode == 0
    back = evalspec("convert", "qa.json", "back.jsonl", "--to", "jsonl", "--json")
    assert (back.returncode, json.loads(back.stdout)["from"]) == (0, "golden")
    untrusted = evalspec("convert", "qa.json", "no.jsonl", "--to", "jsonl", "--from", "golden", "--untrusted")
    assert (untrusted.returncode, "--untrusted uses no plugins" in untrusted.stderr) == (2, True)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_hostile_text_acts_in_the_report(among_ours, text):
    among_ours(REPORT, evalspec.reporters)
    render = import_module("evalspec.reporters.latex").LATEX.render
    hostile, harmless = (render(run_full_of(words), no_exchanges) for words in (text, "x"))
    assert not steering(hostile)
    assert find_commands(hostile) == find_commands(harmless)


def find_commands(latex: str) -> list[str]:
    """Commands of LaTeX but for signs and their names."""
    return [command for command in re.findall(r"\\[a-z]+", latex) if not command.startswith(r"\text")]
