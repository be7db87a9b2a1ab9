"""The commands in the help, in the text of pages and in comments: evalspec has them, with their options and choices."""

import re
import shutil

import click
import pytest
from markdown_it import MarkdownIt

from evalspec.cli.main import group
from shell_pages import DOCUMENTS, ROOT, STAND_INS, check_commands, name_page, split_commands

COMMENTED = [
    ROOT / "agent.yaml.example",
    ROOT / "action.yml",
    *sorted(path for path in (ROOT / "evalspec" / "cli" / "scaffold").iterdir() if path.is_file()),
    *sorted((ROOT / "examples").rglob("*.yaml")),
]
IN_COMMENT = re.compile(r"#.*?[:`] ?(evalspec [a-z][^`#\n]*)")
NOT_RUN = (
    "gold init gold/help",
    "label",
    "gold review",
    "serve",
    "worker",
    "token",
    "runs push",
    "runs pull",
    "runs promote latest --as server:main",
    "compare server:main",
    "plan agent.yaml --baseline server:main",
    "evaluate agent.yaml --push",
    "evaluate agent.yaml --export",
    "report latest --export",
    "traces check",
    "evaluate agent.yaml --shard",
    "merge",
)
"""A second gold set, sessions, servers, what speaks to one, an agent that exports spans, and shards."""
ABSENT = re.compile(
    r"no such (file|calibration)|cannot be read|there is no module|no (run|slice|label|triple|retriever|person)\b"
    r"|not a log of another harness|has no|already|is taken|are unchanged|no accepted triple|cannot (hold|resolve)"
    r"|adjudicates only"
)
"""What an example names and the shop does not have, or not in that state. Any other error is a wrong example."""
GIT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "ada"}
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


def test_the_examples_of_the_help_run(project, monkeypatch):
    """In the shop of the pages, after a run, one after the other."""
    for name, text in GIT.items():
        monkeypatch.setenv(name, text)
    shutil.copytree(ROOT / "tests" / "pages" / "shop", project.folder, dirs_exist_ok=True)
    with STAND_INS["agent"]() as found:
        manifest = (project.folder / "agent.yaml").read_text().replace("http://localhost:4000", found["AGENT"])
        (project.folder / "agent.yaml").write_text(manifest)
        examples = [line for command in COMMANDS.values() for line in read_examples(command)]
        wrong = []
        for line in ("evalspec evaluate agent.yaml", "evalspec runs label latest main", *examples):
            for words in split_commands(line):
                if not " ".join(words).startswith(NOT_RUN):
                    outcome = project(*words)
                    if outcome.code == 2 and not ABSENT.search(outcome.err + outcome.out):
                        wrong.append(f"{line}: {outcome.err}")
    assert not wrong, "\n".join(wrong)
