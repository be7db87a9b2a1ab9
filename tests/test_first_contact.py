"""First contact: a wheel, a CSV and a Python function in an empty folder, to a gate that fails, explains and passes."""

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from built_wheel import build_wheel

HERE = Path(__file__).parent / "first_contact"
COMMANDS = (HERE / "commands.sh").read_text(encoding="utf-8").splitlines()
INSTALL, INIT, VALIDATE, FAIL, FIX, PASS = range(6)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A function that runs a command in a folder with the wheel, the CSV and the bot.

    The environment of the folder finds the dependencies of these tests, but not evalspec itself, so nothing is fetched.
    """
    place = tmp_path_factory.mktemp("first")
    folder, environment = place / "shop", place / "environment"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("commands.sh", "__pycache__"))
    (place / "wheel").mkdir()
    shutil.copy(build_wheel(place / "wheel"), folder)
    venv.create(environment, with_pip=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("PYTHON", "EVALSPEC", "OPENAI"))}
    own = {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}

    def run(command):
        return subprocess.run(
            ["sh", "-c", command], cwd=folder, env=kept | own, capture_output=True, text=True, check=False
        )

    yield run


def test_from_an_empty_folder_to_a_gate_that_fails_explains_and_passes(shell):
    assert len(COMMANDS) <= 8
    done = [shell(command) for command in COMMANDS]
    assert [one.returncode for one in done] == [0, 0, 0, 1, 0, 0], done
    assert "5 samples, 5 with a right answer" in done[INIT].stdout
    assert "Next:\n  evalspec validate agent.yaml\n  evalspec evaluate agent.yaml\n" in done[INIT].stdout
    assert done[VALIDATE].stdout == "agent.yaml is valid: 1 dataset, 5 samples\n"
    lines = [line.strip() for line in done[FAIL].stdout.splitlines()]
    assert lines[0].startswith("FAIL") and "questions: string_match: 0.6 is below 0.8" in lines
    explained = lines[lines.index("Worst samples (2)") :]
    assert explained[1].endswith(": string_match 0.000 is below 0.80, questions.csv:2")
    assert explained[2:5] == [
        "question  How long is the free trial?",
        "expected  *21* days",
        "got       *The free trial lasts 14* days*.*",
    ]
    assert "got       Your data is stored in Dublin." in explained
    assert done[PASS].stdout.startswith("PASS") and "Worst samples" not in done[PASS].stdout

    found = shell("python -c 'import evalspec, sys; print(evalspec.__file__.startswith(sys.prefix))'")
    assert found.stdout == "True\n", "the wheel is what ran"
