"""`inputs.jsonl`: the selected samples of a run in its order, so that its reports need no dataset files."""

from collections.abc import Iterator
from pathlib import Path

from evalspec.model import Sample
from evalspec.model.log import InputRecord
from evalspec.runs.store.log_records import read_log

INPUTS_NAME = "inputs.jsonl"


def read_inputs(path: Path) -> Iterator[tuple[str, Sample]]:
    """Return each sample with the name of its dataset.

    Raises:
        StoreError: The file cannot be read, or a line is not a sample.
    """
    return ((record.dataset, record.sample) for _, record in read_log(path, InputRecord))
