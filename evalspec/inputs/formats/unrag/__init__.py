"""Unrag: its evaluation datasets, its formulas, the settings of single queries, and its reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import (
    CorpusForm,
    DatasetFormat,
    ForeignReport,
    ReadingNotes,
    Source,
    when_used,
)
from evalspec.inputs.datasets.json_document import keys_at, read_json_document
from evalspec.inputs.formats.unrag.compat import AS_LISTED, COMPAT, OWN_KEY
from evalspec.inputs.formats.unrag.report import UnragReport, build_run
from evalspec.model import Document, Sample

_read = when_used("evalspec.inputs.formats.unrag.reading", "read_unrag")


def _recognises(_path: Path, head: bytes) -> bool:
    keys = keys_at(head)
    return bool(keys & {"queries", "documents"}) and ("defaults" in keys or b'"sourceId' in head)


def _read_documents(path: Path, shown_as: str, notes: ReadingNotes) -> Sequence[Document] | None:
    """Return the documents of a dataset. Drops warnings, because they are about its queries."""
    read = ReadingNotes(notes.problems)
    for _ in _read(Source(path, shown_as), read):
        pass
    return read.documents


def _find_lines(path: Path, count: int) -> list[int]:
    document = read_json_document(path, "", [])
    return [document.line(("documents", index)) if document else 1 for index in range(count)]


def _refresh_metadata(
    _sample: Sample, metadata: dict[str, Any], _documents: Mapping[str, Document], is_moved: bool
) -> bool:
    """Remove the original list of relevant ids, because a new corpus has other ids."""
    own = metadata.get(OWN_KEY)
    if not is_moved or not isinstance(own, dict) or AS_LISTED not in own:
        return False
    metadata[OWN_KEY] = {key: value for key, value in own.items() if key != AS_LISTED}
    return True


def _is_report(document: Mapping[str, Any]) -> bool:
    results = document.get("results")
    return isinstance(results, dict) and "queries" in results and "config" in document


UNRAG = DatasetFormat(
    name="unrag",
    summary="Unrag's evaluation dataset, version 1: one JSON document",
    read=_read,
    recognises=_recognises,
    list_losses=when_used("evalspec.inputs.formats.unrag.writing", "list_losses"),
    write=when_used("evalspec.inputs.formats.unrag.writing", "write_unrag"),
    corpus=CorpusForm((), (".json",), _read_documents, _find_lines),
    refresh_metadata=_refresh_metadata,
    columns=("version", "id", "defaults", "documents", "queries"),
    settings_key=OWN_KEY,
    compat=COMPAT,
    report=ForeignReport("Unrag report", _is_report, UnragReport, build_run),
)
