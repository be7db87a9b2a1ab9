"""Every block of code in the documents is run or checked by a test, or is an exemption with a reason."""

import ast
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from pages import test_data_blocks, test_how_to, test_other_pages, test_reference
from shell_pages import (
    DOCUMENTS,
    EXEMPTIONS,
    ROOT,
    Page,
    fill_addresses,
    find_exemption,
    list_compared,
    name_page,
    read_blocks,
)

FOLLOWED = (test_how_to, test_other_pages, test_reference)
NEEDS = {name: needs for module in FOLLOWED for name, needs in module.PAGES.items()}
LANGUAGES = {"json", "jsonl", "sql", "toml", "yaml"}
"""Languages all of whose blocks are checked, by test_data_blocks.py and test_yaml_blocks.py."""
ELSEWHERE = {
    ("CONTRIBUTING.md", "markdown", 1): "test_contributing.py",
    ("CONTRIBUTING.md", "markdown", 2): "test_contributing.py",
    ("docs/explanation/architecture.md", "diff", 1): "test_two_patches.py",
    ("docs/explanation/architecture.md", "diff", 2): "test_two_patches.py",
    ("docs/reference/reports.md", "text", 1): "cli/test_golden_demo.py",
    ("docs/reference/reports.md", "text", 2): "cli/test_golden_demo.py",
    **{("docs/reference/score.md", "text", number): "cli/test_score.py" for number in range(1, 8)},
}
"""Tests that read these blocks from their pages."""
NAVIGATION = "{toctree}"  # tests/test_site.py follows it


def list_followed(module):
    """The names of the pages whose commands this module runs."""
    (mark,) = (mark for mark in module.test_the_blocks_of_the_page_run.pytestmark if mark.name == "parametrize")
    return {parameters.id for parameters in mark.args[1]}


RUN = {name for module in FOLLOWED for name in list_followed(module)}


def is_held(name, block, compared):
    """Whether a test runs or checks the block, or an exemption says why not."""
    if block.language in ("sh", "python"):
        return name in RUN
    return (
        block.language in LANGUAGES
        or block.language == NAVIGATION
        or (block.language == "text" and block.number in compared)
        or (name, block.language, block.number) in test_data_blocks.GOLDEN
        or (name, block.language, block.number) in ELSEWHERE
        or find_exemption(name, block) is not None
    )


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_page)
def test_a_test_holds_every_block(page):
    name, blocks = name_page(page), read_blocks(page)
    compared = list_compared(blocks, NEEDS.get(name, Page()))
    missing = [f"{name}:{block.line}" for block in blocks if not is_held(name, block, compared)]
    assert not missing, f"no test runs {', '.join(missing)}, and tests/shell_pages.py has no Exemption with a reason"


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_page)
def test_no_example_hides_in_html(page):
    hidden = [
        f"{name_page(page)}:{token.map[0] + 1}"
        for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
        if token.type == "html_block" and any(sign in token.content for sign in ("<pre", "<code", "```"))
    ]
    assert hidden == []


def test_no_example_hides_in_a_docstring():
    """None has an example that Python could run. A docstring that gets one needs a test that runs it."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "evalspec").rglob("*.py"))}
    nodes = [
        (path, node)
        for path, text in texts.items()
        if ">>> " in text or "```" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    docstrings = ((path, ast.get_docstring(node) or "") for path, node in nodes)
    assert [path for path, text in docstrings if ">>> " in text or "```" in text] == []


def test_exemptions_are_of_blocks_that_exist():
    blocks = [(name_page(page), block) for page in DOCUMENTS for block in read_blocks(page)]
    found = [exemption for name, block in blocks if (exemption := find_exemption(name, block))]
    assert sorted(found) == sorted(EXEMPTIONS)
    places = {(name, block.language, block.number) for name, block in blocks}
    assert [place for place in ELSEWHERE if place not in places] == []
    tests = {name: (ROOT / "tests" / file).read_text(encoding="utf-8") for (name, *_), file in ELSEWHERE.items()}
    assert [name for name, test in tests.items() if Path(name).name not in test and "PAGE" not in test] == []
    assert len([exemption for exemption in EXEMPTIONS if exemption.language in ("sh", "python")]) <= 10


def test_what_pages_print_is_of_blocks_that_exist():
    places = {
        (name_page(page), block.number) for page in DOCUMENTS for block in read_blocks(page) if block.language == "text"
    }
    named = {(name, number) for name, needs in NEEDS.items() for number in (*needs.prints, *needs.other_numbers)}
    assert named <= places


def test_an_address_is_filled_once():
    stand_ins = {"AGENT": "http://127.0.0.1:40003", "SERVICE": "http://127.0.0.1:8321", "LOCAL": "localhost:80001"}
    filled = fill_addresses("url: http://localhost:4000/chat, localhost:8917, http://localhost:8932", stand_ins)
    assert filled == "url: http://127.0.0.1:40003/chat, localhost:80001, http://localhost:8932"
    assert fill_addresses(filled, stand_ins) == filled, "a manifest is filled before and after every command"
