"""Azure AI evaluation: JSON Lines of query, response, context and ground truth."""

from pathlib import Path

from evalspec.inputs.datasets.record_files import probe
from evalspec.inputs.datasets.record_form import RecordForm, has_columns
from evalspec.inputs.datasets.record_writing import Writer, make_format

_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("query", "conversation"),
        "expected": ("ground_truth",),
        "context": ("context",),
        "response": ("response",),
    },
    metadata=frozenset({"tool_calls", "tool_definitions", "latency", "response_length"}),
)
_is_asked = has_columns({"query"}, {"response", "ground_truth"})
_OTHERS = ("retrieval_gt", "reference_contexts", "documents", "relevant", "user_input")


def _recognises(path: Path, head: bytes) -> bool:
    return _is_asked(path, head) and probe(path, head).columns.isdisjoint(_OTHERS)


AZURE = make_format(
    "azure",
    "Azure AI evaluation: query, response, context and ground_truth",
    _FORM,
    _recognises,
    Writer(_FORM, {"metadata": "*"}),
)
