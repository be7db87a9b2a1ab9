"""BEIR: a folder with queries, a corpus and judgements by split. The TREC reader reads it."""

from pathlib import Path

from msgspec.structs import replace

from evalspec.inputs.datasets.losses import Loss
from evalspec.inputs.formats import trec
from evalspec.inputs.formats.trec.reading import holds_beir, holds_qrels, is_beir_folder
from evalspec.inputs.formats.trec.writing import CollectionLayout, is_cell, to_json_line
from evalspec.model import Sample


def _recognises(path: Path, head: bytes) -> bool:
    return holds_qrels(path, head) and holds_beir(head) if head else is_beir_folder(path)


def _render_query(sample: Sample) -> str:
    return to_json_line({"_id": sample.id, "text": sample.question, "metadata": sample.metadata})


_LAYOUT = CollectionLayout(
    judgements="qrels/test.tsv",
    header="query-id\tcorpus-id\tscore\n",
    form="{}\t{}\t{}\n",
    queries="queries.jsonl",
    render_query=_render_query,
    can_name=is_cell,
    losses=(
        Loss("samples whose id has tabs or line breaks", lambda sample: not is_cell(sample.id)),
        Loss("judged documents whose id has tabs or line breaks", lambda s: not all(map(is_cell, s.qrels or ()))),
    ),
)


BEIR = replace(
    trec.TREC,
    name="beir",
    summary="BEIR's folder: queries.jsonl, corpus.jsonl and qrels/test.tsv",
    recognises=_recognises,
    list_losses=_LAYOUT.list_losses,
    write=_LAYOUT.write,
)
