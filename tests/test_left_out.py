"""`make test` leaves out what exists, and nothing by accident."""

import subprocess
import sys
from pathlib import Path

import pytest

from left_out import LEFT_OUT, explain_left_out

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [name for names in LEFT_OUT.values() for name in names])
def test_what_is_left_out_exists(name):
    path, _, test = name.partition("::")
    assert (ROOT / path).exists()
    assert not test or f"def {test}(" in (ROOT / path).read_text()


def test_a_name_means_no_longer_name():
    assert explain_left_out("tests/service/test_page.py::test_any[1]") == "runs every example of the documents"
    assert explain_left_out("tests/service/test_pages.py::test_any") is None


def test_bytecode_that_was_cut_fails_the_session(tmp_path):
    """A child whose files may not grow must not write bytecode into the package."""
    (tmp_path / "cut.pyc").write_bytes(bytes(16) + b"\xe3")
    program = "import conftest, pathlib, sys; sys.exit(conftest.is_loadable(pathlib.Path('cut.pyc')))"
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": ""}
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=False).returncode == 0
