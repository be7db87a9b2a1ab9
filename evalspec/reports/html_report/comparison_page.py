"""The page of a comparison."""

from evalspec.reports.html_report.document import ReportLinks, render_document
from evalspec.reports.markup.elements import Nodes, el, group
from evalspec.reports.markup.run import draw_comparison, draw_headline, draw_navigation
from evalspec.reports.markup.shown import lay_out_whole
from evalspec.reports.markup.views import draw_about, draw_cell, draw_line_words
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import View

_LIMITS = Limits(other_rows=1000, items=20, extras=12)
_SCRIPTS = ("elements", "keys", "folds")


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
