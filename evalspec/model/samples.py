"""What is asked: samples and the documents that they are about."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from evalspec.model.base import Record

HIGHEST_GRADE = 999_999_999
"""Of a relevant document: nine digits, as many as the qrels of TREC may have."""


class Need(StrEnum):
    """What a metric cannot be computed without. All but the last two are data, those are services."""

    EXPECTED = "expected"
    CONTEXT = "context"
    REFERENCE_CONTEXTS = "reference_contexts"
    RELEVANT = "relevant"
    RETRIEVED_IDS = "retrieved ids"
    CANDIDATE_IDS = "ids before reranking"
    JUDGE = "judge"
    EMBEDDINGS = "embeddings"


class Message(Record, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


class Sample(Record, frozen=True):
    """One question of a dataset, with all that is known about its right answer.

    `references`: gold answers, the first being the one given as `expected`. `qrels`: {document id: grade}, where 0
    is judged not relevant and absent is unjudged. `groups`: AND/OR ground truth, ((a, b), (c,)) meaning that (a or b)
    and c are needed; every id in it has grade 1 in `qrels`. `line`: where it stands in its file, counted from 1.
    `answerable`: whether the documents hold an answer; None where the dataset does not say.
    `digest`: a hash of all that a score may depend on, None where it is not known (datasets.selection.add_digest).
    `slices`: those with a threshold that it belongs to, as a plan finds them: its metadata may be hidden afterwards.
    """

    id: str
    user_input: str | tuple[Message, ...]
    references: tuple[str, ...] = ()
    retrieved_contexts: tuple[str, ...] | None = None
    reference_contexts: tuple[str, ...] | None = None
    qrels: Mapping[str, int] | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    line: int | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    answerable: bool | None = None
    digest: str | None = None
    slices: tuple[str, ...] = ()

    @property
    def reference(self) -> str | None:
        """The gold answer, or None where the dataset gives none."""
        return self.references[0] if self.references else None

    @property
    def question(self) -> str:
        """The text of the last user turn: what a metric that takes one string is given."""
        if isinstance(self.user_input, str):
            return self.user_input
        return next(message.content for message in reversed(self.user_input) if message.role == "user")


class Document(Record, frozen=True):
    """One document of a corpus, as far as a dataset file brings it."""

    id: str
    text: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = {}
