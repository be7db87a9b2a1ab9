"""What a format has no place for, as data: each kind of loss with how to see it in a sample."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evalspec.datasets.base import DatasetContent, DatasetDefaults
from evalspec.model import Sample


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is lost of the samples in which `occurs_in` says that there is such."""

    what: str
    occurs_in: Callable[[Sample], bool]


_CONVERSATIONS = Loss(
    "the conversation before the last question", lambda sample: not isinstance(sample.user_input, str)
)
BLANK_QUESTIONS = Loss("samples whose question is blank", lambda sample: not sample.question.strip())
BLANK_IDS = Loss("samples whose id is blank", lambda sample: not sample.id.strip())
ANSWERS = Loss("the right answers", lambda sample: bool(sample.references))
_CONTEXTS = Loss("the passages that the agent had", lambda sample: sample.retrieved_contexts is not None)
_REFERENCE_CONTEXTS = Loss("the passages that hold the answer", lambda sample: sample.reference_contexts is not None)
_ANSWERABLE = Loss("which questions can be answered", lambda sample: sample.answerable is not None)
_TAGS = Loss("the tags", lambda sample: bool(sample.tags))
METADATA = Loss("the metadata", lambda sample: bool(sample.metadata))
GROUPS = Loss("which of the relevant documents stand for each other", lambda sample: sample.groups is not None)
GRADES = Loss(
    "grades other than 1, and that a document is judged not relevant",
    lambda sample: any(grade != 1 for grade in (sample.qrels or {}).values()),
)
UNJUDGED = Loss("that nobody said which documents are relevant", lambda sample: sample.qrels is None)

NATIVE_ONLY = (_CONVERSATIONS, _CONTEXTS, _REFERENCE_CONTEXTS, _ANSWERABLE, _TAGS)
"""What no format but the native one has a place for."""


def list_sample_losses(samples: Sequence[Sample], losses: Iterable[Loss]) -> list[str]:
    """One line for each loss that occurs, with the number of samples."""
    looked_for = tuple(losses)
    counts = [0] * len(looked_for)
    for sample in samples:  # once: they may be on disk
        for place, loss in enumerate(looked_for):
            counts[place] += loss.occurs_in(sample)
    found = zip(looked_for, counts, strict=True)
    return [f"{loss.what} ({count} of {len(samples)} samples)" for loss, count in found if count]


def list_default_losses(content: DatasetContent) -> list[str]:
    """The loss of what a dataset says of its own evaluation, for a format that can say nothing."""
    if content.defaults == DatasetDefaults():
        return []
    return ["the dataset's own defaults (cut-offs, thresholds, settings)"]


def list_document_losses(content: DatasetContent) -> list[str]:
    """The loss of the documents, for a format that has no place for them."""
    return [f"the text of {len(content.documents)} documents"] if content.documents else []
