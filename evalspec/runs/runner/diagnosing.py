"""Diagnose why the rankings of a stored run miss relevant documents.

For a missing document: its rank further down, and what is above it. For all queries: which documents fail often.
Relevance is defined as in `ranking.measures`: grades of `min_grade` and more, or AND/OR groups. A group is missing if
none of its documents is found. The harm of a miss is the recall that its query loses: 1 over the number of relevant
documents (or groups) of the query.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from evalspec.model import (
    AlwaysRetrieved,
    DatasetResult,
    Diagnosis,
    Distractor,
    Exchange,
    MissingDocument,
    NeverRetrieved,
    QueryDiagnosis,
    Run,
)
from evalspec.runs.store.stored_run import StoredRun
from evalspec.scoring.ranking.measures import Groups

DEPTH = 100
ALWAYS = 0.8
"""The share of queries from which a document counts as retrieved for almost every query."""
_FEWEST_QUERIES = 3
"""With fewer queries, "almost every query" is meaningless."""

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]


def diagnose(run: Run, stored: StoredRun) -> Run:
    """Return the run with a diagnosis of each dataset that has a retriever, from the rankings of the first attempts.

    A run without texts has no rankings, so it is returned unchanged.

    Raises:
        StoreError: The run cannot be read.
    """
    asked = {dataset.name for dataset in run.datasets if dataset.retriever is not None}
    if not asked or not stored.outline.has_texts:
        return run
    exchanges: dict[str, list[Exchange]] = defaultdict(list)
    for stored_exchange in stored.read_exchanges():
        if stored_exchange.dataset in asked and stored_exchange.attempt == 1:
            exchanges[stored_exchange.dataset].append(stored_exchange.exchange)
    datasets = (replace(one, diagnosis=_diagnose(one, exchanges[one.name])) for one in run.datasets)
    return replace(run, datasets=tuple(datasets))


def _diagnose(dataset: DatasetResult, exchanges: list[Exchange]) -> Diagnosis | None:
    settings = dataset.retriever
    if settings is None:
        return None
    samples = [exchange.sample for exchange in exchanges]
    replies = {exchange.sample.id: exchange.reply for exchange in exchanges if exchange.reply is not None}
    return compute_diagnosis(
        {sample.id: sample.qrels for sample in samples if sample.qrels is not None},
        {name: reply.retrieved_context_ids or () for name, reply in replies.items()},
        {name: reply.deep_ids for name, reply in replies.items() if reply.deep_ids is not None},
        settings.top_k,
        depth=max(settings.depth, settings.top_k),
        min_grade=settings.min_grade,
        groups={sample.id: sample.groups for sample in samples if sample.groups is not None},
    )


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
    """Return what `rankings` miss within the cut-off, and where `deep_rankings` have it down to `depth`.

    `rankings`: {query: ids, best first}. Repeated ids count at their first rank. A query without a deep ranking uses
    its ordinary one. Rankings of queries without judgements are ignored.
    """
    tops = {query: _distinct(rankings[query], cutoff) for query in qrels if query in rankings}
    deep = {query: _distinct(deep_rankings.get(query, rankings[query]), depth) for query in tops}
    wanted = {query: _wanted(qrels[query], (groups or {}).get(query), min_grade) for query in tops}
    relevant = {query: {document for group in wanted[query] for document in group} for query in tops}
    diagnosed = (_diagnose_query(query, tops[query], deep[query], wanted[query], qrels[query]) for query in tops)
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
    """Return what a query should find, each as a group with one required document."""
    if groups is not None:
        return [tuple(group) for group in groups]
    return [(document,) for document, grade in grades.items() if grade >= min_grade]


def _diagnose_query(
    query: str, top: Sequence[str], deep: Sequence[str], wanted: Sequence[Sequence[str]], grades: Mapping[str, int]
) -> QueryDiagnosis:
    ranks = {document: rank for rank, document in enumerate(deep, 1)}
    missing = sorted(_find_missing(set(top), wanted, ranks, grades), key=lambda one: (one.rank is None, one.rank or 0))
    first = missing[0].rank if missing else None
    above = deep[: first - 1] if first is not None and first > len(top) else top
    relevant = {document for group in wanted for document in group}
    distractors = (
        Distractor(document, rank, _grade(grades, document))
        for rank, document in enumerate(above, 1)
        if document not in relevant
    )
    return QueryDiagnosis(query, len(wanted), len(deep), tuple(missing), tuple(distractors) if missing else ())


def _find_missing(
    top: set[str], wanted: Iterable[Sequence[str]], ranks: Mapping[str, int], grades: Mapping[str, int]
) -> Iterator[MissingDocument]:
    """Yield the highest-ranked document of each missing group."""
    nowhere = len(ranks) + 1
    for group in wanted:
        if top.isdisjoint(group):
            document = min(group, key=lambda one: ranks.get(one, nowhere))
            others = tuple(one for one in group if one != document)
            yield MissingDocument(document, grades.get(document, 1), ranks.get(document), others)


def _grade(grades: Mapping[str, int], document: str) -> int | None:
    """Return the grade of a document. As in trec_eval, negative grades are not judgements."""
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
