"""Assemble the page from fixed markup, style and script, and the data of the run.

Everything from datasets, agents and judges is in data blocks. The script inserts it only as text nodes. The page's
Content Security Policy blocks all other scripts and styles, and all requests.
"""

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import chain
from string import Template

from evalspec.foreign_text import inert
from evalspec.model import Run
from evalspec.reporters.base import StoredExchanges
from evalspec.reporters.html_report.overview import describe_run
from evalspec.reporters.html_report.page_data import Chunks, PageData, pack, to_json, to_script
from evalspec.reporters.html_report.samples import describe_samples
from evalspec.reporters.html_report.texts import pack_texts
from evalspec.reporters.terminal import Amount, render_view_terminal
from evalspec.reporters.view.run import build_view

MOST_BYTES = 24_000_000
"""Maximum size of the page before texts are cut. Browsers open it immediately, and CI artifacts can store it."""

_LEAST_ROOM = 1_000_000
_LONGEST_NAME = 2_000
_PLAIN_WIDTH = 100
_STYLES = ("tokens", "layout", "tables", "charts", "sample")
_SCRIPTS = (
    "elements",
    "numbers",
    "payload",
    "charts",
    "overview",
    "view",
    "evidence",
    "sample",
    "dialog",
    "table",
    "page",
)


def render_page(run: Run, exchanges: StoredExchanges) -> str:
    """Return the whole page as text that can be encoded as UTF-8.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    foreign = PageData(_LONGEST_NAME)
    columns = pack(to_json([describe_samples(dataset, foreign) for dataset in run.datasets]))
    view = build_view(run)
    overview = foreign.show(describe_run(run, view))
    style, script = _read_style(), _read_script()
    fixed = len(columns) + len(to_script(overview)) + len(style) + len(script)
    texts = pack_texts(run, exchanges, max(MOST_BYTES - fixed, _LEAST_ROOM))
    overview |= {
        "chunks": {"asked": texts.asked.firsts, "rest": texts.rest.firsts},
        "cut": {"texts": texts.cut, "longest": texts.longest} if texts.cut else None,
    }
    name = overview["agent"] or "evalspec"
    return Template(_read_asset("page.html")).substitute(
        title=escape(inert(f"{name}: {run.verdict.replace('_', ' ')}")),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        plain=escape(render_view_terminal(view, width=_PLAIN_WIDTH, color=False, amount=Amount.FULL)),
        overview=to_script(overview),
        columns=columns,
        chunks="\n".join(chain(_blocks("asked", texts.asked), _blocks("rest", texts.rest))),
    )


def _blocks(kind: str, chunks: Chunks) -> Iterator[str]:
    """Yield a data block per piece, of a type that browsers do not execute."""
    for number, piece in enumerate(chunks.pieces):
        yield f'<script type="text/plain" id="{kind}-{number}">{piece}</script>'


def _read_asset(name: str) -> str:
    return files("evalspec.reporters.html_report").joinpath("assets", name).read_text(encoding="utf-8")


def _read_style() -> str:
    return "".join(_read_asset(f"{name}.css") for name in _STYLES)


def _read_script() -> str:
    """Return all scripts in one function, so their names are not global."""
    return f'(() => {{\n"use strict";\n{"".join(_read_asset(f"{name}.js") for name in _SCRIPTS)}}})();\n'


def _hash(source: str) -> str:
    """Return the hash by which the policy allows a script or style."""
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}"
