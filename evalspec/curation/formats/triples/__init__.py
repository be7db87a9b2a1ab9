"""Gold-set triples in YAML: a question, the block or blocks that answer it, and the right answer."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.base.jsonl import read_head
from evalspec.curation.gold.layout import BLOCKS_KEY, HELD_OUT, SET_FILE, SLICES
from evalspec.inputs.datasets.base import DatasetFormat, DatasetParts, when_used
from evalspec.inputs.datasets.json_document import keys_at
from evalspec.model import Document, Sample

_KEY_OF_A_TRIPLE = re.compile(
    rb"""^[ \t]*+(?:-[ \t]++)*+\{?[ \t]*+["']?(?:question|expected_block)["']?[ \t]*:""", re.M
)


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file contains `expected_block`, and a line that starts with a required key.

    JSON must have both required keys, `question` and `expected_block`. A folder is a gold set, or has such files.
    """
    if path.is_dir():
        return (path / SET_FILE).is_file() or any(_recognises(file, read_head(file)) for file in _list_yaml(path)[:1])
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return any({"question", "expected_block"} <= keys_at(head, place) for place in ((0,), ("triples", 0)))
    return b"expected_block" in head and _KEY_OF_A_TRIPLE.search(head) is not None


def _list_yaml(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.y*ml")) if path.is_file()]


def _refresh_metadata(
    _sample: Sample, metadata: dict[str, Any], _documents: Mapping[str, Document], is_moved: bool
) -> bool:
    """Remove the block of a re-chunked passage."""
    return is_moved and metadata.pop(BLOCKS_KEY, None) is not None


TRIPLES = DatasetFormat(
    name="triples",
    aliases=("gold",),
    takes_replies=True,
    summary="gold-set triples in YAML: question, expected_block, expected_answer",
    read=when_used("evalspec.curation.formats.triples.triple_lists", "read_triples"),
    has_corpus=True,
    recognises=_recognises,
    list_losses=when_used("evalspec.curation.formats.triples.triple_lists", "list_losses"),
    write=when_used("evalspec.curation.formats.triples.triple_lists", "write_triples"),
    refresh_metadata=_refresh_metadata,
    unrelated=(SLICES, HELD_OUT),
    parts=DatasetParts(
        recognises=lambda folder: (folder / SET_FILE).is_file(),
        open=when_used("evalspec.curation.gold.slices", "open_part"),
        log_use=when_used("evalspec.curation.gold.slices", "log_use"),
    ),
)
