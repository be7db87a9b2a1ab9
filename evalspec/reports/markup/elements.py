"""Elements of HTML and SVG. Only `render` here turns a text into HTML, and it makes the text harmless.

The report packs the elements of its samples as JSON, from which its script creates them.
"""

from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Union

from msgspec import Struct

from evalspec.base.foreign_text import visible

Child = Union[str, "Element"]
Nodes = None | bool | Child | Iterable["Nodes"]
"""What can be inside an element. None, False and empty texts are left out."""

_VOID = frozenset({"input", "br"})


class Element(Struct, frozen=True, array_like=True):
    """One element. With an empty tag, only its children. Templates insert it by `__html__`."""

    tag: str
    attributes: dict[str, str]
    children: tuple[Child, ...]

    def __html__(self) -> str:
        """Return the element as HTML."""
        return render(self)


def el(tag: str, *children: Nodes, **attributes: str | float | bool | None) -> Element:
    """Return an element. Attributes that are None, False or empty are left out, and `class_` is `class`."""
    named = {
        _name_attribute(name): "" if value is True else str(value)
        for name, value in attributes.items()
        if value is not None and value is not False and value != ""
    }
    return Element(tag, named, tuple(_flatten(children, [])))


@cache
def _name_attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def group(*children: Nodes) -> Element:
    """Return children without an element around them."""
    return el("", *children)


def _flatten(content: Iterable[Nodes], found: list[Child]) -> list[Child]:
    for one in content:
        if isinstance(one, Element):
            found += (one,) if one.tag else one.children
        elif isinstance(one, str):
            found += (one,) if one else ()
        elif one is not None and not isinstance(one, bool):
            _flatten(one, found)
    return found


def render(element: Element) -> str:
    """Return an element as HTML. Texts become harmless, except for what a template has already made harmless."""
    pieces: list[str] = []
    _write(element, pieces)
    return "".join(pieces)


def _write(node: Child, pieces: list[str]) -> None:
    if isinstance(node, str):
        finished = getattr(node, "__html__", None)
        pieces.append(finished() if finished else escape(visible(node), quote=False))
        return
    if node.tag:
        said = "".join(f' {name}="{escape(visible(value))}"' for name, value in node.attributes.items())
        pieces.append(f"<{node.tag}{said}>")
    for child in node.children:
        _write(child, pieces)
    if node.tag and node.tag not in _VOID:
        pieces.append(f"</{node.tag}>")


def chip(tone: str, mark: str, *words: Nodes) -> Element:
    """Return an outcome in a few words, with its symbol."""
    return el("span", mark and el("span", mark, aria_hidden="true"), el("span", words), class_=f"chip {tone or 'none'}")


def name(text: str, kind: str | None = None) -> Element:
    """Return an untrusted name. The direction of its text does not affect what is around it."""
    return el("bdi", text, class_=kind)


def folded(title: Nodes, *content: Nodes, is_open: bool = False, kind: str | None = None) -> Element:
    """Return content under a title that folds it."""
    return el("details", el("summary", title), el("div", content, class_="folded"), open=is_open, class_=kind)


def definitions(pairs: Iterable[tuple[str, Nodes]]) -> Element:
    """Return names with their values."""
    return el("dl", [el("div", el("dt", name(term)), el("dd", value)) for term, value in pairs], class_="definitions")


def about(facts: Iterable[Nodes]) -> Element | None:
    """Return facts beside a title; None: there are none."""
    shown = [fact if isinstance(fact, Element) and fact.tag else el("span", fact) for fact in facts if fact]
    return el("p", shown, class_="about") if shown else None
