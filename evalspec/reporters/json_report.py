"""The report for pipelines: one JSON document, laid out so that people and `diff` can read it too.

Indented, but with each metric, threshold, sample and diagnosed query on one line: ten thousand samples stay ten
thousand lines.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    return render_lines(report.model_dump(by_alias=True) | dict(more or {}), 0) + "\n"


def render_lines(value: Any, depth: int, one_line_from: int = _ONE_LINE_FROM) -> str:
    """A JSON value indented, but on one line from a depth on, by default that of a metric or a sample."""
    if depth >= one_line_from or not value or not isinstance(value, dict | list | tuple):
        return _one_line(value)
    margin = "  " * (depth + 1)
    if isinstance(value, dict):
        items = [
            f"{_one_line(str(key))}: {render_lines(item, depth + 1, one_line_from + (key in _DEEPER_BELOW))}"
            for key, item in value.items()
        ]
        opening, closing = "{", "}"
    else:
        items = [render_lines(item, depth + 1, one_line_from) for item in value]
        opening, closing = "[", "]"
    lines = f",\n{margin}".join(items)
    return f"{opening}\n{margin}{lines}\n{'  ' * depth}{closing}"


def _one_line(value: Any) -> str:
    """Text as it is, or, where it holds what can steer a terminal or has no UTF-8 form, plain ASCII with escapes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else json.dumps(value, allow_nan=False)


JSON = register(Reporter("json", (".json",), lambda run, _transcripts: render_json(run)))
