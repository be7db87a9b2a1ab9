"""Assemble a page from elements, fixed style and script, and data; the page of a comparison.

Everything from datasets, agents and judges is a text of an element, or in a data block. The script inserts it only as
text nodes. The page's Content Security Policy blocks all other scripts and styles, and all requests.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from string import Template
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from evalspec.base.foreign_text import inert, visible
from evalspec.reports.html_report.page_data import to_script
from evalspec.reports.markup.assets import read_asset, read_script, read_style
from evalspec.reports.markup.elements import Element, Nodes, el, group, render
from evalspec.reports.markup.run import draw_comparison, draw_headline, draw_keys, draw_navigation
from evalspec.reports.markup.shown import lay_out_whole
from evalspec.reports.markup.views import draw_about, draw_cell, draw_line_words
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import Role, View

_LONGEST = {Role.NAME: 2000, Role.SAMPLE: 2000, Role.PROSE: 2000, Role.ANSWER: 10_000, Role.TEXT: 10_000}
_LIMITS = Limits(other_rows=1000, items=20, extras=12)
_KEYS = (("j k", "next sample and previous sample"), ("/", "search"))


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
    scripts: Sequence[str] = (),
    overview: Any = None,
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> str:
    """Return a whole page.

    `scripts`: names of the scripts that it has besides those of all elements, in order. `overview`: JSON data that the
    script needs immediately. `before`, `after`: further data blocks, before and after the script.
    """
    style, script = read_report_style(), read_report_script(scripts)
    return Template(read_asset(__package__, "page.html")).substitute(
        title=escape(inert(title)),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        content=render(content),
        keys=render(draw_keys(_KEYS)),
        overview=to_script(overview),
        before="".join(f"{block}\n" for block in before),
        after="".join(f"{block}\n" for block in after),
    )


def render_block(name: str, content: str) -> str:
    """Return a data block, of a type that browsers do not execute. `content`: without `<`."""
    return f'<script type="text/plain" id="{name}">{content}</script>'


def read_report_style() -> str:
    """Return the style of every page."""
    return read_style(__package__, "report")


def read_report_script(scripts: Sequence[str]) -> str:
    """Return the script of a page. `scripts`: as in `render_document`."""
    return read_script(__package__, tuple(scripts))


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
    return render_document(title, content)


def _draw_header(view: View, links: ReportLinks) -> Nodes:
    outcome, *others = view.headline
    lead = [el("p", draw_line_words(line, links), class_="remark" if line.tone else "lead") for line in view.lead]
    said = draw_cell(outcome, links)
    return draw_headline(outcome.tone, view.mark, said, "Comparison", draw_about(others, links=links), lead)
