"""Assemble a page from fixed markup, style and script, and data.

Everything from datasets, agents and judges is in data blocks. The script inserts it only as text nodes. The page's
Content Security Policy blocks all other scripts and styles, and all requests.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from evalspec.base.foreign_text import inert
from evalspec.reports.html_report.page_data import to_script
from evalspec.reports.terminal import Amount, render_view_terminal
from evalspec.reports.view.parts import View

_STYLES = ("tokens", "layout", "tables", "charts", "sample", "report")
_PLAIN_WIDTH = 100


def render_document(
    title: str,
    view: View,
    overview: Any,
    scripts: Sequence[str],
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> str:
    """Return a whole page.

    `view`: shown as plain text where scripts are off. `overview`: JSON data that the page shows immediately. `scripts`:
    names of the assets with its script, in order. `before`, `after`: further data blocks, before and after the script.
    """
    style, script = read_style(), read_script(scripts)
    return Template(_read_asset("page.html")).substitute(
        title=escape(inert(title)),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        plain=escape(render_view_terminal(view, width=_PLAIN_WIDTH, color=False, amount=Amount.FULL)),
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
    return "".join(_read_asset(f"{name}.css") for name in _STYLES)


@cache
def read_script(scripts: Sequence[str]) -> str:
    """Return scripts in one function, so their names are not global."""
    return f'(() => {{\n"use strict";\n{"".join(_read_asset(f"{name}.js") for name in scripts)}}})();\n'


def _read_asset(name: str) -> str:
    return files("evalspec.reports.html_report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """Return the hash by which the policy allows a script or style."""
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}"
