"""The report for browsers: one file that needs no network, server or build step."""

from evalspec.model import Run
from evalspec.reports.base import Reporter, StoredExchanges


def render_html(run: Run, exchanges: StoredExchanges) -> str:
    """Return the page as text that can be encoded as UTF-8.

    Raises:
        ValueError: The texts are not in the order of the samples.
    """
    # Imported here, because it imports the manifest reader, which no other report needs.
    from evalspec.reports.html_report.page import render_page

    return render_page(run, exchanges)


HTML = Reporter("html", (".html",), render_html)
