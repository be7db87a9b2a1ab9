"""The kinds of loss of a conversion, and how to detect each in a sample."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from evalspec.inputs.datasets.base import DatasetContent, DatasetDefaults
from evalspec.model import Sample


class Loss(Struct, frozen=True):
    """A kind of loss. `occurs_in`: whether a sample is affected."""

    what: str
    occurs_in: Callable[[Sample], bool]


_CONVERSATIONS = Loss(
    "the conversation before the last question", lambda sample: not isinstance(sample.user_input, str)
)
BLANK_QUESTIONS = Loss("samples whose question is blank", lambda sample: not sample.question.strip())
BLANK_IDS = Loss("samples whose id is blank", lambda sample: not sample.id.strip())
ANSWERS = Loss("the right answers", lambda sample: bool(sample.references))
_CONTEXTS = Loss("the passages that the agent had", lambda sample: sample.retrieved_contexts is not None)
_REFERENCE_CONTEXTS = Loss("the passages that contain the answer", lambda sample: sample.reference_contexts is not None)
_ANSWERABLE = Loss("which questions can be answered", lambda sample: sample.answerable is not None)
_TAGS = Loss("the tags", lambda sample: bool(sample.tags))
_TOOLS = Loss(
    "which tools should be called",
    lambda sample: any(one is not None for one in (sample.expected_tools, sample.forbidden_tools, sample.max_steps)),
)
_STATES = Loss("what the world should be like afterwards", lambda sample: sample.expected_state is not None)
_SCRIPTS = Loss("what the user says after the first turn", lambda sample: len(sample.turns) > 1)
_USERS = Loss("whom a model plays", lambda sample: sample.user is not None)
_CHECKS = Loss("the checks", lambda sample: bool(sample.checks))
WORDLESS = Loss("what queries without words ask with", lambda sample: not sample.has_words)
METADATA = Loss("the metadata", lambda sample: bool(sample.metadata))
GROUPS = Loss("which relevant documents are alternatives", lambda sample: sample.groups is not None)
GRADES = Loss(
    "grades other than 1, and that a document is judged not relevant",
    lambda sample: any(grade != 1 for grade in (sample.qrels or {}).values()),
)
UNJUDGED = Loss("that relevance is unknown", lambda sample: sample.qrels is None)

NATIVE_ONLY = (
    *(_CONVERSATIONS, _CONTEXTS, _REFERENCE_CONTEXTS, _ANSWERABLE, _TAGS, _TOOLS, _STATES, _SCRIPTS),
    *(_USERS, _CHECKS, WORDLESS),
)
"""What only the native format can represent."""


def list_sample_losses(samples: Sequence[Sample], losses: Iterable[Loss]) -> list[str]:
    """Return a line for each loss that occurs, with the number of samples."""
    looked_for = tuple(losses)
    counts = [0] * len(looked_for)
    for sample in samples:  # iterate only once: they may be on disk
        for place, loss in enumerate(looked_for):
            counts[place] += loss.occurs_in(sample)
    found = zip(looked_for, counts, strict=True)
    return [f"{loss.what} ({count} of {len(samples)} samples)" for loss, count in found if count]


def list_default_losses(content: DatasetContent) -> list[str]:
    """Return the loss of a dataset's defaults, for a format without them."""
    if content.defaults == DatasetDefaults():
        return []
    return ["the dataset's own defaults (cutoffs, thresholds, settings)"]


def list_document_losses(content: DatasetContent) -> list[str]:
    """Return the loss of the documents, for a format without them."""
    return [f"the text of {len(content.documents)} documents"] if content.documents else []
