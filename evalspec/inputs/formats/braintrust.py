"""Braintrust: exported datasets and experiments."""

from pathlib import Path

from evalspec.inputs.datasets.record_files import Container, find_object_keys, probe
from evalspec.inputs.datasets.record_form import RecordForm, has_columns
from evalspec.inputs.datasets.record_names import ANSWER, ANSWERS, CONTEXTS, QUESTIONS, REPLIES, nest, nest_each
from evalspec.inputs.datasets.record_writing import Writer, make_format

_SERVICE = ("_xact_id", "root_span_id", "span_id", "span_attributes", "_pagination_key", "experiment_id", "is_root")
_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": (*nest("input", (*QUESTIONS, "messages")), "input"),
        "expected": (*nest("expected", (*ANSWERS, ANSWER, "output")), "expected"),
        "context": nest_each(("output",), CONTEXTS),
        "tags": ("tags",),
        "metadata": ("metadata",),
        "response": (*nest("output", (*REPLIES, ANSWER)), "output"),
    },
    metadata=frozenset(
        {
            *_SERVICE,
            "created",
            "dataset_id",
            "project_id",
            "origin",
            "scores",
            "metrics",
            "context",
            "error",
            "comments",
        }
    ),
    opens_cells=("input", "expected", "output", "metadata", "tags"),
)
_is_exported = has_columns({"input"}, _SERVICE)
_has_both = has_columns({"input"}, {"expected", "output"})


def _recognises(path: Path, head: bytes) -> bool:
    if _is_exported(path, head):
        return True
    is_json = probe(path, head).container in (Container.LINES, Container.LIST)
    return is_json and _has_both(path, head) and bool(find_object_keys(path, head, "input"))


BRAINTRUST = make_format(
    "braintrust",
    "Braintrust's datasets and experiments: input, expected, output, metadata",
    _FORM,
    _recognises,
    Writer(_FORM, {"input": "input", "expected": "expected"}, omits=("context",)),
)
