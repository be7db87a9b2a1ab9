"""OpenAI Evals: data sources of items, exported results of runs, and samples of the older open-source framework."""

from pathlib import Path

from evalspec.inputs.datasets.record_files import Container, probe
from evalspec.inputs.datasets.record_form import RecordForm, Variant, has_columns
from evalspec.inputs.datasets.record_names import ANSWER, ANSWERS, CONTEXTS, QUESTIONS, nest, nest_each
from evalspec.inputs.datasets.record_writing import Writer, make_format

_ITEMS = ("item", "datasource_item")
_QUESTIONS = (*QUESTIONS, "messages", "text")
_ANSWERS = (*ANSWERS, ANSWER, "correct_label", "label", "expected_label")
_FORM = RecordForm(
    columns={
        "id": ("item.id", "datasource_item.id", "datasource_item_id", "id"),
        "input": tuple(name for item in _ITEMS for name in nest(item, _QUESTIONS)),
        "expected": nest_each(_ITEMS, _ANSWERS),
        "context": nest_each(_ITEMS, CONTEXTS),
        "reference_contexts": nest_each(_ITEMS, ("reference_contexts",)),
        "tags": nest_each(_ITEMS, ("tags",)),
        "metadata": nest_each(_ITEMS, ("metadata",)),
        "response": ("sample.output_text", "sample.output"),
    },
    variants=(Variant({"id": ("id",), "input": ("input",), "expected": ("ideal",)}, having=frozenset({"ideal"})),),
    metadata=frozenset({"object", "id", "run_id", "eval_id", "created_at", "status", "results", "sample", "grades"}),
)
_has_items = has_columns(_ITEMS)
_has_ideal = has_columns({"input"}, {"ideal"})


def _recognises(path: Path, head: bytes) -> bool:
    is_json = probe(path, head).container in (Container.LINES, Container.LIST, Container.DOCUMENT)
    return is_json and (_has_items(path, head) or _has_ideal(path, head))


OPENAI_EVALS = make_format(
    "openai-evals",
    "OpenAI Evals: one item per line, or the exported results of a run",
    _FORM,
    _recognises,
    Writer(_FORM, has_many_answers=True, has_conversations=True),
)
