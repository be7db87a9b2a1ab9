"""The JSON documents that commands print with --json."""

from collections.abc import Mapping
from typing import Any

from evalspec.cli.streams import emit
from evalspec.errors import ExitCode
from evalspec.json_text import render_lines


def emit_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> None:
    """Print a document as JSON. `exit_code`: of the command."""
    emit(render_lines({"schemaVersion": 1, "exitCode": int(exit_code), **document}))
