"""Traces that OpenTelemetry's collector wrote to files, as OTLP/JSON."""

from pathlib import Path

from evalspec.base.jsonl import read_head
from evalspec.inputs.datasets.base import DatasetFormat, when_used
from evalspec.inputs.datasets.json_document import keys_at

_KEYS = {"resourceSpans", "resourceLogs"}


def _recognises(path: Path, head: bytes) -> bool:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return bool(files) and not _KEYS.isdisjoint(keys_at(read_head(files[0])))
    return not _KEYS.isdisjoint(keys_at(head))


OTLP = DatasetFormat(
    name="otlp",
    summary="traces of production in files of OpenTelemetry's collector",
    read=when_used("evalspec.curation.production", "read_otlp"),
    recognises=_recognises,
)
