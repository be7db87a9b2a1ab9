"""Samples, and the documents of a corpus."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from evalspec.model.base import Record
from evalspec.model.tool_calls import ExpectedCall

CLAIMS_KEY = "claims"
"""The metadata key for the atomic statements of the expected answer."""


class Need(StrEnum):
    """What a metric requires: data, or one of two services (judge and embeddings)."""

    EXPECTED = "expected"
    CONTEXT = "context"
    REFERENCE_CONTEXTS = "reference_contexts"
    RELEVANT = "relevant"
    RETRIEVED_IDS = "retrieved ids"
    CANDIDATE_IDS = "ids before reranking"
    EXPECTED_TOOLS = "expected_tools"
    EXPECTED_STATE = "expected_state"
    CHECKS = "checks"
    JUDGE = "judge"
    EMBEDDINGS = "embeddings"


class Message(Record, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str


def render_input(asked: str | Sequence[Message]) -> str | list[dict[str, str]]:
    """Return a question as it is, and a conversation as JSON has it: `[{"role": …, "content": …}]`."""
    return asked if isinstance(asked, str) else [{"role": turn.role, "content": turn.content} for turn in asked]


class Check(Record, frozen=True, omit_defaults=True):
    """A metric without a judge that a sample's reply has to pass, with its parameters.

    `threshold`: the lowest value that is right, or the highest if lower is better; None: the metric's best. `negate`:
    whether it is right exactly if it would be wrong.
    """

    name: str
    parameters: Mapping[str, Any] = {}
    weight: float = 1.0
    threshold: float | None = None
    negate: bool = False


class Turn(Record, frozen=True, omit_defaults=True):
    """One turn of a script: what the user says, and what is right of the agent's reply to it. Fields as in a Sample."""

    user: str
    references: tuple[str, ...] = ()
    expected_tools: tuple[ExpectedCall, ...] | None = None
    checks: tuple[Check, ...] = ()


class SimulatedUser(Record, frozen=True, omit_defaults=True):
    """Whom a model plays. `secrets`: what it knows and must not say. `stop_when`: when it ends the conversation."""

    goal: str
    facts: tuple[str, ...] = ()
    persona: str | None = None
    secrets: tuple[str, ...] = ()
    max_turns: int = 8
    stop_when: str | None = None


class ExpectedState(Record, frozen=True, omit_defaults=True):
    """What the world should be like after an attempt.

    `values`: by JSONPath query, a JSON value that may have matchers. `nothing_else`: whether all else has to be as
    before; None: as the manifest says. `ignore`: queries of what may change anyway. `within`: seconds; None: as the
    manifest says.
    """

    values: Mapping[str, Any]
    nothing_else: bool | None = None
    ignore: tuple[str, ...] = ()
    within: float | None = None


_NO_ACTS = ((), None, None, None, None, None, ())


class Sample(Record, frozen=True, omit_defaults=True):
    """One question of a dataset with its ground truth.

    `references`: right answers; the first one is `expected`. `qrels`: {document id: grade}; grade 0 is judged not
    relevant, and missing ids are unjudged. `groups`: AND/OR ground truth; ((a, b), (c,)) means that (a or b) and c are
    needed, and every id in it has grade 1 in `qrels`. `line`: line in the file, from 1. `answerable`: whether the
    documents contain an answer; None if the dataset does not say. `digest`: hash of everything that a score may depend
    on; None if unknown (datasets.selection.add_digest). `slices`: slices with a threshold that the sample belongs to,
    computed by the plan, because metadata may be redacted later. `unit`: the id of a sample that it is a copy of, or is
    connected with by copies and clusters; None without copies (planning.copies). `expected_tools`: the calls of tools
    that a right agent makes, in order; none if empty. `max_steps`: calls of the model that it needs at most.
    `turns`: a scripted conversation; `user_input` has what precedes it and the first turn. `user`: a goal in
    place of a script; `user_input` ends with it. `session`: of the attempt that is under way. `checks`: of the last
    answer. `has_words`: False if the question only describes an input that is no text, such as a picture or filters.
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
    unit: str | None = None
    expected_tools: tuple[ExpectedCall, ...] | None = None
    forbidden_tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    turns: tuple[Turn, ...] = ()
    expected_state: ExpectedState | None = None
    session: str | None = None
    checks: tuple[Check, ...] = ()
    user: SimulatedUser | None = None
    has_words: bool = True

    @property
    def reference(self) -> str | None:
        """The first right answer, or None."""
        return self.references[0] if self.references else None

    @property
    def question(self) -> str:
        """The text of the last user turn, for metrics that take one string."""
        if isinstance(self.user_input, str):
            return self.user_input
        return next(message.content for message in reversed(self.user_input) if message.role == "user")

    def at_turn(self, place: int, said: Sequence[Message]) -> "Sample":
        """Return the sample that a turn is. `said`: the conversation before it.

        What the sample says about the answer is about the last one.
        """
        turn, is_last = self.turns[place], place == len(self.turns) - 1
        return replace(
            self,
            user_input=(*said, Message("user", turn.user)),
            references=turn.references or (self.references if is_last else ()),
            expected_tools=turn.expected_tools,
            checks=(*turn.checks, *(self.checks if is_last else ())),
            turns=(),
        )

    def as_told(self, said: Sequence[str]) -> "Sample":
        """Return the sample with what its simulated user said as its script; itself if nobody simulates one."""
        if self.user is None or not said:
            return self
        asked = (*self.opening, Message("user", said[0])) if self.opening else said[0]
        return replace(self, user_input=asked, turns=tuple(map(Turn, said)))

    def list_truth(self) -> tuple[Any, ...]:
        """Return the question and what is right of the answer to it."""
        return (
            self.user_input,
            self.references,
            self.retrieved_contexts,
            self.reference_contexts,
            self.qrels,
            self.groups,
            self.answerable,
        )

    def list_acts(self) -> tuple[Any, ...]:
        """Return what a right agent does besides answering one question; empty for most samples."""
        acts = (
            self.turns,
            self.user,
            self.expected_tools,
            self.forbidden_tools,
            self.max_steps,
            self.expected_state,
            self.checks,
        )
        return () if acts == _NO_ACTS else acts

    @property
    def opening(self) -> tuple[Message, ...]:
        """The messages before the first turn of a conversation."""
        return () if isinstance(self.user_input, str) else self.user_input[:-1]

    def without_texts(self, metadata_kept: Collection[str]) -> "Sample":
        """Return the sample without texts, and with these metadata keys only."""
        return Sample(
            self.id,
            "",
            tags=self.tags,
            metadata={key: value for key, value in self.metadata.items() if key in metadata_kept},
            line=self.line,
            answerable=self.answerable,
            digest=self.digest,
            slices=self.slices,
            unit=self.unit,
        )


class Document(Record, frozen=True):
    """One document of a corpus."""

    id: str
    text: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = {}
