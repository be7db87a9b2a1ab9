"""Why rankings miss what they should have: how far down it is, what stands above it, which documents fail often.

Pure. What is relevant is as in `measures`: grades of `min_grade` and more, or AND/OR groups, of which one is missing
where none of its documents was found. Harm is recall: what one miss takes from the recall of its query, which is one
over the number of documents (or groups) that the query wants.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalspec.model import (
    AlwaysRetrieved,
    Diagnosis,
    Intruder,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
)
from evalspec.ranking.measures import Groups

DEPTH = 100
ALWAYS = 0.8
"""From this share of the queries on a document counts as retrieved for almost every one."""
_FEWEST_QUERIES = 3
"""Of fewer queries, "almost every one" says nothing."""

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]


def compute_diagnosis(
    qrels: Judgements,
    rankings: Rankings,
    deep_rankings: Rankings,
    cutoff: int,
    *,
    depth: int = DEPTH,
    min_grade: int = 1,
    groups: Mapping[str, Groups] | None = None,
) -> Diagnosis:
    """Look for what `rankings`, {query: ids, best first}, miss within the cut-off, in `deep_rankings` down to `depth`.

    Repeated ids count where they stand first. A query without a deep ranking is looked up in its own; rankings of
    queries without judgements are not looked at.
    """
    tops = {query: _distinct(rankings[query], cutoff) for query in qrels if query in rankings}
    deep = {query: _distinct(deep_rankings.get(query, rankings[query]), depth) for query in tops}
    wanted = {query: _wanted(qrels[query], (groups or {}).get(query), min_grade) for query in tops}
    relevant = {query: {document for group in wanted[query] for document in group} for query in tops}
    diagnosed = (_diagnose(query, tops[query], deep[query], wanted[query], qrels[query]) for query in tops)
    queries = sorted((found for found in diagnosed if found.missing), key=lambda found: -found.harm)
    return Diagnosis(
        cutoff=cutoff,
        depth=depth,
        answered=len(tops),
        unanswered=tuple(query for query in qrels if query not in tops),
        queries=tuple(queries),
        never_retrieved=_find_never_retrieved(queries, tops, deep),
        always_retrieved=_find_always_retrieved(queries, tops, relevant),
    )


def _distinct(ranking: Sequence[str], depth: int) -> list[str]:
    return list(dict.fromkeys(ranking))[:depth]


def _wanted(grades: Mapping[str, int], groups: Groups | None, min_grade: int) -> list[tuple[str, ...]]:
    """What is to be found, each as the documents of which one is enough."""
    if groups is not None:
        return [tuple(group) for group in groups]
    return [(document,) for document, grade in grades.items() if grade >= min_grade]


def _diagnose(
    query: str, top: Sequence[str], deep: Sequence[str], wanted: Sequence[Sequence[str]], grades: Mapping[str, int]
) -> QueryDiagnosis:
    ranks = {document: rank for rank, document in enumerate(deep, 1)}
    missing = sorted(_find_missing(set(top), wanted, ranks, grades), key=lambda one: (one.rank is None, one.rank or 0))
    first = missing[0].rank if missing else None
    above = deep[: first - 1] if first is not None and first > len(top) else top
    relevant = {document for group in wanted for document in group}
    intruders = (
        Intruder(document, rank, _grade(grades, document))
        for rank, document in enumerate(above, 1)
        if document not in relevant
    )
    return QueryDiagnosis(query, len(wanted), len(deep), tuple(missing), tuple(intruders) if missing else ())


def _find_missing(
    top: set[str], wanted: Iterable[Sequence[str]], ranks: Mapping[str, int], grades: Mapping[str, int]
) -> Iterator[MissingDocument]:
    """Of a group that is missing, the document that stands highest."""
    nowhere = len(ranks) + 1
    for group in wanted:
        if top.isdisjoint(group):
            document = min(group, key=lambda one: ranks.get(one, nowhere))
            others = tuple(one for one in group if one != document)
            yield MissingDocument(document, grades.get(document, 1), ranks.get(document), others)


def _grade(grades: Mapping[str, int], document: str) -> int | None:
    """trec_eval's negative grades are no judgements."""
    grade = grades.get(document, -1)
    return grade if grade >= 0 else None


def _find_never_retrieved(
    queries: Iterable[QueryDiagnosis], tops: Mapping[str, Sequence[str]], deep: Mapping[str, Sequence[str]]
) -> tuple[NeverRetrieved, ...]:
    retrieved = {document for top in tops.values() for document in top}
    missed_by: dict[str, list[QueryDiagnosis]] = defaultdict(list)
    for diagnosed in queries:
        for one in diagnosed.missing:
            for document in {one.document, *one.alternatives} - retrieved:
                missed_by[document].append(diagnosed)
    found = [_never_retrieved(document, by, deep) for document, by in missed_by.items()]
    return tuple(sorted(found, key=lambda one: (-one.harm, one.document)))


def _never_retrieved(
    document: str, missed_by: Sequence[QueryDiagnosis], deep: Mapping[str, Sequence[str]]
) -> NeverRetrieved:
    names = tuple(dict.fromkeys(diagnosed.query for diagnosed in missed_by))
    ranks = [deep[query].index(document) + 1 for query in names if document in deep[query]]
    return NeverRetrieved(document, names, min(ranks, default=None), sum(1 / by.wanted for by in missed_by))


def _find_always_retrieved(
    queries: Iterable[QueryDiagnosis],
    tops: Mapping[str, Sequence[str]],
    relevant: Mapping[str, set[str]],
) -> tuple[AlwaysRetrieved, ...]:
    if len(tops) < _FEWEST_QUERIES:
        return ()
    lacking = {diagnosed.query for diagnosed in queries}
    in_vain: dict[str, list[str]] = defaultdict(list)
    for query, top in tops.items():
        for document in top:
            if document not in relevant[query]:
                in_vain[document].append(query)
    found = [
        AlwaysRetrieved(document, len(names) / len(tops), len(lacking.intersection(names)))
        for document, names in in_vain.items()
        if len(names) >= ALWAYS * len(tops)
    ]
    return tuple(sorted(found, key=lambda one: (-one.blocking, -one.share, one.document)))
