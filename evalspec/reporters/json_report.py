"""The report for pipelines: one JSON document, laid out so that people and `diff` can read it too.

Indented, but with each metric, threshold, sample and diagnosed query on one line: ten thousand samples stay ten
thousand lines.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalspec.json_text import render_lines
from evalspec.records import Run
from evalspec.reporters.base import Reporter, register

if TYPE_CHECKING:
    from evalspec.reporters.document_parts import ReportDocument

_ONE_LINE_FROM = 4
"""Depth of a metric or a sample: document, datasets, dataset, metrics or samples, one of them."""
_DEEPER_BELOW = frozenset({"diagnosis"})
"""Keys below which the lists of things stand one level deeper."""


def render_json(run: Run, more: Mapping[str, Any] | None = None) -> str:
    """The document of `reporters.document` as text that is valid UTF-8 and ends with a newline.

    `more`: further keys.
    """
    from evalspec.reporters.document import build_report  # pydantic models, built when the first report is

    return render_document(build_report(run), more)


def render_document(report: "ReportDocument", more: Mapping[str, Any] | None = None) -> str:
    """The same of a document that is built already."""
    return render_lines(report.model_dump(by_alias=True) | dict(more or {}), 0, _ONE_LINE_FROM, _DEEPER_BELOW) + "\n"


JSON = register(Reporter("json", (".json",), lambda run, _transcripts: render_json(run)))
