"""A comparison as one JSON document, in which each metric of a dataset and each sample is on one line."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ExitCode
from evalspec.base.json_text import fields_of, render_lines
from evalspec.model.comparisons import Comparison

_DEPTH = -2
_ONE_LINE_FROM = 4


def render_comparison_json(comparison: Comparison, exit_code: ExitCode, more: Mapping[str, Any] | None = None) -> str:
    """Return a comparison as JSON text. `more`: keys beside the comparison's."""
    document = {**fields_of(comparison), "exitCode": int(exit_code), **(more or {})}
    return render_lines(document, _DEPTH, _ONE_LINE_FROM) + "\n"
