"""The report for pipelines: one JSON document in a layout that people and `diff` can read.

It is indented, but each metric, threshold, sample and diagnosed query is on one line, so ten thousand samples take ten
thousand lines. The keys are those of `model.Run`. Releases may add keys, but never remove or rename them. A comparison
has the same layout.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import to_builtins

from evalspec.base.errors import ExitCode
from evalspec.base.json_text import fields_of, iterate_lines, render_lines
from evalspec.model import Run
from evalspec.model.comparisons import Comparison
from evalspec.reports.base import Reporter

_ONE_LINE_FROM = 4
"""Depth of a metric or a sample: document, datasets, dataset, metrics or samples, one of them."""
_PARTS_AT_ONCE = 200
_DEEPER_BELOW = frozenset({"diagnosis"})
"""Keys of objects whose lists are one level deeper."""
_DEPTH = -2


def render_json(run: Run) -> str:
    """Return a run as JSON text that has a UTF-8 encoding and ends with a newline."""
    return "".join(iterate_json(run))


def iterate_json(run: Run, more: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the text of `render_json` in parts, which saves memory for large runs. `more`: keys beside the run's."""
    fields = fields_of(run) | {"fingerprint": to_builtins(run.fingerprint)} | dict(more or {})
    parts = iterate_lines(fields, 0, _ONE_LINE_FROM, _DEEPER_BELOW)
    while some := list(islice(parts, _PARTS_AT_ONCE)):
        yield "".join(some)
    yield "\n"


def report_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the document."""
    from evalspec.model.json_schemas import describe_document

    return describe_document(Run)


JSON = Reporter("json", (".json",), lambda run, _exchanges: render_json(run))


def render_comparison_json(comparison: Comparison, exit_code: ExitCode, more: Mapping[str, Any] | None = None) -> str:
    """Return a comparison as JSON text. `more`: keys beside the comparison's."""
    document = {**fields_of(comparison), "exitCode": int(exit_code), **(more or {})}
    return render_lines(document, _DEPTH, _ONE_LINE_FROM) + "\n"
