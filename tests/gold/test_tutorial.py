"""docs/gold.md, command by command: its shell blocks in order, and its session on a pseudo-terminal."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gold.terminal import Terminal

PAGE = Path(__file__).parents[2] / "docs" / "gold.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Run a script in a folder of its own, with `evalspec` on the path, and return all that it prints."""
    program = tmp_path / "bin" / "evalspec"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evalspec "$@"\n')
    program.chmod(0o755)
    (tmp_path / "project").mkdir()
    people = {f"GIT_{who}_{what}": "ada@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = os.environ | people | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}

    def run(script):
        done = subprocess.run(
            ["sh", "-e"],
            input=script,
            cwd=tmp_path / "project",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def squeeze(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def find_missing(shown, printed):
    """Return the shown lines that were not printed in this order. In a shown line, … stands for any text."""
    printed = iter(squeeze(printed))
    return [
        line
        for line in squeeze(shown)
        if not any(re.fullmatch(re.escape(line).replace("…", ".*"), other) for other in printed)
    ]


def review_as_ben(terminal):
    """Do what the page says about the session, and return what the first screen shows."""
    screen = terminal.expect("[q] quit")
    for key, expected in (("f", "go back"), ("4", "go back"), ("1", "A note")):
        terminal.act(key, expected)
    for keys, expected in (("The block does not say GCM.\n", "[q] quit"), ("c", "[q] quit"), ("c", "[q] quit")):
        terminal.act(keys, expected)
    terminal.press("q")
    assert terminal.end()[0] == 0
    return screen


def test_the_tutorial_does_what_it_says(shell, tmp_path):
    printed = ""
    for kind, block in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            printed = shell(block)
            continue
        if block.startswith("$ "):
            command, block = block.split("\n", 1)
            with Terminal(tmp_path / "project", *command.split()[2:], NO_COLOR="1") as terminal:
                screen = review_as_ben(terminal)
                printed = terminal.output.replace("─", "-")
            assert len(squeeze(screen)) == len(squeeze(block))
        assert find_missing(block, printed) == []
