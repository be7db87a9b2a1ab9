"""The JSON documents that commands print with --json."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ExitCode
from evalspec.base.json_text import render_lines
from evalspec.cli.streams import emit


def emit_document(document: Mapping[str, Any], exit_code: ExitCode = ExitCode.OK) -> None:
    """Print a document as JSON. `exit_code`: of the command."""
    emit(render_lines({"schemaVersion": 1, "exitCode": int(exit_code), **document}))
