"""AutoRAG: its two Parquet files, its formulas, and the API of its server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import CorpusForm, DatasetFormat, SearchPreset
from evalspec.inputs.datasets.record_files import probe
from evalspec.inputs.formats.autorag.compat import COMPAT
from evalspec.inputs.formats.autorag.schema import (
    CORPUS_FILE,
    PASSAGES,
    QA_FILE,
    passages_of,
    read_autorag,
    read_documents,
)
from evalspec.inputs.formats.autorag.writing import list_losses, write_autorag
from evalspec.model import Document, Sample

_MAGIC = b"PAR1"
_OWN_COLUMNS = ("qid", "retrieval_gt", "generation_gt")
_CONTENTS = "retrieval_gt_contents"
"""A column with the texts of the ground truth, with the shape of `retrieval_gt`."""


def _recognises(path: Path, head: bytes) -> bool:
    if head.startswith(_MAGIC) or path.suffix == ".parquet":
        columns = probe(path, head).columns  # none if the file is damaged, which the reader reports
        return not columns or not columns.isdisjoint(_OWN_COLUMNS)
    return (path / QA_FILE).is_file()


def _refresh_metadata(
    sample: Sample, metadata: dict[str, Any], documents: Mapping[str, Document], is_moved: bool
) -> bool:
    relevant = list(sample.qrels or ())
    if PASSAGES in metadata:
        metadata[PASSAGES] = passages_of(relevant, documents)
    if is_moved and _CONTENTS in metadata:
        groups = sample.groups or [(name,) for name in relevant]
        metadata[_CONTENTS] = [[documents[name].text for name in group] for group in groups]
    return False


AUTORAG = DatasetFormat(
    name="autorag",
    summary="AutoRAG's qa.parquet and corpus.parquet: AND/OR ground truth, several answers, passages",
    read=read_autorag,
    recognises=_recognises,
    list_losses=list_losses,
    write=write_autorag,
    has_corpus=True,
    corpus=CorpusForm(
        names=(CORPUS_FILE,),
        suffixes=(".parquet",),
        read=read_documents,
        find_lines=lambda _path, count: [*range(1, count + 1)],
    ),
    refresh_metadata=_refresh_metadata,
    compat=COMPAT,
    # The API takes only the query. The trial of the server determines the number of passages.
    preset=SearchPreset(
        {
            "path": "/v1/retrieve",
            "request": {"query": "{{query}}"},
            "response": {
                "ids": "$.passages[*].doc_id",
                "scores": "$.passages[*].score",
                "texts": "$.passages[*].content",
            },
        }
    ),
)
