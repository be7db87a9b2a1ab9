"""How much a user has to read: words of prose outside code, front matter and rules of tables."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = ("tutorials", "how-to")
GUIDES_LIMIT = 12_000
RECIPES_LIMIT = 700
LIMIT = 38_000
"""For all pages by hand."""
NOT_COUNTED = ("adr", "reference/generated")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_FENCED = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)


def count_words(text: str) -> int:
    """Count what has a letter or a digit between blanks. A link is as many words as its text."""
    prose = re.sub(r"\]\([^)\s]+\)", "]", _FENCED.sub("", _FRONT_MATTER.sub("", text)))
    return sum(bool(re.search(r"\w", word)) for word in prose.split())


def count_pages(*folders: str) -> int:
    pages = [page for folder in folders for page in (DOCS / folder).rglob("*.md")]
    left_out = [DOCS / name for name in NOT_COUNTED]
    kept = [page for page in pages if not any(page.is_relative_to(folder) for folder in left_out)]
    assert kept, folders
    return sum(count_words(page.read_text(encoding="utf-8")) for page in kept)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One `two` [three four](page.md#five).", 4),
        ("---\ntitle: none\n---\nOne.", 1),
        ("| one | two |\n|---|:-:|\n| three | – |", 3),
        ("One\n\n```sh\nnone\n```\n\n   ```yaml\n   none: 1\n   ```\n\ntwo", 2),
        ("````md\n```sh\nnone\n```\n````\none", 1),
    ],
)
def test_only_prose_is_counted(text, words):
    assert count_words(text) == words


def test_tutorials_and_how_to_guides_are_short():
    assert count_pages(*GUIDES) <= GUIDES_LIMIT


def test_recipes_are_short():
    assert count_words((DOCS / "how-to" / "recipes.md").read_text(encoding="utf-8")) <= RECIPES_LIMIT


def test_all_pages_by_hand_are_short():
    assert count_pages("") <= LIMIT
