"""`inputs.jsonl`: the selected samples of a run, so that its reports need no dataset files.

One object per line, in the order of the run: {"dataset", the keys of `model.Sample`}.

Without texts, only dataset, id, answerable, tags, line, digest, slices and the metadata used for slices have values.
All others are null or empty. The digest and the slices with thresholds are computed before redaction.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert

from evalspec.base.errors import StoreError
from evalspec.inputs.manifest.redaction import FOR_READERS
from evalspec.model import Sample
from evalspec.model.base import built
from evalspec.runs.store.log_records import change_texts, read_log, to_fields

INPUTS_NAME = "inputs.jsonl"


def input_record(dataset: str, sample: Sample) -> dict[str, Any]:
    """Return one sample as a JSON-serializable record."""
    turns = sample.user_input
    asked = turns if isinstance(turns, str) else [to_fields(turn) for turn in turns]
    return {"dataset": dataset, **to_fields(sample), "userInput": asked}


def bare_record(record: Mapping[str, Any], metadata_kept: Collection[str]) -> dict[str, Any]:
    """Return the record without texts."""
    metadata = {key: value for key, value in record["metadata"].items() if key in metadata_kept}
    nothing = {"userInput": "", "references": (), "retrievedContexts": None, "referenceContexts": None}
    return {**record, **nothing, "qrels": None, "groups": None, "metadata": metadata}


def read_inputs(path: Path) -> Iterator[tuple[str, Sample]]:
    """Return each sample with the name of its dataset.

    Raises:
        StoreError: The file cannot be read, or a line is not a sample.
    """
    for number, (_, record) in enumerate(read_log(path), 1):
        yield parse_input(record, f"{path}:{number}")


def mask_sample(sample: Sample) -> Sample:
    """Return the sample with well-known kinds of keys in its texts masked, for readers."""
    record = input_record("", sample)
    masked = change_texts(record, FOR_READERS.mask_data)
    return sample if masked == record else parse_input(masked, "")[1]


def parse_input(record: Mapping[str, Any], place: str) -> tuple[str, Sample]:
    """Return the sample of a record with the name of its dataset. `place`: the location for the error message.

    Raises:
        StoreError: The record is not a sample.
    """
    try:
        return record["dataset"], convert(record, built(Sample))
    except (KeyError, ValidationError) as error:
        raise StoreError(
            f"{place}: not a sample of a run: {error}. the file was changed, or evalspec did not write it"
        ) from error
