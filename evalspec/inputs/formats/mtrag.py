"""MTRAG: conversations with passages and the answer to their last question."""

from typing import Any

from evalspec.inputs.datasets.record_form import RecordForm, has_columns
from evalspec.inputs.datasets.record_values import to_reply
from evalspec.inputs.datasets.record_writing import make_format

_ANSWERABLE = {"ANSWERABLE": True, "PARTIAL": True, "UNANSWERABLE": False}


def _adapt(record: dict[str, Any]) -> dict[str, Any]:
    """Return a task with the text of its target, and whether it can be answered."""
    adapted = dict(record)
    if record.get("targets"):
        adapted["answer"] = to_reply(record["targets"])
    labels = record.get("Answerability")
    label = labels[0] if isinstance(labels, list) and len(labels) == 1 else labels
    if isinstance(label, str) and label in _ANSWERABLE:
        adapted["answerable"] = _ANSWERABLE[label]
    return adapted


_FORM = RecordForm(
    columns={
        "id": ("task_id",),
        "input": ("input",),
        "expected": ("answer",),
        "context": ("contexts",),
        "answerable": ("answerable",),
        "response": ("predictions",),
    },
    metadata=frozenset(
        {
            "conversation_id",
            "turn",
            "turn_id",
            "dataset",
            "targets",
            "Question Type",
            "Multi-Turn",
            "Answerability",
            "Collection",
            "Domain",
            "standalone_question",
        }
    ),
    adapt=_adapt,
)


MTRAG = make_format(
    "mtrag",
    "MTRAG: conversations with passages and target answers",
    _FORM,
    has_columns({"task_id"}, {"targets", "Answerability"}, {"input"}),
)
