"""docs/tutorials/gold.md, command by command: its shell blocks in order, and its session on a pseudo-terminal."""

from pathlib import Path

from gold.terminal import Terminal
from shell_pages import BLOCK, find_missing, open_shell, squeeze

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "gold.md"


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


def test_the_tutorial_does_what_it_says(tmp_path):
    shell = open_shell(tmp_path)
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
