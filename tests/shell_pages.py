"""Pages of the documents as tests: their shell blocks in order, and what the text blocks show."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def open_shell(folder: Path) -> Callable[[str], str]:
    """A function that runs a script in `folder`/project, with `evalspec` on the path, and returns what it prints."""
    program = folder / "bin" / "evalspec"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evalspec "$@"\n')
    program.chmod(0o755)
    (folder / "project").mkdir()
    people = {f"GIT_{who}_{what}": "ada@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = os.environ | people | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-e"],
            input=script,
            cwd=folder / "project",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def squeeze(text: str) -> list[str]:
    """The lines of a text, with single blanks between words."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def find_missing(shown: str, printed: str) -> list[str]:
    """The shown lines that were not printed in this order. In a shown line, … stands for any text."""
    lines = iter(squeeze(printed))
    return [
        line
        for line in squeeze(shown)
        if not any(re.fullmatch(re.escape(line).replace("…", ".*"), other) for other in lines)
    ]
