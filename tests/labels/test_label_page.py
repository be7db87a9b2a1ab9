"""docs/how-to/labels.md, command by command: its shell blocks in order, its session, and its Python."""

import contextlib
import io
import re
from pathlib import Path

from gold.terminal import Terminal
from shell_pages import BLOCK, find_missing, open_shell

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "labels.md"


def test_the_page_does_what_it_says(tmp_path, monkeypatch):
    shell, printed = open_shell(tmp_path), ""
    for kind, block in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            printed = shell(block)
            continue
        if block.startswith("$ "):
            command, block = block.split("\n", 1)
            with Terminal(tmp_path / "project", *command.split()[2:], NO_COLOR="1") as terminal:
                terminal.expect("[q] quit")
                terminal.act("q", "left; to resume: ")
                printed = re.sub("─+", lambda rule: "-" * min(len(rule[0]), 45), terminal.output)
        assert find_missing(block, printed) == []
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path / "project")
    with contextlib.redirect_stdout(io.StringIO()) as told:
        exec(code, {})
    assert "cost string_match disagree ada" in told.getvalue()
