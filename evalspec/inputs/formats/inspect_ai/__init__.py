"""Inspect: the logs of its evaluations, as `.eval` (a zip file) and as `.json`."""

from pathlib import Path

from evalspec.inputs.datasets.base import when_used
from evalspec.inputs.datasets.json_document import keys_at
from evalspec.inputs.logs import ForeignLog

_KEYS = {"version", "status", "eval"}
"""With which a log begins."""


def _recognises(path: Path, head: bytes) -> bool:
    is_archive = head.startswith(b"PK") and path.suffix.casefold() == ".eval"
    return is_archive or keys_at(head) >= _KEYS


INSPECT = ForeignLog(
    "inspect", "Inspect log", _recognises, when_used("evalspec.inputs.formats.inspect_ai.reading", "read_inspect")
)
