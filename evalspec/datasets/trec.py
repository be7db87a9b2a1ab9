"""Test collections as TREC and BEIR keep them: judgements (qrels), queries, and a corpus where it is there.

TREC: `qrels.txt` (query, iteration, document, grade) beside the queries. BEIR: `queries.jsonl`, `corpus.jsonl` and
`qrels/test.tsv` with a header. Both are read alike, so that files of one may stand in the layout of the other.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from evalspec.datasets.base import DATASETS, DatasetFormat, ReadingNotes, Source
from evalspec.datasets.corpus import check_judged
from evalspec.datasets.id_list import render_ids
from evalspec.datasets.trec_layout import is_beir_folder, is_trec_folder, locate_collection
from evalspec.datasets.trec_texts import read_corpus, read_queries
from evalspec.datasets.trec_writing import find_beir_losses, find_trec_losses, write_beir, write_trec
from evalspec.errors import Problem
from evalspec.ranking.trec_files import looks_like_qrels, read_qrels
from evalspec.records import Document, Sample

_BEIR_HEADER = b"query-id"
_OTHERS = (".json", ".jsonl", ".yaml", ".yml", ".parquet")

Judgements = Mapping[str, Mapping[str, int]]


def read_collection(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample a judged query, in the order of the queries; documents go to the notes.

    A query that nobody judged is left out with a warning, since no metric could say anything of it.
    """
    problems = notes.problems
    collection = locate_collection(source, problems)
    if collection is None:
        return
    qrels = read_qrels(collection.qrels.path, collection.qrels.shown_as, problems, notes.warnings)
    beside = [collection.queries, *([collection.corpus] if collection.corpus else [])]
    notes.files.extend(file.path for file in beside)
    queries = read_queries(collection.queries.path, collection.queries.shown_as, problems)
    if collection.corpus is not None:
        documents = read_corpus(collection.corpus.path, collection.corpus.shown_as, problems)
        notes.documents = list(documents.values())
        if not problems:
            judged = (document for judgements in qrels.values() for document in judgements)
            check_judged(judged, documents, collection.corpus.shown_as, notes)
    if problems:
        return
    problems.extend(_find_unknown_queries(qrels, queries, collection.qrels.shown_as, collection.queries.shown_as))
    unjudged = [query for query in queries if query not in qrels]
    if unjudged and len(unjudged) < len(queries):
        message = (
            f"{len(unjudged)} of {len(queries)} queries have no judgements and are left out: {render_ids(unjudged)}"
        )
        notes.warnings.append(Problem(message, file=collection.queries.shown_as))
    for query in queries.values():
        if query.id in qrels:
            yield _to_sample(query, qrels[query.id])


def _to_sample(query: Document, judgements: Mapping[str, int]) -> Sample:
    return Sample(
        id=query.id,
        user_input=query.text,
        qrels=judgements,
        metadata={**query.metadata, **({"title": query.title} if query.title else {})},
    )


def _find_unknown_queries(
    qrels: Judgements, queries: Mapping[str, Document], qrels_shown_as: str, queries_shown_as: str
) -> Iterator[Problem]:
    unknown = [query for query in qrels if query not in queries]
    if unknown and len(unknown) == len(qrels):
        first = f"the judgements have '{unknown[0]}', the queries '{next(iter(queries), '')}'"
        message = f"no judged query occurs in {queries_shown_as}: {first}"
        yield Problem(message, "use the same ids in both files", qrels_shown_as)
    elif unknown:
        message = f"{len(unknown)} of {len(qrels)} judged queries are not in {queries_shown_as}: {render_ids(unknown)}"
        yield Problem(message, "add their texts, or take their judgements out", qrels_shown_as)


def _recognises_trec(path: Path, head: bytes) -> bool:
    return _holds_qrels(path, head) and not _is_beir(head) if head else is_trec_folder(path)


def _recognises_beir(path: Path, head: bytes) -> bool:
    return _holds_qrels(path, head) and _is_beir(head) if head else is_beir_folder(path)


def _holds_qrels(path: Path, text: bytes) -> bool:
    return path.suffix not in _OTHERS and looks_like_qrels(text)


def _is_beir(text: bytes) -> bool:
    return _BEIR_HEADER in text.splitlines()[0].lower()


DATASETS.add(
    "trec",
    DatasetFormat(
        name="trec",
        summary="TREC qrels with topics (TSV or JSONL) and a corpus: graded relevance",
        read=read_collection,
        recognises=_recognises_trec,
        find_losses=find_trec_losses,
        write=write_trec,
        has_corpus=True,
    ),
)
DATASETS.add(
    "beir",
    DatasetFormat(
        name="beir",
        summary="BEIR's folder: queries.jsonl, corpus.jsonl and qrels/test.tsv",
        read=read_collection,
        recognises=_recognises_beir,
        find_losses=find_beir_losses,
        write=write_beir,
        has_corpus=True,
    ),
)
