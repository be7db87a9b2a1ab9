"""`inputs.jsonl`: the selected samples of a run, so that its reports need no dataset files.

One object per line, in the order of the run: {"dataset", "id", "input", "references", "context", "reference_contexts",
"qrels", "groups", "answerable", "tags", "metadata", "line", "digest", "slices", "unit"}.

Without texts, only dataset, id, answerable, tags, line, digest, slices and the metadata used for slices have values.
All others are null or empty. The digest and the slices with thresholds are computed before redaction.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.errors import StoreError
from evalspec.model import Message, Sample
from evalspec.store.log_records import read_log

INPUTS_NAME = "inputs.jsonl"


def input_record(dataset: str, sample: Sample) -> dict[str, Any]:
    """Return one sample as a JSON-serializable record."""
    turns = sample.user_input
    return {
        "dataset": dataset,
        "id": sample.id,
        "input": turns if isinstance(turns, str) else [{"role": turn.role, "content": turn.content} for turn in turns],
        "references": sample.references,
        "context": sample.retrieved_contexts,
        "reference_contexts": sample.reference_contexts,
        "qrels": sample.qrels if sample.qrels is None else dict(sample.qrels),
        "groups": sample.groups,
        "answerable": sample.answerable,
        "tags": sample.tags,
        "metadata": dict(sample.metadata),
        "line": sample.line,
        "digest": sample.digest,
        "slices": sample.slices,
        "unit": sample.unit,
    }


def bare_record(record: Mapping[str, Any], metadata_kept: Collection[str]) -> dict[str, Any]:
    """Return the record without texts."""
    metadata = {key: value for key, value in record["metadata"].items() if key in metadata_kept}
    nothing = {"input": "", "references": (), "context": None, "reference_contexts": None}
    return {**record, **nothing, "qrels": None, "groups": None, "metadata": metadata}


def read_inputs(path: Path) -> Iterator[tuple[str, Sample]]:
    """Return each sample with the name of its dataset.

    Raises:
        StoreError: The file cannot be read, or a line is not a sample.
    """
    for number, (_, record) in enumerate(read_log(path), 1):
        yield parse_input(record, f"{path}:{number}")


def parse_input(record: Mapping[str, Any], place: str) -> tuple[str, Sample]:
    """Return the sample of a record with the name of its dataset. `place`: the location for the error message.

    Raises:
        StoreError: The record is not a sample.
    """
    try:
        given = record["input"]
        groups = record["groups"]
        return record["dataset"], Sample(
            id=record["id"],
            user_input=given if isinstance(given, str) else tuple(Message(**turn) for turn in given),
            references=tuple(record["references"]),
            retrieved_contexts=_texts(record["context"]),
            reference_contexts=_texts(record["reference_contexts"]),
            qrels=record["qrels"],
            tags=tuple(record["tags"]),
            metadata=record["metadata"],
            line=record["line"],
            groups=None if groups is None else tuple(tuple(group) for group in groups),
            answerable=record["answerable"],
            digest=record["digest"],
            slices=tuple(record["slices"]),
            unit=record["unit"],
        )
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"{place}: not a sample of a run: {error}. the file was changed, or evalspec did not write it"
        ) from error


def _texts(texts: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)
