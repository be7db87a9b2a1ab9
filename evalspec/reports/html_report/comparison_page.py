"""The page of a comparison."""

from msgspec import to_builtins

from evalspec.reports.html_report.document import render_document
from evalspec.reports.html_report.page_data import PageData
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import View

_LIMITS = Limits(other_rows=1000, items=20, extras=12)
_LONGEST_TEXT = 10_000
_SCRIPTS = ("elements", "numbers", "charts", "keys", "view", "comparison")


def render_view_html(view: View, title: str) -> str:
    """Return the view of a comparison as a page, as text that can be encoded as UTF-8. Long texts are cut."""
    fitted = fit_view(view, _LIMITS)
    return render_document(title, fitted, PageData(_LONGEST_TEXT).show(to_builtins(fitted)), _SCRIPTS)
