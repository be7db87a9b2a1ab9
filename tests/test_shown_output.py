"""Pages that a reader follows with a terminal: their shell blocks run in order, and print what the pages show."""

import re
from pathlib import Path

import pytest

from shell_pages import BLOCK, find_missing, open_shell

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    "tutorials/first-gate",
    "tutorials/retriever",
    "how-to/own-agent",
    "how-to/retrievers",
    "explanation/statistics-in-plain-words",
)
EXAMPLE_AGENT_PORT = "8918"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_commands_print(page, tmp_path, free_tcp_port, monkeypatch):
    """A text block right after a shell block is its output; other text blocks quote runs of other projects."""
    monkeypatch.setenv("COLUMNS", "100")
    shell = open_shell(tmp_path)
    manifest = tmp_path / "project" / "agent.yaml"
    printed = None
    for kind, block in BLOCK.findall((DOCS / f"{page}.md").read_text()):
        if kind == "sh":
            printed = shell(block)
            if manifest.exists():
                manifest.write_text(re.sub(rf"\b{EXAMPLE_AGENT_PORT}\b", str(free_tcp_port), manifest.read_text()))
        elif printed is not None:
            assert find_missing(block, printed) == []
            printed = None
