"""Documents that git keeps beside a manifest: baselines, calibrations of judges, anchors."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import compute_digest
from evalspec.base.output_files import is_stream
from evalspec.model.typed_json import parse_document, read_bytes


def find_kept(manifest_folder: Path, folder: Path, name: str) -> Path:
    """Return the path of a document that git keeps: `<folder>/<name>.json` beside the manifest.

    A name with a path separator, or that ends with .json, is a path relative to the manifest's folder.
    """
    separators = {os.sep, os.altsep or os.sep, "/"}
    if name.endswith(".json") or any(separator in name for separator in separators):
        return manifest_folder / name
    return manifest_folder / folder / f"{name}.json"


def refuse_other_file(path: Path, kind: str, what: str) -> None:
    """Check that a document that git keeps overwrites only another of its kind.

    Raises:
        InvalidInput: the file exists and is of another kind; it may be a report.
    """
    if is_stream(path) or not path.exists():
        return
    try:
        found = parse_document(read_bytes(path), str(path)).get("kind")
    except InvalidInput:
        found = None
    if found != kind:
        fix = "choose another name, or move the file away"
        raise InvalidInput(Problem(f"this file exists and is not {what}", fix, str(path), field="--as"))


def refuse_edited(document: Mapping[str, Any], what: str, fix: str, shown_as: str) -> None:
    """Check that a document is as it was written: its `sha256` is the digest of everything else in it.

    Raises:
        InvalidInput: It was edited, or has no digest.
    """
    sealed = {key: value for key, value in document.items() if key != "sha256"}
    if document.get("sha256") != compute_digest(sealed):
        raise InvalidInput(Problem(f"this {what} was edited: its content does not match its sha256", fix, shown_as))
