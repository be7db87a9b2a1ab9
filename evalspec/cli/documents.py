"""What several commands print: JSON documents with --json, and what was checked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from evalspec.base.errors import ExitCode, Problem
from evalspec.base.foreign_text import inert
from evalspec.cli.streams import emit, emit_line

if TYPE_CHECKING:
    from evalspec.model.checkups import Checkup


def emit_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> None:
    """Print a document as JSON. `exit_code`: of the command."""
    emit(render_document(document, exit_code))


def render_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> str:
    """Return a document as JSON. `exit_code`: of the command."""
    from evalspec.base.json_text import render_lines

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


def emit_checkup(checkup: "Checkup", as_json: bool) -> ExitCode:
    """Print what was checked, and return the exit code."""
    if as_json:
        from evalspec.base.json_text import render_lines

        emit(render_lines(to_builtins(checkup)))
        return ExitCode(checkup.exit_code)
    for finding in checkup.findings:
        emit_line(f"{finding.status}: {finding.name}: {inert(finding.message)}")
        if finding.fix:
            emit_line(f"  fix: {inert(finding.fix)}")
    return ExitCode(checkup.exit_code)
