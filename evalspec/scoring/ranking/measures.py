"""Measures of one ranking with graded judgements, as defined by trec_eval. Pure functions without I/O.

A measure depends only on the ranks and grades of the judged documents in the ranking, and on the grades of all judged
documents. `judge_ranking` extracts these once for all measures.

Conventions of trec_eval:

- The gain of a document is its grade, and its discount log2(rank + 1).
- Precision at k divides by k even if fewer documents were retrieved.
- Average precision divides by the number of all relevant documents.
- A negative grade means unjudged.

F-beta combines precision and recall at the same cut-off. trec_eval has it only without a cut-off, and given beta².

AND/OR ground truth consists of groups: ((a, b), (c,)) means (a or b) and c. Measures count groups, not documents. A
group is found at the rank of its first document; its further documents find nothing. A document in two groups finds
both, but the j-th group counts as found at rank j or later, so that measures do not exceed 1, and a perfect ranking
reaches 1. Precision, Success and Judged count documents; any document of any group is relevant.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

Groups = Sequence[Sequence[str]]


class JudgedHit(NamedTuple):
    """One retrieved and judged document: its rank from 1, and its grade (0 = judged not relevant)."""

    rank: int
    document: str
    grade: int


class JudgedRanking(Struct, frozen=True):
    """A ranking reduced to the input of the measures.

    `retrieved`: number of distinct documents within the cut-off. `duplicates`: number of repeated ids dropped from the
    whole ranking. `hits`: the judged documents within the cut-off, best rank first. `relevant`: number of relevant
    documents (or groups), retrieved or not. `ideal`: all positive grades, highest first. `found_ranks`: the ranks of
    the relevant documents (or groups) found, best first. `grouped`: whether they are groups.
    """

    cutoff: int | None
    min_grade: int
    retrieved: int
    duplicates: int
    hits: tuple[JudgedHit, ...]
    relevant: int
    ideal: tuple[int, ...]
    found_ranks: tuple[int, ...]
    grouped: bool = False

    @property
    def relevant_hits(self) -> list[JudgedHit]:
        """The relevant documents within the cut-off, best rank first."""
        return [hit for hit in self.hits if hit.grade >= self.min_grade]

    def cut(self, cutoff: int | None) -> "JudgedRanking":
        """Return what is left of a whole ranking at a cut-off; None: all of it."""
        if cutoff is None:
            return self
        hits = tuple(hit for hit in self.hits if hit.rank <= cutoff)
        found = tuple(rank for rank in self.found_ranks if rank <= cutoff)
        return replace(self, cutoff=cutoff, retrieved=min(self.retrieved, cutoff), hits=hits, found_ranks=found)


def rank_documents(scores: Mapping[str, float], query: str) -> list[str]:
    """Return the documents by score and then by document id, both descending, as in trec_eval.

    Raises:
        ValueError: a score is NaN. The message names the query.
    """
    refuse_nan(scores.values(), query)
    return sorted(scores, key=lambda document: (scores[document], document), reverse=True)


def refuse_nan(scores: Iterable[float], query: str) -> None:
    """Raise a ValueError if a score of a query is NaN."""
    if any(map(math.isnan, scores)):
        raise ValueError(f"a score of query '{query}' is NaN, which cannot be ranked")


def judge_ranking(
    ranking: Sequence[str],
    qrels: Mapping[str, int],
    cutoff: int | None = None,
    min_grade: int = 1,
    groups: Groups | None = None,
) -> JudgedRanking:
    """Return a ranking, best first, with the judgements {document: grade} of its documents.

    A repeated document counts at its first rank; repetitions are dropped before the cut. Grades of `min_grade` and more
    are relevant. As in trec_eval, `min_grade` does not change the gains of nDCG. `groups`: AND/OR ground truth over the
    same documents, for which grades have no effect.
    """
    distinct = dict.fromkeys(ranking)
    judged = ((rank, document) for rank, document in enumerate(distinct, 1) if qrels.get(document, -1) >= 0)
    hits = tuple(JudgedHit(rank, document, qrels[document]) for rank, document in judged)
    if groups is None:
        relevant = sum(grade >= min_grade for grade in qrels.values())
        ideal = tuple(sorted((grade for grade in qrels.values() if grade > 0), reverse=True))
        found = tuple(hit.rank for hit in hits if hit.grade >= min_grade)
    else:
        relevant, ideal = len(groups), (1,) * len(groups)
        found = _find_groups({hit.document: hit.rank for hit in hits}, groups)
    retrieved, grouped = len(distinct), groups is not None
    duplicates = len(ranking) - retrieved
    return JudgedRanking(None, min_grade, retrieved, duplicates, hits, relevant, ideal, found, grouped).cut(cutoff)


def _find_groups(ranks: Mapping[str, int], groups: Groups) -> tuple[int, ...]:
    """Return the rank of the first document of each group that is found, in order. The j-th is at least j."""
    first = sorted(
        min(ranks[document] for document in group if document in ranks) for group in groups if ranks.keys() & group
    )
    return tuple(max(rank, place) for place, rank in enumerate(first, 1))


def compute_precision(judged: JudgedRanking) -> float:
    """Return relevant documents within the cut-off over the cut-off, or over all retrieved without a cut-off."""
    return _ratio(len(judged.relevant_hits), judged.cutoff or judged.retrieved)


def compute_recall(judged: JudgedRanking) -> float:
    """Return relevant documents (or groups) found within the cut-off, over all of them."""
    return _ratio(len(judged.found_ranks), judged.relevant)


def compute_f(judged: JudgedRanking, beta: float) -> float:
    """Return (1 + beta²) P R / (beta² P + R) (van Rijsbergen): recall weighs beta times as much as precision."""
    precision, recall = compute_precision(judged), compute_recall(judged)
    weight = beta * beta
    return _ratio((1 + weight) * precision * recall, weight * precision + recall)


def compute_ndcg(judged: JudgedRanking) -> float:
    """Return the sum of grade / log2(rank + 1) over that of the best possible ranking (Järvelin and Kekäläinen)."""
    gains = [(rank, 1) for rank in judged.found_ranks] if judged.grouped else [(h.rank, h.grade) for h in judged.hits]
    return _ratio(_add_discounted(gains), _add_discounted(enumerate(judged.ideal[: judged.cutoff], 1)))


def compute_average_precision(judged: JudgedRanking) -> float:
    """Return the sum of precision at the rank of each relevant document within the cut-off, over all relevant ones."""
    return average_precisions(judged.found_ranks, judged.relevant)


def average_precisions(ranks: Sequence[int], relevant: int) -> float:
    """Return the sum of precision at each of the ranks, in ascending order from 1, over the number of relevant ones."""
    return _ratio(_add(found / rank for found, rank in enumerate(ranks, 1)), relevant)


def compute_reciprocal_rank(judged: JudgedRanking) -> float:
    """Return 1 over the rank of the first relevant document; 0 if there is none within the cut-off."""
    return 1 / judged.found_ranks[0] if judged.found_ranks else 0.0


def compute_r_precision(judged: JudgedRanking) -> float:
    """Return precision at R, the number of relevant documents (or groups)."""
    return _ratio(sum(rank <= judged.relevant for rank in judged.found_ranks), judged.relevant)


def compute_success(judged: JudgedRanking) -> float:
    """Return 1 if at least one relevant document is within the cut-off, else 0."""
    return float(bool(judged.found_ranks))


def compute_judged(judged: JudgedRanking) -> float:
    """Return judged over retrieved documents within the cut-off, which shows how reliable other measures are."""
    return _ratio(len(judged.hits), judged.retrieved)


def _add_discounted(gains: Iterable[tuple[int, int]]) -> float:
    """Return the sum of grade / log2(rank + 1) over pairs of rank and grade, from left to right as in `_add`."""
    total = 0.0
    for rank, grade in gains:
        total += grade / math.log2(rank + 1)
    return total


def _add(values: Iterable[float]) -> float:
    """Return the sum from left to right, as in trec_eval: the `sum` of Python 3.12 and later rounds in another way."""
    return reduce(operator.add, values, 0.0)


def _ratio(part: float, whole: float) -> float:
    """Return the ratio, or 0 for a denominator of 0, as in trec_eval."""
    return part / whole if whole else 0.0


MEASURES: Mapping[str, Callable[[JudgedRanking], float]] = {
    "Precision": compute_precision,
    "Recall": compute_recall,
    "F1": partial(compute_f, beta=1.0),
    "F2": partial(compute_f, beta=2.0),
    "nDCG": compute_ndcg,
    "AP": compute_average_precision,
    "RR": compute_reciprocal_rank,
    "Rprec": compute_r_precision,
    "Success": compute_success,
    "Judged": compute_judged,
}

_F_BETA = r"(?i)^F(\d+(?:\.\d+)?)$"


def find_measure(name: str) -> Callable[[JudgedRanking], float] | None:
    """Return the measure of a name, such as `nDCG` or `F0.5` with any beta; None if there is none."""
    if name in MEASURES:
        return MEASURES[name]
    beta = parse_beta(name)
    return partial(compute_f, beta=beta) if beta else None


def parse_beta(name: str) -> float | None:
    """Return the beta of a name such as `F2` or `F0.5`; None for other names, and if beta is 0."""
    match = re.match(_F_BETA, name)
    return float(match[1]) or None if match else None
