"""The commands in the help, in the text of pages and in comments: evalspec has them, with their options and choices."""

import re

import click
import pytest
from markdown_it import MarkdownIt

from evalspec.cli.main import group
from shell_pages import DOCUMENTS, ROOT, check_commands, name_page

COMMENTED = [
    ROOT / "agent.yaml.example",
    ROOT / "action.yml",
    *sorted((ROOT / "evalspec" / "cli" / "scaffold").iterdir()),
    *sorted((ROOT / "examples").rglob("*.yaml")),
]
IN_COMMENT = re.compile(r"#.*?[:`] ?(evalspec [a-z][^`#\n]*)")
ENDS_IN_OPTION = re.compile(r" --[\w-]+$")


def list_commands(command, path=()):
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from list_commands(command.get_command(context, name), (*path, name))


COMMANDS = dict(list_commands(group))


def read_examples(command):
    """The lines after `Example:` or `Examples:`."""
    examples = command.help.partition("Example")[2].partition("\n")[2]
    return [line.strip() for line in examples.replace("\\\n", "").splitlines() if line.strip()]


def check_mention(command):
    """A text may name a command to speak of its last option, without the option's value."""
    try:
        check_commands(command)
    except click.BadOptionUsage:
        assert ENDS_IN_OPTION.search(command)
        check_commands(f"{command} VALUE")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_examples_of_the_help_are_accepted(path):
    examples = read_examples(COMMANDS[path])
    assert any(f"evalspec {' '.join(path)}" in example for example in examples)
    for example in examples:
        check_commands(example)


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_page)
def test_the_commands_in_the_text_of_a_page_are_accepted(page):
    parsed = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    for token in (inner for outer in parsed for inner in outer.children or ()):
        if token.type == "code_inline" and re.match(r"evalspec [a-z]", token.content):
            check_mention(token.content)


@pytest.mark.parametrize("file", COMMENTED, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_commands_in_the_comments_of_a_file_are_accepted(file):
    for command in IN_COMMENT.findall(file.read_text(encoding="utf-8")):
        check_mention(command.strip())
