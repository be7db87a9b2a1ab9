"""deepeval: goldens and test cases, as `EvaluationDataset.save_as` writes them. Their `context` is the truth."""

from pathlib import Path

from evalspec.datasets.record_files import Container, peek
from evalspec.datasets.record_form import RecordForm, has_columns
from evalspec.datasets.record_writing import Writer, make_format

_MARKS = (
    "actual_output",
    "retrieval_context",
    "additional_metadata",
    "source_file",
    "expected_tools",
    "tools_called",
    "custom_column_key_values",
)
_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("input",),
        "expected": ("expected_output",),
        "reference_contexts": ("context",),
        "context": ("retrieval_context",),
        "metadata": ("additional_metadata",),
        "tags": ("tags",),
        "response": ("actual_output",),
    },
    metadata=frozenset(
        {"source_file", "name", "comments", "tools_called", "expected_tools", "custom_column_key_values"}
    ),
    delimiter="|",
)
_is_marked = has_columns({"input"}, _MARKS)
_is_golden = has_columns({"input"}, {"expected_output"})


def _recognises(path: Path, head: bytes) -> bool:
    # in JSON Lines, input and expected_output alone are the native format, which accepts both names
    is_lines = peek(path, head).container is Container.LINES
    return _is_marked(path, head) or (not is_lines and _is_golden(path, head))


DEEPEVAL = make_format(
    "deepeval",
    "deepeval's goldens: input, expected_output, context (JSON or CSV)",
    _FORM,
    _recognises,
    Writer(
        _FORM,
        {
            "id": "id",
            "input": "input",
            "expected": "expected_output",
            "reference_contexts": "context",
            "context": "retrieval_context",
            "tags": "tags",
            "metadata": "additional_metadata",
        },
        complete=lambda record, _: {"actual_output": None, **record},
        suffix=".json",
    ),
)
