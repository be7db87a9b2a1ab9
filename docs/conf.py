"""The documentation site, built by Sphinx from the Markdown in this folder: `make docs`.

Nothing is downloaded: no fonts, no scripts, no inventories of other sites.
"""

import os
import re
import sys
from pathlib import Path

from pygments.lexers.data import JsonLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from gallery import FOLDER, write_gallery  # noqa: E402 - beside this file
from generated_pages import PAGES, PENDING, find_metric, list_metrics, render_metric  # noqa: E402 - beside this file

import evalspec  # noqa: E402

REPOSITORY = os.environ.get("DOCS_REPOSITORY", "").rstrip("/")
"""Where links to files outside of docs lead, such as https://github.com/OWNER/evalspec/blob/main.

If it is not set, they lead to copies of the files, and links to folders are plain text.
"""
METRICS = DOCS / "reference" / "generated" / "metrics"
"""The folder of the pages of the metrics, whose texts are beside the code."""

TEXTS = DOCS.parent / "evalspec" / "scoring" / "metrics"

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_NAME = re.compile(r"(?<![\[`])`([\w.]+)`(?![\]`])")
_ACCESSIBLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results"></div>',
    '<th class="head"><p></p></th>': '<td class="head"></td>',
}
"""What scrolls sideways is reached by the keyboard, landmarks have names, and no heading of a column is empty."""

project = "evalspec"
version = release = evalspec.__version__
extensions = ["myst_parser"]
nitpicky = True
myst_heading_anchors = 6
html_theme = "furo"
html_title = "evalspec"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app: Sphinx) -> None:
    """Register what this site adds to Sphinx."""
    app.add_lexer("jsonl", JsonLexer)
    app.add_lexer("csv", TextLexer)
    app.connect("builder-inited", _prepare)
    app.connect("env-get-outdated", lambda *_: list(PAGES))
    app.connect("source-read", _generate)
    app.connect("source-read", _lead_outside)
    app.connect("build-finished", _make_accessible)


def _prepare(app: Sphinx) -> None:
    """Write the pages of the metrics, which Git ignores, and the reports of the gallery."""
    if Path(app.srcdir) == DOCS:
        write_gallery(Path(app.outdir))
        METRICS.mkdir(exist_ok=True)
        pages = {METRICS / f"{metric.name}.md": render_metric(metric) for metric in list_metrics()}
        for path in {*METRICS.iterdir()} - pages.keys():
            path.unlink()
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")


def _generate(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put what the code says into a generated page, and link the names of metrics to their pages."""
    if page in PAGES:
        head, found, tail = source[0].partition(PENDING)
        if not found:
            raise ValueError(f"docs/{page}.md has no line with {PENDING!r}, which generated text replaces")
        source[0] = head + PAGES[page]() + tail
    if page == "reference/metrics":
        names = {metric.name for metric in list_metrics()}
        source[0] = _NAME.sub(
            lambda one: f"[{one[0]}](generated/metrics/{one[1]}.md)" if one[1] in names else one[0], source[0]
        )


def _lead_outside(_app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to files outside of docs lead to the repository, or to copies. Others stay, and Sphinx checks them."""

    def lead(link: re.Match[str]) -> str:
        target = (DOCS / page).parent.joinpath(link["path"]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        if target.parent == TEXTS:
            place = os.path.relpath(METRICS / f"{find_metric(link['anchor'])}.md", (DOCS / page).parent)
            return f"[{link['text']}]({place})"
        if REPOSITORY:
            place = f"{REPOSITORY}/{target.relative_to(DOCS.parent).as_posix()}{link['anchor'] or ''}"
            return f"[{link['text']}]({place})"
        return f"[{link['text']}](path:{link['path']})" if target.is_file() else link["text"]

    source[0] = _LINK.sub(lead, source[0])


def _make_accessible(app: Sphinx, failure: Exception | None) -> None:
    """Complete the pages that the theme wrote."""
    pages = [] if failure else [page for page in app.outdir.glob("**/*.html") if page.parent.name != FOLDER]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for plain, accessible in _ACCESSIBLE.items():
            text = text.replace(plain, accessible)
        page.write_text(text, encoding="utf-8")
