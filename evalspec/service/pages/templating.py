"""Templates of the pages. Every text that a template shows is escaped twice: for HTML, and against control characters.

No template marks a text as safe.
"""

from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

from evalspec.base.foreign_text import cut, encodable, visible
from evalspec.base.plural import counted
from evalspec.reports.markup.calls import draw_calls
from evalspec.reports.markup.elements import Element, Nodes, chip, group
from evalspec.reports.markup.run import draw_keys
from evalspec.reports.markup.samples import (
    draw_documents,
    draw_question,
    draw_references,
    draw_sample,
    draw_score,
    draw_tool_calls,
    draw_turns,
)
from evalspec.reports.markup.views import LONGEST, draw_about, draw_line_words, draw_part, draw_words
from evalspec.reports.view.parts import TONES, Role
from evalspec.service.pages.assets import link_asset
from evalspec.service.pages.visits import Visit
from evalspec.service.timestamps import render_minute
from evalspec.verdict.wording import MARKS, UNKNOWN

if TYPE_CHECKING:
    from jinja2 import Environment

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def _show(value: Any) -> Any:
    """Return what a template inserts: harmless text, and a dash for an unknown value."""
    if isinstance(value, Markup | Element):
        return value
    if value is None:
        return UNKNOWN
    if not isinstance(value, str) or value.isprintable():  # much faster than the search
        return value
    return visible(value)


def _clip(text: str, role: Role = Role.NAME) -> str:
    return cut(text, LONGEST[role])


def _exact(text: str) -> Markup:
    """Return the text for the value of a form field, which is sent back unchanged."""
    return Markup(escape(encodable(text)))  # noqa: S704 - it is escaped


@cache
def _load_environment() -> "Environment":
    """Return the environment of the templates. The first page imports jinja2, so the server starts fast."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("evalspec.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"clip": _clip, "exact": _exact, "minute": render_minute}
    environment.globals |= {
        "asset": link_asset,
        "counted": counted,
        "draw_chip": chip,
        "draw_about": draw_about,
        "draw_calls": draw_calls,
        "draw_documents": draw_documents,
        "draw_keys": draw_keys,
        "draw_line": _as_element(draw_line_words),
        "draw_part": _as_element(draw_part),
        "draw_question": _as_element(draw_question),
        "draw_references": draw_references,
        "draw_sample": _as_element(draw_sample),
        "draw_tool_calls": _as_element(draw_tool_calls),
        "draw_turns": draw_turns,
        "draw_score": _as_element(draw_score),
        "draw_words": _as_element(draw_words),
        "grouped": "{:,}".format,
        "marks": {str(status): mark for status, mark in MARKS.items()},
        "tones": {str(status): str(tone) for status, tone in TONES.items()},
    }
    return environment


def _as_element(draw: Callable[..., Nodes]) -> Callable[..., Element]:
    """Return a function for templates, which insert only single elements."""
    return lambda *given: group(draw(*given))


def render_page(template: str, visit: Visit | None, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """Return a page. `visit`: None if it is not known who visits it. `values`: what the template shows."""
    content = _load_environment().get_template(template).render(visit=visit, **values)
    return HTMLResponse(content, status, _HEADERS)
