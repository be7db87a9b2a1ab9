"""Assemble a page from elements, fixed style and script, and data; the page of a comparison.

Everything from datasets, agents and judges is a text of an element, or in a data block. The script inserts it only as
text nodes. The page's Content Security Policy blocks all other scripts and styles, and all requests.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from evalspec.base.foreign_text import inert, visible
from evalspec.reports.html_report.page_data import to_script
from evalspec.reports.markup.elements import Element, Nodes, el, group, render
from evalspec.reports.markup.run import draw_comparison, draw_headline, draw_navigation
from evalspec.reports.markup.shown import lay_out_whole
from evalspec.reports.markup.views import draw_about, draw_cell, draw_line_words
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import Role, View

STYLES = ("tokens", "layout", "tables", "charts", "sample", "report")
_LONGEST = {Role.NAME: 2000, Role.SAMPLE: 2000, Role.PROSE: 2000, Role.ANSWER: 10_000, Role.TEXT: 10_000}
_LIMITS = Limits(other_rows=1000, items=20, extras=12)
_SCRIPTS = ("elements", "keys", "folds")


class ReportLinks(Struct, frozen=True):
    """The fragments that parts of a report link to. `several`: whether it has several datasets; None: no samples."""

    several: bool | None
    longest: Mapping[Role, int] = field(default_factory=lambda: _LONGEST)

    def sample(self, dataset: str, id: str) -> str | None:
        """Return the fragment that opens a sample. None: the page has no samples."""
        if self.several is None:
            return None
        among = f"dataset={quote(visible(dataset), safe='')}&" if self.several else ""
        return f"#{among}sample={quote(visible(id), safe='')}"

    def section(self, at: str, page: int | None = None) -> None:
        """Return None: each section has all its rows."""


def render_document(
    title: str,
    content: Element,
    scripts: Sequence[str],
    overview: Any = None,
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> str:
    """Return a whole page.

    `scripts`: names of the assets with its script, in order. `overview`: JSON data that the script needs immediately.
    `before`, `after`: further data blocks, before and after the script.
    """
    style, script = read_style(), read_script(scripts)
    return Template(read_asset("page.html")).substitute(
        title=escape(inert(title)),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        content=render(content),
        overview=to_script(overview),
        before="".join(f"{block}\n" for block in before),
        after="".join(f"{block}\n" for block in after),
    )


def render_block(name: str, content: str) -> str:
    """Return a data block, of a type that browsers do not execute. `content`: without `<`."""
    return f'<script type="text/plain" id="{name}">{content}</script>'


@cache
def read_style() -> str:
    """Return all styles."""
    return "".join(read_asset(f"{name}.css") for name in STYLES)


@cache
def read_script(scripts: Sequence[str]) -> str:
    """Return scripts in one function, so their names are not global."""
    return f'(() => {{\n"use strict";\n{"".join(read_asset(f"{name}.js") for name in scripts)}}})();\n'


def read_asset(name: str) -> str:
    """Return a file of the page."""
    return files("evalspec.reports.html_report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """Return the hash by which the policy allows a script or style."""
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}"


def render_view_html(view: View, title: str) -> str:
    """Return the view of a comparison as a page, as text that can be encoded as UTF-8. Long texts are cut."""
    fitted, links = fit_view(view, _LIMITS), ReportLinks(None)
    shown = lay_out_whole(fitted)
    notes = [("notes", "Notes")] if fitted.notes else []
    content = group(
        _draw_header(fitted, links),
        draw_navigation(shown, links, *notes, with_keys=True),
        draw_comparison(fitted, shown, links),
    )
    return render_document(title, content, _SCRIPTS)


def _draw_header(view: View, links: ReportLinks) -> Nodes:
    outcome, *others = view.headline
    lead = [el("p", draw_line_words(line, links), class_="remark" if line.tone else "lead") for line in view.lead]
    said = draw_cell(outcome, links)
    return draw_headline(outcome.tone, view.mark, said, "Comparison", draw_about(others, links=links), lead)
