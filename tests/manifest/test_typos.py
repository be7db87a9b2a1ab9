"""Forty typos of a first hour: the line that each gets, and that the fix in that line works."""

import re
from pathlib import Path

import pytest
import yaml

DOCUMENT = yaml.safe_load((Path(__file__).parents[1] / "first_contact" / "typos.yaml").read_text(encoding="utf-8"))
TYPOS = DOCUMENT["typos"]


def replace_once(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path.name, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def apply(says, folder):
    """Do what a line says: replace the word in quotes or the last one, add a key before its line, or remove quotes."""
    name, line, rest = says.split(":", 2)
    path = folder / (name if line.isdigit() else "agent.yaml")
    message = rest.partition(". ")[0]
    quoted = re.search(r"'([^']+)'", message)
    wrong = quoted[1] if quoted else message.split()[-1]
    lines = path.read_text(encoding="utf-8").splitlines()
    if added := re.search(r"\. add (\w+: \S+)$", rest):
        lines.insert(int(line), added[1])
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif rest.endswith("remove the quotes"):
        replace_once(path, f'"{wrong}"', wrong)
    else:
        right = re.search(r"""did you mean '([^']+)'\?|write "([^"]+)\"""", rest)
        text = path.read_text(encoding="utf-8")
        fixed, count = re.subn(rf"(?<!\w){re.escape(wrong)}(?!\w)", right[1] or right[2], text)
        assert count == 1
        path.write_text(fixed, encoding="utf-8")


def test_there_are_forty_and_without_them_everything_is_valid(project):
    assert len(TYPOS) >= 40
    for name, text in DOCUMENT["files"].items():
        (project.folder / name).write_text(text, encoding="utf-8")
    found = project("validate", "agent.yaml")
    assert (found.code, found.out) == (0, "agent.yaml is valid: 4 datasets, 7 samples\n")
    assert "note: shop.csv: columns kept as metadata only: topic" in found.err and "warning" not in found.err


@pytest.mark.parametrize("typo", TYPOS, ids=[typo["write"] or f"no {typo['for'].strip()}" for typo in TYPOS])
def test_a_typo_gets_its_line_and_the_fix_that_it_names_works(typo, project):
    for name, text in DOCUMENT["files"].items():
        (project.folder / name).write_text(text, encoding="utf-8")
    path = project.folder / typo.get("file", "agent.yaml")
    replace_once(path, typo["for"], typo["write"])
    found = project("validate", "agent.yaml")
    assert (found.code, found.out.splitlines()) == (2, [typo["says"], "agent.yaml is not valid: 1 error"])
    if "fixed" in typo:
        replace_once(path, typo["write"], typo["fixed"])
    else:
        apply(typo["says"], project.folder)
    assert project("validate", "agent.yaml").code == 0
