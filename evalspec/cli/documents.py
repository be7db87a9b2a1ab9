"""The JSON documents that commands print with --json."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ExitCode, Problem
from evalspec.base.json_text import render_lines
from evalspec.cli.streams import emit


def emit_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> None:
    """Print a document as JSON. `exit_code`: of the command."""
    emit(render_document(document, exit_code))


def render_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> str:
    """Return a document as JSON. `exit_code`: of the command."""
    return render_lines({"schemaVersion": 1, "exitCode": int(exit_code), **document})


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return a problem as a JSON object."""
    return {
        "file": problem.file or None,
        "line": problem.line,
        "field": problem.field or None,
        "message": problem.message,
        "fix": problem.fix or None,
    }
