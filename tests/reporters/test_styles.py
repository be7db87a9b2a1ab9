"""The styles of reports and pages: no rule is left over or written twice, and every class of an element has a use."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from evalspec.reports.view.parts import Tone

PACKAGE = Path(str(files("evalspec")))
SHARED = PACKAGE / "reports" / "markup"
REPORT = PACKAGE / "reports" / "html_report"
PAGES = PACKAGE / "service" / "pages"
SURFACES = {SHARED: (SHARED, REPORT, PAGES), REPORT: (SHARED, REPORT), PAGES: (SHARED, PAGES)}
"""Where the elements are drawn that the styles of a folder are for."""
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INSERTED = re.compile(r"\{[{%].*?[%}]\}")
NAME = r"-?[a-zA-Z_][\w-]*"


def read_all(folder: Path, suffix: str) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in folder.rglob(f"*{suffix}") if path.name != "htmx.js"}


def list_declarations(style: str) -> Iterator[str]:
    """Each selector with each property that it sets. Those inside `@media` adapt others, and are left out."""
    unnested = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", COMMENT.sub("", style))
    for selectors, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", unnested):
        for selector in re.split(r",(?![^(]*\))", selectors):
            for name in re.findall(rf"({NAME}):", declarations):
                yield f"{' '.join(selector.split())} {{{name}}}"


def styled_classes(folder: Path) -> set[str]:
    """The classes of all selectors."""
    found = set()
    for style in read_all(folder, ".css").values():
        for selector in re.findall(r"([^{}]+)\{", COMMENT.sub("", style)):
            found |= set(re.findall(rf"\.({NAME})", "" if selector.strip().startswith("@") else selector))
    return found


def words_of(folder: Path) -> set[str]:
    """Each word of a text in Python, a template or a script: what can be a class of an element."""
    texts = [text for suffix in (".html", ".js") for text in read_all(folder, suffix).values()]
    quoted = [one for text in texts for one in re.findall(r'"([^"]*)"|\'([^\']*)\'', text) for one in one]
    literals = [
        node.value
        for source in read_all(folder, ".py").values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {word for text in (*quoted, *literals) for word in re.findall(NAME, text)}


def drawn_classes() -> Mapping[str, str]:
    """The classes that are written as such, with the file that draws them."""
    found = {}
    for folder in (SHARED, REPORT, PAGES):
        for path, source in read_all(folder, ".py").items():
            found |= dict.fromkeys(_classes_of_calls(ast.parse(source)), path.name)
        for path, text in read_all(folder, ".html").items():
            listed = re.findall(r'\bclass="((?:\{[{%].*?[%}]\}|[^"])*)"', text)
            found |= {name: path.name for one in listed for name in INSERTED.sub(" ", one).split()}
        for path, text in read_all(folder, ".js").items():
            listed = re.findall(r'(?:class: |classList\.add\()"([^"]*)"', text)
            found |= {name: path.name for one in listed for name in one.split()}
    return found


def _classes_of_calls(tree: ast.AST) -> Iterator[str]:
    given = (node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "class_")
    for node in (inner for value in given for inner in ast.walk(value)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.split()


@pytest.mark.parametrize("folder", SURFACES, ids=lambda folder: folder.name)
def test_every_class_that_is_styled_is_drawn(folder):
    drawn = {str(tone) for tone in Tone}.union(*map(words_of, SURFACES[folder]))
    assert styled_classes(folder) - drawn == set()


def test_every_class_that_is_drawn_is_styled_or_found_by_a_script():
    styled = set().union(*map(styled_classes, SURFACES))
    scripts = "".join(text for folder in SURFACES for text in read_all(folder, ".js").values())
    unused = {name: where for name, where in drawn_classes().items() if name not in styled}
    assert {name: where for name, where in unused.items() if f".{name}" not in scripts} == {}


@pytest.mark.parametrize("own", [REPORT, PAGES], ids=lambda folder: folder.name)
def test_nothing_is_styled_in_two_files(own):
    styles = [style for folder in (SHARED, own) for style in read_all(folder, ".css").values()]
    places = Counter(one for style in styles for one in set(list_declarations(style)))
    assert len(places) > 400
    assert {one for one, count in places.items() if count > 1} == set()


def test_what_only_one_of_them_has_is_in_its_own_folder():
    """A shared style is for elements that `markup` draws, or that both reports and pages write."""
    drawn = {str(tone) for tone in Tone} | words_of(SHARED) | (words_of(REPORT) & words_of(PAGES))
    assert styled_classes(SHARED) - drawn == set()
