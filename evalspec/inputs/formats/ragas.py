"""ragas: evaluation datasets and generated testsets, in the names of today and of its releases before 0.2."""

from collections.abc import Collection
from pathlib import Path

from evalspec.inputs.datasets.record_files import probe
from evalspec.inputs.datasets.record_form import RecordForm, Variant, has_columns
from evalspec.inputs.datasets.record_writing import Writer, make_format

_OLD_MARKS = frozenset({"contexts", "ground_truths", "evolution_type"})
_TRUTH = ("reference", "ground_truth", "ground_truths")
_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("user_input", "question"),
        "expected": _TRUTH,
        "context": ("retrieved_contexts", "contexts"),
        "reference_contexts": ("reference_contexts",),
        "relevant": ("reference_context_ids",),
        "response": ("response", "answer"),
        "retrieved_context_ids": ("retrieved_context_ids",),
        "expected_tools": ("reference_tool_calls",),
    },
    # a generated testset has no retrieval yet: its contexts are those that the question was made from
    variants=(
        Variant(
            {"reference_contexts": ("reference_contexts", "contexts"), "context": ("retrieved_contexts",)},
            having=frozenset({"evolution_type"}),
        ),
    ),
    metadata=frozenset(
        {
            "rubrics",
            "rubric",
            "synthesizer_name",
            "persona_name",
            "query_style",
            "query_length",
            "evolution_type",
            "episode_done",
            "reference_topics",
            "metadata",
        }
    ),
    opens_cells=("rubrics", "rubric", "reference_topics", "metadata"),
)
_is_named = has_columns({"user_input"})
_is_old = has_columns({"question"}, _OLD_MARKS)
_OTHERS: Collection[str] = ("documents", "documents_sentences", "input", "vars", "supporting_facts")


def _recognises(path: Path, head: bytes) -> bool:
    if _is_named(path, head):
        return True
    return _is_old(path, head) and probe(path, head).columns.isdisjoint(_OTHERS)


RAGAS = make_format(
    "ragas",
    "ragas: user_input, reference, retrieved_contexts (or question, ground_truth, contexts)",
    _FORM,
    _recognises,
    Writer(_FORM, {"metadata": "*"}, arguments_key="args"),
)
