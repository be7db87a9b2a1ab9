"""What comes back: replies, and what they and the judge consumed."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from evalspec.model.base import Number, Record
from evalspec.model.samples import Sample

Timings = Annotated[
    Mapping[str, Number],
    Meta(description="What the stages of a retriever took in ms; empty: none was asked, or it does not tell."),
]
Oddities = Annotated[
    Mapping[str, int], Meta(description="What was odd about a retriever's hits and is no error, by kind: how often.")
]
FinishReason = Annotated[
    str | None,
    Meta(description="Why the answer ended, in the agent's word; null: it does not say, or there are several."),
]

_EXCERPT = 70
"""Characters of an answer that a reason shows."""

_COMPLETE = ("complete", "completed", "end_turn", "eos", "eos_token", "function_call", "stop", "stop_sequence")
_CALLED_A_TOOL = ("tool_call", "tool_calls", "tool_use")
_TOO_LONG = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "incomplete")
_FILTERED = ("content_filter", "content_filtered", "guardrail_intervened", "model_armor", "refusal", "safety")
_FILTERED_BY_GEMINI = ("blocklist", "image_safety", "language", "prohibited_content", "recitation", "spii")
_BROKEN_OFF = ("abort", "error", "insufficient_system_resource", "pause_turn")
_CUT_OFF = frozenset({*_TOO_LONG, *_FILTERED, *_FILTERED_BY_GEMINI, *_BROKEN_OFF})
_FINISH_REASONS = _CUT_OFF.union(_COMPLETE, _CALLED_A_TOOL)
"""Finish reasons of OpenAI, Azure, Anthropic, Bedrock, Gemini, Mistral, Cohere and the servers that imitate them."""


class Usage(Record, frozen=True):
    """Tokens that one call consumed, as the service counted them."""

    input_tokens: int
    output_tokens: int

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


class JudgeUsage(Record, frozen=True):
    """What the judge consumed; tokens as the service counted them."""

    calls: Annotated[int, Meta(description="Requests that were answered.")] = 0
    retries: Annotated[int, Meta(description="Attempts that had to be repeated.")] = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: Annotated[
        int, Meta(description="Answers for which the judge told no tokens: the sums are too low by these.")
    ] = 0

    def __add__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(
            self.calls + other.calls,
            self.retries + other.retries,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.uncounted + other.uncounted,
        )

    def __sub__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(
            self.calls - other.calls,
            self.retries - other.retries,
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.uncounted - other.uncounted,
        )


STAGES = ("embed", "retrieve", "rerank")
"""What a retriever does for a query, in this order; one may have further stages of its own."""
TOTAL = "total"
"""How the latency of all stages together is called beside theirs."""


class SearchTrace(Record, frozen=True):
    """What asking a retriever showed beside its ranking.

    `timings_ms`: of the stages `embed`, `retrieve` and `rerank`, as far as they are known. `oddities`: what was odd
    about the hits and is no error, by kind, with how often.
    """

    timings_ms: Timings = {}
    oddities: Oddities = {}


class AgentReply(Record, frozen=True):
    """What the agent answered. None means that the reply does not tell, an empty tuple that there was nothing.

    `latency_ms`: from sending the request to the last byte of the reply, time in our own queue excluded.
    `finish_reason`: why the answer ended, in the agent's own word. Of a retriever's answer: `candidate_ids`, the
    documents before they were reranked, None where nothing was; `deep_ids`, the ranking further down, looked up where
    something relevant was missing; and the `trace`.
    """

    response: str
    retrieved_contexts: tuple[str, ...] | None = None
    retrieved_context_ids: tuple[str, ...] | None = None
    tool_calls: tuple[Any, ...] | None = None
    usage: Usage | None = None
    latency_ms: Number | None = None
    candidate_ids: tuple[str, ...] | None = None
    deep_ids: tuple[str, ...] | None = None
    trace: SearchTrace | None = None
    finish_reason: str | None = None


def is_cut_off(finish_reason: str) -> bool | None:
    """Whether an answer that ended for this reason is incomplete: cut off or filtered. None for an unknown word."""
    word = finish_reason.strip().lower().replace("-", "_")
    return word in _CUT_OFF if word in _FINISH_REASONS else None


def known_finish_reason(finish_reason: str | None) -> str | None:
    """The finish reason where it is a known word; None for any other, which could be a text of the agent's."""
    return None if finish_reason is None or is_cut_off(finish_reason) is None else finish_reason


class Exchange(Record, frozen=True):
    """One sample and what came back for it: the one thing that a metric is given. One of reply and error is set.

    `unreachable`: there was nobody to ask, so the error says nothing of how the agent works.
    """

    sample: Sample
    reply: AgentReply | None = None
    error: str | None = None
    unreachable: bool = False

    @property
    def response(self) -> str:
        """The agent's answer; metrics are asked only about exchanges that have a reply, unless they score failures."""
        return self.reply.response if self.reply else ""

    @property
    def answered(self) -> str:
        """The beginning of the answer in quotes, on one line: what a reader of a low score wants to see."""
        words = " ".join(self.response.split())
        return f"answered '{words[: _EXCERPT - 1]}…'" if len(words) > _EXCERPT else f"answered '{words}'"

    @property
    def retrieved_contexts(self) -> tuple[str, ...] | None:
        """The passages that the agent had: those in its reply, or else the sample's own `context`."""
        if self.reply and self.reply.retrieved_contexts is not None:
            return self.reply.retrieved_contexts
        return self.sample.retrieved_contexts

    @property
    def ranking(self) -> tuple[str, ...] | None:
        """Ids of the retrieved documents in the reply's own order, best first; None where the reply does not tell."""
        return self.reply.retrieved_context_ids if self.reply else None

    @property
    def candidates(self) -> tuple[str, ...] | None:
        """The ranking before reranking; None where nothing was reranked."""
        return self.reply.candidate_ids if self.reply else None
