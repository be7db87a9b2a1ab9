"""Measures of one ranking against graded judgements, as trec_eval defines them. Pure: no exchange, no score, no I/O.

A measure depends only on the ranks and grades of the judged documents that were retrieved, and on the grades of those
that could have been: `judge_ranking` reduces a ranking to these once, and each measure reads them.

Conventions of trec_eval: the gain of a document is its grade, its discount log2(rank + 1); precision at k divides by k
however few were retrieved; average precision divides by all relevant documents; a negative grade means unjudged.
F-beta, which trec_eval has without a cut-off and under beta², is made of precision and recall at the same cut-off.

AND/OR ground truth, groups ((a, b), (c,)) that mean (a or b) and c, counts groups and not documents: a group is found
at the rank of its first document, further documents of it find nothing. A document of two groups finds both, but the
j-th group counts as found at rank j at the best, so that no measure exceeds 1 and a perfect ranking reaches it.
Precision, Success and Judged stay about documents, any document of any group being relevant.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

Groups = Sequence[Sequence[str]]


class JudgedHit(NamedTuple):
    """One retrieved document that is judged: its rank from 1, and its grade (0 = judged not relevant)."""

    rank: int
    document: str
    grade: int


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """A ranking reduced to what the measures need.

    `retrieved`: distinct documents within the cut-off. `duplicates`: repeated ids that were dropped from the whole
    ranking. `hits`: the judged ones within the cut-off, best rank first. `relevant`: how many documents (or groups) are
    to be found, retrieved or not. `ideal`: all positive grades, highest first. `found_ranks`: where the first, second …
    of what is to be found was found. `grouped`: whether that is groups.
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


def judge_ranking(
    ranking: Sequence[str],
    qrels: Mapping[str, int],
    cutoff: int | None = None,
    min_grade: int = 1,
    groups: Groups | None = None,
) -> JudgedRanking:
    """Look up the documents of a ranking, best first, in the judgements {document: grade}.

    A repeated document keeps its first place and the others move up, before the cut. Grades of `min_grade` and more
    are relevant; as in trec_eval it does not touch the gains of nDCG. `groups`: AND/OR ground truth over the same
    documents; grades play no part then.
    """
    distinct = dict.fromkeys(ranking)
    top = list(distinct)[:cutoff]
    judged = ((rank, document) for rank, document in enumerate(top, 1) if qrels.get(document, -1) >= 0)
    hits = tuple(JudgedHit(rank, document, qrels[document]) for rank, document in judged)
    if groups is None:
        relevant = sum(grade >= min_grade for grade in qrels.values())
        ideal = tuple(sorted((grade for grade in qrels.values() if grade > 0), reverse=True))
        found = tuple(hit.rank for hit in hits if hit.grade >= min_grade)
    else:
        relevant, ideal = len(groups), (1,) * len(groups)
        found = _find_groups({hit.document: hit.rank for hit in hits}, groups, cutoff)
    duplicates = len(ranking) - len(distinct)
    return JudgedRanking(cutoff, min_grade, len(top), duplicates, hits, relevant, ideal, found, groups is not None)


def _find_groups(ranks: Mapping[str, int], groups: Groups, cutoff: int | None) -> tuple[int, ...]:
    """The rank of the first document of each group that has one, in order, the j-th at rank j at the best."""
    first = sorted(
        min(ranks[document] for document in group if document in ranks) for group in groups if ranks.keys() & group
    )
    return tuple(max(rank, place) for place, rank in enumerate(first, 1) if cutoff is None or place <= cutoff)


def compute_precision(judged: JudgedRanking) -> float:
    """Relevant documents within the cut-off, over the cut-off; uncut over the documents retrieved."""
    return _ratio(len(judged.relevant_hits), judged.cutoff or judged.retrieved)


def compute_recall(judged: JudgedRanking) -> float:
    """Relevant documents (or groups) found within the cut-off, over all of them."""
    return _ratio(len(judged.found_ranks), judged.relevant)


def compute_f(judged: JudgedRanking, beta: float) -> float:
    """(1 + beta²) P R / (beta² P + R) of precision and recall (van Rijsbergen): recall weighs beta times as much."""
    precision, recall = compute_precision(judged), compute_recall(judged)
    weight = beta * beta
    return _ratio((1 + weight) * precision * recall, weight * precision + recall)


def compute_ndcg(judged: JudgedRanking) -> float:
    """Sum of grade / log2(rank + 1), over the same sum for the best possible ranking (Järvelin and Kekäläinen)."""
    gains = [(rank, 1) for rank in judged.found_ranks] if judged.grouped else [(h.rank, h.grade) for h in judged.hits]
    gain = sum(grade / math.log2(rank + 1) for rank, grade in gains)
    best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(judged.ideal[: judged.cutoff], 1))
    return _ratio(gain, best)


def compute_average_precision(judged: JudgedRanking) -> float:
    """Precision at the rank of each relevant document within the cut-off, summed, over all relevant documents."""
    precisions = (found / rank for found, rank in enumerate(judged.found_ranks, 1))
    return _ratio(sum(precisions), judged.relevant)


def compute_reciprocal_rank(judged: JudgedRanking) -> float:
    """One over the rank of the first relevant document, 0 where there is none within the cut-off."""
    return 1 / judged.found_ranks[0] if judged.found_ranks else 0.0


def compute_r_precision(judged: JudgedRanking) -> float:
    """Precision at R, where R is how many documents (or groups) are relevant."""
    return _ratio(sum(rank <= judged.relevant for rank in judged.found_ranks), judged.relevant)


def compute_success(judged: JudgedRanking) -> float:
    """1 where at least one relevant document is within the cut-off."""
    return float(bool(judged.found_ranks))


def compute_judged(judged: JudgedRanking) -> float:
    """Judged documents over documents retrieved, within the cut-off: how far the other measures can be believed."""
    return _ratio(len(judged.hits), judged.retrieved)


def _ratio(part: float, whole: float) -> float:
    """trec_eval's 0 where there is nothing to divide by."""
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

_F_BETA = re.compile(r"^F(\d+(?:\.\d+)?)$", re.IGNORECASE)


def find_measure(name: str) -> Callable[[JudgedRanking], float] | None:
    """The measure of that name; `F0.5` and the like are made for their beta. None: there is none."""
    known = MEASURES.get(name)
    beta = parse_beta(name)
    return known or (partial(compute_f, beta=beta) if beta else None)


def parse_beta(name: str) -> float | None:
    """The beta of a name like `F2` or `F0.5`; None where it is no such name, or beta is 0."""
    match = _F_BETA.match(name)
    return float(match[1]) or None if match else None
