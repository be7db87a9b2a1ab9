"""AutoRAG: its two Parquet files, its formulas, and the API of its server.

docs/reference/metrics.md lists how the formulas differ from the standard ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.inputs.datasets.base import CompatFormulas, CorpusForm, DatasetFormat, SearchPreset, list_relevant
from evalspec.inputs.datasets.record_files import probe
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
from evalspec.model.conventions import FlatIds

Groups = Sequence[Sequence[str]]


def is_defined(ranking: Sequence[str], groups: Groups) -> bool:
    """Return whether AutoRAG computes a value for this query. If not, it silently omits the query from the mean."""
    return bool(ranking) and all(ranking) and bool(groups) and all(group and all(group) for group in groups)


def _compute_recall(ranking: Sequence[str], groups: Groups) -> float:
    return sum(bool(set(group) & set(ranking)) for group in groups) / len(groups)


def _compute_precision(ranking: Sequence[str], groups: Groups) -> float:
    """Return distinct hits divided by the number of results. Repeated ids count in the denominator."""
    return len(set(ranking) & _union(groups)) / len(ranking)


def _compute_f1(ranking: Sequence[str], groups: Groups) -> float:
    recall, precision = _compute_recall(ranking, groups), _compute_precision(ranking, groups)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _compute_ndcg(ranking: Sequence[str], groups: Groups) -> float:
    """Return nDCG where every occurrence of an id gains, and every alternative of a group is expected.

    Repeated ids can raise it above 1. Alternatives keep it below 1.
    """
    union = _union(groups)
    gain = sum(1 / math.log2(rank + 1) for rank, document in enumerate(ranking, 1) if document in union)
    expected = min(sum(len(group) for group in groups), len(ranking))
    best = sum(1 / math.log2(rank + 1) for rank in range(1, expected + 1))
    return gain / best


def _compute_rr(ranking: Sequence[str], groups: Groups) -> float:
    """Return the mean reciprocal rank over the groups. Two documents that are both needed cannot reach 1."""
    return sum(next((1 / rank for rank in _ranks(ranking, group)), 0.0) for group in groups) / len(groups)


def _compute_ap(ranking: Sequence[str], groups: Groups) -> float:
    """Return the mean over the groups of the precision at their hits.

    A group is averaged over its hits, not over its relevant documents.
    """
    total = 0.0
    for group in groups:
        ranks = _ranks(ranking, group)
        total += sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0
    return total / len(groups)


def _union(groups: Groups) -> set[str]:
    return {document for group in groups for document in group}


def _ranks(ranking: Sequence[str], group: Sequence[str]) -> list[int]:
    wanted = set(group)
    return [rank for rank, document in enumerate(ranking, 1) if document in wanted]


FORMULAS: Mapping[str, Callable[[Sequence[str], Groups], float]] = {
    "Recall": _compute_recall,
    "Precision": _compute_precision,
    "F1": _compute_f1,
    "nDCG": _compute_ndcg,
    "RR": _compute_rr,
    "AP": _compute_ap,
}
"""AutoRAG's retrieval_recall, _precision, _f1, _ndcg, _mrr and _map. Arguments: ranking after the cut-off, groups. Only
defined if `is_defined`."""


def _follow(
    formula: Callable[[Sequence[str], Groups], float],
) -> Callable[[Sequence[str], Sample, int | None], float | None]:
    def compute(ranking: Sequence[str], sample: Sample, cutoff: int | None) -> float | None:
        groups: Groups | None = sample.groups
        if groups is None:
            groups = [(document,) for document in list_relevant(sample)]
        cut = ranking[:cutoff]
        return formula(cut, groups) if is_defined(cut, groups) else None

    return compute


COMPAT = CompatFormulas(
    {measure: _follow(formula) for measure, formula in FORMULAS.items()},
    undefined="AutoRAG leaves a query that retrieved nothing out of its mean",
    unbounded=frozenset({"nDCG"}),
    flat_ids=FlatIds.ALL,
)
"""nDCG is unbounded, because repeated documents count each time. Flat lists mean what the documentation says."""


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
