"""The report for a browser: one file that needs no network, no server and no build."""

from evalspec.model import Run
from evalspec.reporters.base import Reporter, StoredExchanges


def render_html(run: Run, exchanges: StoredExchanges) -> str:
    """The whole page as text that is valid UTF-8.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    from evalspec.reporters.html_report.page import (
        render_page,
    )  # with what reads manifests, which no other report needs

    return render_page(run, exchanges)


HTML = Reporter("html", (".html",), render_html)
