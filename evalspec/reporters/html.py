"""The report for a browser: one file that needs no network, no server and no build."""

from evalspec.records import Run
from evalspec.reporters.base import Reporter, Transcripts


def render_html(run: Run, transcripts: Transcripts) -> str:
    """The whole page as text that is valid UTF-8.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    from evalspec.reporters.html_report.page import (
        render_page,
    )  # with what reads manifests, which no other report needs

    return render_page(run, transcripts)


HTML = Reporter("html", (".html",), render_html)
