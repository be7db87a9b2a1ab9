"""LangSmith: exported datasets (inputs, outputs) and experiments, as JSON Lines, JSON or CSV."""

from evalspec.inputs.datasets.record_form import RecordForm, Variant, has_columns
from evalspec.inputs.datasets.record_names import (
    ANSWER,
    ANSWERS,
    CONTEXTS,
    QUESTIONS,
    REPLIES,
    flatten,
    nest,
    nest_each,
)
from evalspec.inputs.datasets.record_writing import Writer, make_format

_ASKED = (*QUESTIONS, "messages")
_ANSWERED = (ANSWER, *ANSWERS, *REPLIES, "text", "messages")
_INPUTS = (*nest("inputs", _ASKED), *flatten("input", _ASKED), "inputs")
_OUTPUTS = (*nest("outputs", _ANSWERED), *flatten("output", _ANSWERED), "outputs")
_REFERENCES = tuple(
    name
    for outer in ("reference_outputs", "reference_output")
    for name in (*nest(outer, _ANSWERED), *flatten(outer, _ANSWERED), outer)
)
_FORM = RecordForm(
    columns={
        "id": ("id", "example_id", "reference_example_id"),
        "input": _INPUTS,
        "expected": _OUTPUTS,
        "metadata": ("metadata",),
    },
    # in an experiment, `outputs` are the replies
    variants=(
        Variant(
            {
                "id": ("reference_example_id", "example_id", "id"),
                "expected": _REFERENCES,
                "response": _OUTPUTS,
                "context": nest_each(("outputs", "output"), CONTEXTS),
            },
            having=frozenset({"reference_outputs", "reference_example_id", *flatten("reference_outputs", _ANSWERED)}),
        ),
    ),
    metadata=frozenset(
        {
            "created_at",
            "modified_at",
            "dataset_id",
            "source_run_id",
            "attachment_urls",
            "attachments",
            "split",
            "name",
            "run_id",
            "feedback",
            "error",
            "execution_time",
        }
    ),
    opens_cells=("inputs", "outputs", "reference_outputs", "metadata"),
)


LANGSMITH = make_format(
    "langsmith",
    "LangSmith's datasets and experiments: inputs and outputs",
    _FORM,
    has_columns(
        {"inputs", *nest("inputs", _ASKED), *flatten("input", _ASKED)},
        {"outputs", *nest("outputs", _ANSWERED), *flatten("output", _ANSWERED), "reference_outputs"},
    ),
    Writer(
        _FORM,
        {"input": "inputs.question", "expected": "outputs.answer"},
        complete=lambda record, _: {"outputs": {}, **record},
        has_conversations=True,
    ),
)
