"""The worked example of a dataset format in CONTRIBUTING.md: inside the package, and as another package's."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import evalspec.formats
from evalspec.registry import Registry

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
SECTION = PAGE.partition("## Add a dataset format\n")[2].partition("\n## ")[0]
MODULE, TEST = (textwrap.dedent(found) for found in re.findall(r"```python\n(.*?)```", SECTION, re.S))


def test_a_module_among_the_formats_is_all_that_it_needs(tmp_path, monkeypatch):
    (tmp_path / "golden.py").write_text(MODULE)
    monkeypatch.setattr(evalspec.formats, "__path__", [*evalspec.formats.__path__, str(tmp_path)])
    registry = Registry("dataset format", "evalspec.nothing", "evalspec.formats:register_formats")
    try:
        assert {"jsonl", "golden"} <= set(registry.names())
    finally:
        sys.modules.pop("evalspec.formats.golden", None)


@pytest.fixture
def another_package(tmp_path, monkeypatch):
    """A folder on the path of Python with the example as an installed package."""
    folder = tmp_path / "site"
    (folder / "my_package").mkdir(parents=True)
    (folder / "my_package" / "golden.py").write_text(MODULE)
    facts = folder / "my_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    group, line = re.search(r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)\n```", SECTION).groups()
    (facts / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return tmp_path


def test_its_test_passes_with_another_package(another_package):
    (another_package / "test_golden.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_golden.py"]
    done = subprocess.run(command, cwd=another_package, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_commands_know_it(another_package):
    (another_package / "qa.jsonl").write_text('{"id": "q", "input": "Who?", "expected": "We", "relevant": ["d"]}\n')

    def evalspec(*arguments):
        command = [sys.executable, "-m", "evalspec", *arguments]
        return subprocess.run(command, cwd=another_package, capture_output=True, text=True)

    refused = evalspec("convert", "qa.jsonl", "qa.json", "--to", "golden")
    assert (refused.returncode, "golden cannot hold the right answers (1 of 1 samples)" in refused.stderr) == (2, True)
    assert evalspec("convert", "qa.jsonl", "qa.json", "--to", "golden", "--lossy").returncode == 0
    back = evalspec("convert", "qa.json", "back.jsonl", "--to", "jsonl", "--json")
    assert (back.returncode, json.loads(back.stdout)["from"]) == (0, "golden")
    untrusted = evalspec("convert", "qa.json", "no.jsonl", "--to", "jsonl", "--from", "golden", "--untrusted")
    assert (untrusted.returncode, "--untrusted uses no plugins" in untrusted.stderr) == (2, True)
