"""Names that people give to the columns of a dataset when no system prescribes them."""

from collections.abc import Iterable

QUESTIONS = ("input", "question", "query", "user_input", "prompt", "instruction", "user_query", "utterance")
ANSWERS = (
    "expected",
    "expected_output",
    "expected_answer",
    "ground_truth",
    "ground_truths",
    "reference",
    "references",
    "reference_answer",
    "reference_output",
    "reference_outputs",
    "correct_answer",
    "gold_answer",
    "golden_answer",
    "gold",
    "ideal",
    "target",
)
REPLIES = (
    "response",
    "actual_output",
    "prediction",
    "predicted_answer",
    "generated_answer",
    "model_answer",
    "model_output",
    "output",
)
CONTEXTS = ("context", "contexts", "retrieved_contexts", "retrieval_context", "retrieved_context", "documents")
REFERENCE_CONTEXTS = ("reference_contexts", "reference_context", "gold_contexts", "ground_truth_context")
RELEVANT = ("relevant", "reference_context_ids", "relevant_ids", "relevant_doc_ids", "relevant_documents", "qrels")
RETRIEVED = ("retrieved_context_ids", "retrieved_ids", "retrieved_doc_ids")
IDS = ("id", "_id", "qid", "query_id", "question_id", "sample_id")
ANSWER = "answer"
"""The answer of a person in most files, of the system in others."""
NAME_INPUT = "Set `fields: {input: COLUMN}` (convert: --field input=COLUMN)"
NAME_COLUMNS = "name the columns with `fields: {input: COLUMN, expected: COLUMN}`"
"""Fixes of a file whose columns have other names, for a manifest. A command without one says what it takes instead."""


def nest(outer: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of names within an outer column, and of its only value."""
    return (*(f"{outer}.{name}" for name in names), f"{outer}.*")


def nest_each(outers: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of names within each of several outer columns."""
    every = tuple(names)
    return tuple(f"{outer}.{name}" for outer in outers for name in every)


def flatten(outer: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns in a table that has no nested values: `input_question` for `input.question`."""
    return tuple(f"{outer}_{name}" for name in names if f"{outer}_{name}" not in REPLIES)
