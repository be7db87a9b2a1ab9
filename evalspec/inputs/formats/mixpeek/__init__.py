"""Mixpeek: its ground truth, and the API of its retrievers.

The ground truth has queries with their relevant documents and, if graded, a score from 0 to 5 for each. The file is a
JSON document of Mixpeek's API, the list of its queries alone, or JSON Lines with one query per line.
"""

import re
from functools import partial
from pathlib import Path

from evalspec.inputs.datasets.base import DatasetFormat, SearchPreset, when_used
from evalspec.inputs.datasets.json_document import keys_at
from evalspec.inputs.datasets.query_input import QueryInputForm

INPUT = QueryInputForm(question_keys=("text", "query"), metadata_key="mixpeek")
"""The first field is from Mixpeek's SDK documentation, the second from its guide."""

DOCUMENT_MARKS = frozenset({"queries", "dataset_name", "dataset_id"})
QUERY_MARKS = frozenset({"query_id", "query_input", "relevant_documents"})


def compute_overall(precision_mean: float, recall_mean: float, beta: float) -> float:
    """Return F-beta of the mean precision and the mean recall, as in `overall_metrics` and `metrics_by_k`.

    evalspec's own F1 and F2 are means of each query's value, which differ. Mixpeek's guide to retriever evaluations
    calls F a harmonic mean without saying of what. The F1 and F2 of its example response are those of the means: P 0.90
    and R 0.18 at k = 1 give F1 0.30 and F2 0.21. Returns 0 if both means are 0.
    """
    weight = beta * beta
    total = weight * precision_mean + recall_mean
    return (1 + weight) * precision_mean * recall_mean / total if total else 0.0


_EMPTY = re.compile(rb'"queries"\s*:\s*\[\s*\]')


def _recognises(_path: Path, head: bytes) -> bool:
    keys = keys_at(head)
    if "queries" in keys and "defaults" not in keys and _EMPTY.search(head):
        return True
    return any(len(keys_at(head, place) & QUERY_MARKS) >= 2 for place in ((), (0,), ("queries", 0)))


MIXPEEK = DatasetFormat(
    name="mixpeek",
    summary="Mixpeek's ground truth: one JSON document, or one query a line",
    read=when_used("evalspec.inputs.formats.mixpeek.reading", "read_mixpeek"),
    recognises=_recognises,
    list_losses=when_used("evalspec.inputs.formats.mixpeek.writing", "list_losses"),
    write=when_used("evalspec.inputs.formats.mixpeek.writing", "write_mixpeek"),
    columns=QUERY_MARKS,
    query_input=INPUT,
    of_means={"F1": partial(compute_overall, beta=1.0), "F2": partial(compute_overall, beta=2.0)},
    # The keys of `inputs` depend on the input schema of the retriever. `query` and `top_k` are the usual ones.
    # The field with the text of a document depends on the collection.
    preset=SearchPreset(
        {
            "request": {
                "inputs": {"query": "{{query}}", "top_k": "{{topK}}"},
                "pagination": {"method": "offset", "page_size": "{{topK}}", "page_number": 1},
            },
            "response": {"ids": "$.documents[*].document_id", "scores": "$.documents[*].score"},
        },
        needed_path="the path of the retriever, as in /v1/retrievers/RETRIEVER_ID/execute",
    ),
)
