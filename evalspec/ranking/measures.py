"""Measures of one ranking against graded judgements, as trec_eval defines them. Pure: no exchange, no score, no I/O.

A measure depends only on the ranks and grades of the judged documents that were retrieved, and on the grades of those
that could have been: `judge_ranking` reduces a ranking to these once, and each measure reads them.

Conventions of trec_eval: the gain of a document is its grade, its discount log2(rank + 1); precision at k divides by k
however few were retrieved; average precision divides by all relevant documents; a negative grade means unjudged.
F-beta, which trec_eval has without a cut-off and under beta², is made of precision and recall at the same cut-off.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple


class Hit(NamedTuple):
    """One retrieved document that is judged: its rank from 1, and its grade (0 = judged not relevant)."""

    rank: int
    document: str
    grade: int


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """A ranking reduced to what the measures need.

    `retrieved`: distinct documents within the cut-off. `duplicates`: repeated ids that were dropped from the whole
    ranking. `hits`: the judged ones within the cut-off, best rank first. `relevant`: how many documents are relevant,
    retrieved or not. `ideal`: all positive grades, highest first.
    """

    cutoff: int | None
    min_grade: int
    retrieved: int
    duplicates: int
    hits: tuple[Hit, ...]
    relevant: int
    ideal: tuple[int, ...]

    @property
    def relevant_hits(self) -> list[Hit]:
        """The relevant documents within the cut-off, best rank first."""
        return [hit for hit in self.hits if hit.grade >= self.min_grade]


def judge_ranking(
    ranking: Sequence[str], qrels: Mapping[str, int], cutoff: int | None = None, min_grade: int = 1
) -> JudgedRanking:
    """Look up the documents of a ranking, best first, in the judgements {document: grade}.

    A repeated document keeps its first place and the others move up, before the cut. Grades of `min_grade` and more
    are relevant; as in trec_eval it does not touch the gains of nDCG.
    """
    distinct = dict.fromkeys(ranking)
    top = list(distinct)[:cutoff]
    judged = ((rank, document) for rank, document in enumerate(top, 1) if qrels.get(document, -1) >= 0)
    return JudgedRanking(
        cutoff=cutoff,
        min_grade=min_grade,
        retrieved=len(top),
        duplicates=len(ranking) - len(distinct),
        hits=tuple(Hit(rank, document, qrels[document]) for rank, document in judged),
        relevant=sum(grade >= min_grade for grade in qrels.values()),
        ideal=tuple(sorted((grade for grade in qrels.values() if grade > 0), reverse=True)),
    )


def compute_precision(judged: JudgedRanking) -> float:
    """Relevant documents within the cut-off, over the cut-off; uncut over the documents retrieved."""
    return _ratio(len(judged.relevant_hits), judged.cutoff or judged.retrieved)


def compute_recall(judged: JudgedRanking) -> float:
    """Relevant documents within the cut-off, over all relevant documents."""
    return _ratio(len(judged.relevant_hits), judged.relevant)


def compute_f(judged: JudgedRanking, beta: float) -> float:
    """(1 + beta²) P R / (beta² P + R) of precision and recall (van Rijsbergen): recall weighs beta times as much."""
    precision, recall = compute_precision(judged), compute_recall(judged)
    weight = beta * beta
    return _ratio((1 + weight) * precision * recall, weight * precision + recall)


def compute_ndcg(judged: JudgedRanking) -> float:
    """Sum of grade / log2(rank + 1), over the same sum for the best possible ranking (Järvelin and Kekäläinen)."""
    gain = sum(hit.grade / math.log2(hit.rank + 1) for hit in judged.hits)
    best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(judged.ideal[: judged.cutoff], 1))
    return _ratio(gain, best)


def compute_average_precision(judged: JudgedRanking) -> float:
    """Precision at the rank of each relevant document within the cut-off, summed, over all relevant documents."""
    precisions = (found / hit.rank for found, hit in enumerate(judged.relevant_hits, 1))
    return _ratio(sum(precisions), judged.relevant)


def compute_reciprocal_rank(judged: JudgedRanking) -> float:
    """One over the rank of the first relevant document, 0 where there is none within the cut-off."""
    return next((1 / hit.rank for hit in judged.relevant_hits), 0.0)


def compute_success(judged: JudgedRanking) -> float:
    """1 where at least one relevant document is within the cut-off."""
    return float(bool(judged.relevant_hits))


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
    "Success": compute_success,
    "Judged": compute_judged,
}
