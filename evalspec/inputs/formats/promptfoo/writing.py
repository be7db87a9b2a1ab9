"""Write a dataset as promptfoo's test cases in YAML."""

from pathlib import Path
from typing import Any

import yaml

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DatasetContent, Written
from evalspec.inputs.datasets.located import refuse_empty
from evalspec.inputs.datasets.record_writing import Writer
from evalspec.inputs.formats.promptfoo.reading import FORM
from evalspec.model import Sample

_SUFFIXES = ("", ".yaml", ".yml")


def _complete(record: dict[str, Any], sample: Sample) -> dict[str, Any]:
    """Add the asserts: the answer, or one of the answers, has to be in the reply."""
    answers = list(sample.references)
    asserts: list[dict[str, Any]] = []
    if len(answers) == 1:
        asserts = [{"type": "icontains", "value": answers[0]}]
    elif answers:
        asserts = [{"type": "icontains-any", "value": answers}]
    # otherwise promptfoo makes a test of each passage
    fixed = {"options": {"disableVarExpansion": True}} if sample.retrieved_contexts is not None else {}
    return record | {"assert": asserts} | fixed


WRITER = Writer(
    FORM,
    {"id": "metadata.id", "input": "vars.question", "tags": "metadata.tags"},
    omits=("expected",),
    complete=_complete,
)
list_losses = WRITER.list_losses


def write_promptfoo(content: DatasetContent, path: Path) -> Written:
    """Write the list of tests.

    Raises:
        InvalidInput: the path has the suffix of another form, or no sample can be written.
    """
    if path.suffix not in _SUFFIXES:
        message = f"promptfoo's tests are written as YAML, not {path.suffix}"
        raise InvalidInput(Problem(message, f"write them to {path.with_suffix('.yaml').name}", path.name))
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for sample in content.samples:
            if WRITER.can_hold(sample):
                yaml.safe_dump([WRITER.to_record(sample)], file, allow_unicode=True, sort_keys=False, width=120)
                count += 1
    refuse_empty(count, path)
    return Written(count)
