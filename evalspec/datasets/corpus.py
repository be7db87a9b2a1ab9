"""The documents of a dataset whose format keeps them apart, or has no place for them."""

from collections.abc import Iterable, Mapping

from evalspec.datasets.base import ReadingNotes, Source
from evalspec.datasets.id_list import render_ids
from evalspec.datasets.trec_texts import read_corpus
from evalspec.errors import Problem
from evalspec.records import Document, Sample


def read_documents_beside(source: Source, samples: Iterable[Sample], notes: ReadingNotes) -> None:
    """Read the corpus that the manifest names for a format without one: a line a document, as BEIR and TREC have it."""
    if source.corpus is None:
        return
    found = len(notes.problems)
    documents = read_corpus(source.corpus, source.corpus_shown_as, notes.problems)
    notes.files.append(source.corpus)
    notes.documents = list(documents.values())
    if len(notes.problems) == found:
        judged = (document for sample in samples for document in sample.qrels or ())
        check_judged(judged, documents, source.corpus_shown_as, notes)


def check_judged(judged: Iterable[str], documents: Mapping[str, Document], shown_as: str, notes: ReadingNotes) -> None:
    """Judged documents that the corpus lacks: known of real collections, so a warning, unless it has none of them."""
    wanted = dict.fromkeys(judged)
    missing = [document for document in wanted if document not in documents]
    if missing and len(missing) == len(wanted):
        first = f"the judgements have '{missing[0]}', the corpus '{next(iter(documents), '')}'"
        message = f"no judged document occurs in the corpus: {first}"
        notes.problems.append(Problem(message, "use the same ids in both files", shown_as))
    elif missing:
        message = f"{len(missing)} of {len(wanted)} judged documents are not in the corpus: {render_ids(missing)}"
        notes.warnings.append(Problem(message, file=shown_as))
