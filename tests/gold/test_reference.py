"""docs/reference/gold-reference.md against the code: keys, rules, flags, session keys, commands."""

import inspect
import re
from pathlib import Path

import pytest

from evalspec.cli.gold import COMMANDS
from evalspec.cli.gold.reviewing import KEYS
from evalspec.curation.gold import schema
from evalspec.curation.gold.states import _RULES, State
from evalspec.curation.gold.wording import FLAGS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "gold-reference.md").read_text()
MODELS = (
    schema.SetFile,
    schema.Person,
    schema.Targets,
    schema.Rules,
    schema.Triple,
    schema.Block,
    schema.TripleMetadata,
    schema.Event,
    schema.SliceFile,
    schema.Grant,
)


def rows_of(heading):
    """The cells of the tables in a section, without its subsections and the titles of columns."""
    text = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    lines = re.findall(r"^\| (.*) \|$", re.split(r"^#", text, flags=re.MULTILINE)[0], flags=re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines][1:]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_of_every_file_is_explained(model):
    assert [key for key in model.model_fields if f"`{key}`" not in inspect.getdoc(model)] == []


def test_the_rules_of_states_are_those_of_the_code():
    table = [(state, how or None) for state, how, *_ in (row for row in rows_of("States") if len(row) == 3)]
    assert table == [(str(state), how) for state, how, _ in _RULES]
    diagram = PAGE.partition("## States")[2].partition("```text")[2].partition("```")[0]
    assert all(re.search(rf"\b{state}\b", diagram) for state in State)


def test_flags_keys_and_commands_are_those_of_the_code():
    assert [(row[0].strip("`"), row[1]) for row in rows_of("Flags")] == [
        (str(flag), said) for flag, said in FLAGS.items()
    ]
    assert [row[0].strip("`") for row in rows_of("Review sessions")] == list(KEYS)
    listed = [name for row in rows_of("Commands") for name in re.findall(r"`gold (\w+)", row[0])]
    assert len(listed) > 5
    assert set(listed) <= set(COMMANDS)
