"""The tutorials, command by command: their shell blocks in order, and what they show."""

import re
from pathlib import Path

import pytest

from shell_pages import BLOCK, find_missing, open_shell

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


@pytest.mark.parametrize("page", ["first-gate", "retriever"])
def test_the_tutorial_does_what_it_says(page, tmp_path, free_tcp_port, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shell = open_shell(tmp_path)
    manifest = tmp_path / "project" / "agent.yaml"
    printed = ""
    for kind, block in BLOCK.findall((TUTORIALS / f"{page}.md").read_text()):
        if kind == "sh":
            printed = shell(block)
            if "evalspec init" in block:  # its agent listens on a fixed port
                manifest.write_text(re.sub(r"\b8918\b", str(free_tcp_port), manifest.read_text()))
        else:
            assert find_missing(block, printed) == []
