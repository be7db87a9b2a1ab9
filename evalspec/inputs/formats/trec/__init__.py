"""TREC: qrels, topics and optionally a corpus. `formats/beir.py` is the other layout of such a collection."""

from pathlib import Path

from evalspec.inputs.datasets.base import DatasetFormat
from evalspec.inputs.datasets.corpus import TEXT_LINES
from evalspec.inputs.datasets.losses import METADATA, Loss
from evalspec.inputs.formats.trec.reading import (
    holds_beir,
    holds_qrels,
    is_trec_folder,
    read_collection,
    read_judgements,
)
from evalspec.inputs.formats.trec.writing import CollectionLayout, is_cell
from evalspec.model import Sample


def _recognises(path: Path, head: bytes) -> bool:
    return holds_qrels(path, head) and not holds_beir(head) if head else is_trec_folder(path)


def _is_field(name: str) -> bool:
    """Return whether an id fits into one whitespace-separated field of a line."""
    return is_cell(name) and name.split() == [name]


def _in_one_line(text: str) -> str:
    lines = text.splitlines()
    return text if lines == [text] and text == text.strip() else " ".join(text.split())


def _render_topic(sample: Sample) -> str:
    return f"{sample.id}\t{_in_one_line(sample.question)}\n"


_LAYOUT = CollectionLayout(
    judgements="qrels.txt",
    header="",
    form="{} 0 {} {}\n",
    queries="topics.tsv",
    render_query=_render_topic,
    can_name=_is_field,
    losses=(
        METADATA,
        Loss("samples whose id has blanks", lambda sample: not _is_field(sample.id)),
        Loss("judged documents whose id has blanks", lambda sample: not all(map(_is_field, sample.qrels or ()))),
        Loss("line breaks and outer whitespace of the question", lambda s: s.question != _in_one_line(s.question)),
    ),
)


TREC = DatasetFormat(
    name="trec",
    summary="TREC qrels with topics (TSV or JSONL) and a corpus: graded relevance",
    read=read_collection,
    recognises=_recognises,
    list_losses=_LAYOUT.list_losses,
    write=_LAYOUT.write,
    has_corpus=True,
    corpus=TEXT_LINES,
    read_judgements=read_judgements,
)
