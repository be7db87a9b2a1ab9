"""Replies of agents, and the usage of agent and judge."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, to_builtins
from msgspec.structs import force_setattr, replace

from evalspec.base.errors import FailureCause
from evalspec.base.foreign_text import normalize
from evalspec.model.base import Number, Record
from evalspec.model.samples import Sample
from evalspec.model.spans import Span
from evalspec.model.tool_calls import ToolCall
from evalspec.model.usage import Usage, add_up

_DIGEST_LENGTH = 16

Timings = Annotated[
    Mapping[str, Number],
    Meta(
        description="Time in ms by stage of the retriever, or to the `first_token` of a stream. Empty: not known, or "
        "in `attempts`."
    ),
]
Oddities = Annotated[
    Mapping[str, int],
    Meta(
        description="Irregularities of a retriever's hits that are not errors: number by kind. Empty: none, or in "
        "`attempts`."
    ),
]
FinishReason = Annotated[
    str | None,
    Meta(
        description="Why the answer ended, as the agent reports it, such as `stop` or `length`; null: not reported, "
        "or in `attempts`."
    ),
]

NOT_ASKED = "not asked: "
"""Prefix of the error of a sample that was skipped because the agent was down."""

QUESTION_CHANGED = f"{NOT_ASKED}the question has changed since the stored reply"
"""Error of a sample whose stored reply is left out, because it answers another question."""

OUT_OF_TIME = f"{NOT_ASKED}the run stopped at its time limit"
"""Beginning of the error of a sample that was not asked any more."""

QUERY_INPUT = "query_input"
"""The key for the structured input of a query, in the metadata that a format keeps under its own key."""

INPUT_FILES = "input_files"
"""The key beside it for the files that the input refers to: hash and size by reference."""

SIMULATED_USER = "simulated user"
"""The name under which a run counts what the model uses that plays its users. No metric has it."""

_EXCERPT = 70
"""How many characters of an answer a reason shows."""

_COMPLETE = ("complete", "completed", "end_turn", "eos", "eos_token", "function_call", "stop", "stop_sequence")
_CALLED_A_TOOL = ("tool_call", "tool_calls", "tool_use")
_TOO_LONG = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "incomplete")
_FILTERED = ("content_filter", "content_filtered", "guardrail_intervened", "model_armor", "refusal", "safety")
_FILTERED_BY_GEMINI = ("blocklist", "image_safety", "language", "prohibited_content", "recitation", "spii")
_BROKEN_OFF = ("abort", "error", "insufficient_system_resource", "pause_turn")
_CUT_OFF = frozenset({*_TOO_LONG, *_FILTERED, *_FILTERED_BY_GEMINI, *_BROKEN_OFF})
_FINISH_REASONS = _CUT_OFF.union(_COMPLETE, _CALLED_A_TOOL)
"""Finish reasons of OpenAI, Azure, Anthropic, Bedrock, Gemini, Mistral, Cohere and compatible servers."""


STAGES = ("embed", "retrieve", "rerank")
"""The stages of a retriever, in order. A retriever may report further stages of its own."""
TOTAL = "total"
"""The name of the latency of all stages together."""
FIRST_TOKEN = "first_token"  # noqa: S105 - no password
"""The stage of an agent's stream up to its first text."""


class SearchTrace(Record, frozen=True):
    """Details of a reply beside its content.

    `timings_ms`: known times of a retriever's stages `embed`, `retrieve` and `rerank`, or of an agent's `first_token`.
    `oddities`: counts, by kind, of anomalies of the hits that are not errors.
    """

    timings_ms: Timings = {}
    oddities: Oddities = {}


class World(Record, frozen=True):
    """The state of the world that an agent acts on, before and after an attempt; UNSET: nobody looked."""

    before: Any | UnsetType = UNSET
    after: Any | UnsetType = UNSET


class TracedRequest(Record, frozen=True, omit_defaults=True):
    """The OpenTelemetry trace of a request. Ids are lowercase hex.

    `answered`: the spans that evalspec named as parents when it sent what was answered, not the tries before.
    `failed`: those of the tries before, whose spans have the same trace id.
    """

    trace_id: str
    answered: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def is_whole(self, parents: Collection[str | None]) -> bool:
        """Return whether each answered part has a span right below it. `parents`: of the spans that arrived."""
        return bool(self.answered) and all(one in parents for one in self.answered)


class ModelCall(Record, frozen=True, omit_defaults=True):
    """One call of a model for a reply. None: that is not seen."""

    latency_ms: Number | None = None
    usage: Usage | None = None


class AgentReply(Record, frozen=True, omit_defaults=True):
    """A reply of the agent. None: the reply lacks the field. An empty tuple: the reply has the field, and it is empty.

    `latency_ms`: from sending the request to the last byte of the reply, without time in evalspec's queue.
    `tool_calls`: empty if the agent is known to have made none. `finish_reason`: why the answer ended, as the agent
    reports it. `steps`: how often a model was called; None if that is not seen. `model_calls`: each of
    them, as far as they are seen one by one. `turns`: of a conversation; the other
    fields are about the whole. `world`: what the agent did to it. `trace`: the time to the first token of a stream, or
    details of a retriever's query. `candidate_ids`: the documents before reranking, None without reranking. `deep_ids`:
    a longer ranking of a retriever, searched if a relevant document is missing. `unread_usage`: the keys of a usage
    that is given, but has no token counts that evalspec can read. `ended`: how the simulated user ended the
    conversation: `stopped` by itself, or after `max turns`. `traced`: the trace of the request. `prompt_contexts`: the
    contexts that were in the prompt of the answer; None if that is not seen.
    """

    response: str
    retrieved_contexts: tuple[str, ...] | None = None
    retrieved_context_ids: tuple[str, ...] | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    usage: Usage | None = None
    latency_ms: Number | None = None
    candidate_ids: tuple[str, ...] | None = None
    deep_ids: tuple[str, ...] | None = None
    trace: SearchTrace | None = None
    finish_reason: str | None = None
    steps: int | None = None
    model_calls: tuple[ModelCall, ...] = ()
    turns: "tuple[AgentTurn, ...]" = ()
    world: World | None = None
    unread_usage: str | None = None
    ended: str | None = None
    traced: TracedRequest | None = None
    prompt_contexts: tuple[str, ...] | None = None

    def without_texts(self) -> "AgentReply":
        """Return the reply with measurements only. Its response is empty."""
        return AgentReply(
            "",
            usage=self.usage,
            latency_ms=self.latency_ms,
            trace=self.trace,
            finish_reason=known_finish_reason(self.finish_reason),
            steps=self.steps,
            model_calls=self.model_calls,
            unread_usage=None if self.unread_usage is None else "its keys were not kept",
            ended=self.ended,
            traced=self.traced,
        )

    @property
    def answer(self) -> str | None:
        """The response. None if there is no answer: for the ranking of a retriever, and where calls are the reply."""
        is_ranking = self.trace is not None and FIRST_TOKEN not in self.trace.timings_ms
        return None if (is_ranking or self.ends_in_calls) and not self.response else self.response

    @property
    def ends_in_calls(self) -> bool:
        """Whether the agent stopped to have tools called, and nobody called them, so there is no answer yet."""
        return bool(self.tool_calls and not self.tool_calls[-1].is_answered and not self.response.strip())


class AgentTurn(Record, frozen=True):
    """One turn of a conversation as it was: what the user said, and the agent's reply."""

    user: str
    reply: AgentReply


def join_turns(turns: Sequence[AgentTurn]) -> AgentReply:
    """Return a conversation as one reply."""
    return replace(join_replies([turn.reply for turn in turns]), turns=tuple(turns))


def join_replies(replies: Sequence[AgentReply]) -> AgentReply:
    """Return several replies as one: the last answer, all calls, and the sums of what was measured.

    A sum is unknown if one of its parts is. If some replies show calls, the others made none.
    """
    calls: list[ToolCall] = []
    for reply in replies:
        first = calls[-1].step + 1 if calls else 0
        calls += [replace(call, step=first + call.step) for call in reply.tool_calls or ()]
    return replace(
        replies[-1],
        tool_calls=tuple(calls) or (None if any(reply.tool_calls is None for reply in replies) else ()),
        usage=add_up([reply.usage for reply in replies]),
        latency_ms=_add_known([reply.latency_ms for reply in replies]),
        steps=_add_known([reply.steps for reply in replies]),
        model_calls=tuple(call for reply in replies for call in reply.model_calls),
        unread_usage=next((reply.unread_usage for reply in replies if reply.unread_usage is not None), None),
    )


def _add_known(parts: Sequence[Any]) -> Any:
    return None if None in parts else sum(parts)


def is_cut_off(finish_reason: str) -> bool | None:
    """Return whether this finish reason means that the answer was cut off or filtered. None for an unknown reason."""
    word = finish_reason.strip().lower().replace("-", "_")
    return word in _CUT_OFF if word in _FINISH_REASONS else None


def known_finish_reason(finish_reason: str | None) -> str | None:
    """Return a known finish reason, else None. An unknown one could be arbitrary text from the agent."""
    return None if finish_reason is None or is_cut_off(finish_reason) is None else finish_reason


class Exchange(Record, frozen=True):
    """One sample with its reply or its error: the input of every metric. One of `reply` and `error` is set.

    `unreachable`: no connection could be made, so the error says nothing about the agent's quality. `retries`: failed
    requests before this reply or error; None if it was recorded elsewhere. `question_digest`, `request_digest`: of what
    was asked; None if unknown. `cause`: of an error. `user_errors`: how often the attempt was void or failed because of
    the simulated user. `spans`: of the requests, if they were received. `untraced`: why the trace of the request lacks
    fields of the reply that it should have, by field. `given_digest`: `answer_digest` of the answer as it was given,
    if it is known.
    """

    sample: Sample
    reply: AgentReply | None = None
    error: str | None = None
    unreachable: bool = False
    retries: int | None = None
    question_digest: str | None = None
    request_digest: str | None = None
    cause: FailureCause = FailureCause.REPLY
    user_errors: int = 0
    untraced: Mapping[str, str] = {}
    spans: tuple[Span, ...] = ()
    given_digest: str | None = None

    @property
    def response(self) -> str:
        """The agent's answer, empty without a reply. Only metrics that score failures get exchanges without a reply."""
        return self.reply.response if self.reply else ""

    @property
    def answer(self) -> str | None:
        """The agent's answer. None without a reply, and for a ranking."""
        return self.reply.answer if self.reply else None

    @property
    def answer_digest(self) -> str | None:
        """A hash of the answer's words, by which equal answers are found; None without an answer."""
        if self.given_digest is not None:
            return self.given_digest
        answer = self.answer
        return _digest(" ".join(answer.split())) if answer else None

    def with_digest(self) -> "Exchange":
        """Note the `answer_digest`, which is asked for several times, and return the exchange.

        It is set in place although exchanges are frozen: a copy would take as long as the digest.
        """
        force_setattr(self, "given_digest", self.answer_digest)
        return self

    @property
    def answered(self) -> str:
        """The beginning of the answer in quotes, on one line, for the reason of a low score."""
        return _quote_beginning(self.response)

    @property
    def retrieved_contexts(self) -> tuple[str, ...] | None:
        """The passages in the reply, or else the sample's own `context`."""
        if self.reply and self.reply.retrieved_contexts is not None:
            return self.reply.retrieved_contexts
        return self.sample.retrieved_contexts

    @property
    def prompt_contexts(self) -> tuple[str, ...] | None:
        """The passages that the answer could rest on: those in the prompt, if that is seen, else all retrieved ones."""
        seen = self.reply.prompt_contexts if self.reply else None
        return self.retrieved_contexts if seen is None else seen

    def lacks_traced(self, field: str) -> str | None:
        """Return why a field of the reply is unknown that a trace should have given; None: it is known, or no trace is
        expected to give it."""
        is_known = getattr(self.reply, field, None) is not None
        is_known |= field == "retrieved_contexts" and self.sample.retrieved_contexts is not None
        return None if is_known else self.untraced.get(field)

    @property
    def ranking(self) -> tuple[str, ...] | None:
        """Ids of the retrieved documents in the order of the reply, best first. None if the reply has none."""
        return self.reply.retrieved_context_ids if self.reply else None

    @property
    def candidates(self) -> tuple[str, ...] | None:
        """The ranking before reranking. None without reranking."""
        return self.reply.candidate_ids if self.reply else None


OF_RETRIEVAL = ("retrieved_context_ids", "retrieved_contexts", "candidate_ids", "trace")
TRACED_FIELDS = (*OF_RETRIEVAL, "tool_calls", "steps", "usage")
"""The fields of a reply that its trace may give."""
NEVER_COMPLETED = "the run ended before the trace of this attempt was complete; run it again"


def add_trace(
    exchange: Exchange, spans: Iterable[Span], found: Sequence[AgentReply] | None, untraced: Mapping[str, str]
) -> Exchange:
    """Return an exchange with what its traces say, and their spans. What the reply itself says wins.

    `found`: what each request shows, as a reply without an answer; None: its traces were never complete.
    """
    reply = exchange.reply
    traced = list_traced(reply)
    if reply is None or not traced:
        return exchange
    own = {part.traced.trace_id for part in traced if part.traced is not None}
    kept = tuple(span for span in spans if span.trace_id in own)
    if found is None or len(found) != len(traced):
        return replace(exchange, untraced=dict.fromkeys(TRACED_FIELDS, NEVER_COMPLETED), spans=kept)
    rest = iter(found)
    parts = [_merge(part, next(rest)) if part.traced else part for part in _list_parts(reply)]
    if reply.turns:
        turns = [AgentTurn(turn.user, part) for turn, part in zip(reply.turns, parts, strict=True)]
        whole = join_turns(turns)
        parts = [_merge(replace(reply, turns=whole.turns), whole)]
    return replace(exchange, reply=parts[0], untraced=untraced, spans=kept)


def _list_parts(reply: AgentReply) -> list[AgentReply]:
    return [turn.reply for turn in reply.turns] or [reply]


def list_traced(reply: AgentReply | None) -> list[AgentReply]:
    """Return the replies to the requests that have a trace: those of the turns, or the reply itself."""
    return [] if reply is None else [part for part in _list_parts(reply) if part.traced is not None]


def _merge(reply: AgentReply, found: AgentReply) -> AgentReply:
    names = (name for name in TRACED_FIELDS if name != "trace" and getattr(reply, name) is None)
    added: dict[str, Any] = {name: getattr(found, name) for name in names}
    if "retrieved_contexts" in added:
        added["prompt_contexts"] = found.prompt_contexts
    if found.trace is not None:
        own = reply.trace or SearchTrace()
        added["trace"] = replace(own, timings_ms={**found.trace.timings_ms, **own.timings_ms})
    return replace(reply, **added)


def compute_question_digest(sample: Sample) -> str:
    """Return a hash of what a sample asks: its messages, and the structured input of its query with its files.

    A question as text is one message of the user. Texts that differ only in their form of Unicode are equal.
    """
    asked = sample.user_input
    messages = [["user", asked]] if isinstance(asked, str) else [[one.role, one.content] for one in asked]
    messages += [["user", turn.user] for turn in sample.turns[1:]]
    messages += [["simulated user", to_builtins(sample.user)]] if sample.user else []
    kept = [value for value in sample.metadata.values() if isinstance(value, Mapping) and QUERY_INPUT in value]
    inputs = [value[key] for value in kept for key in (QUERY_INPUT, INPUT_FILES) if key in value]
    return _digest_json([messages, inputs])


def compute_request_digest(request: Any) -> str:
    """Return a hash of a request as a JSON value, which has no headers and no secrets, so that both may change."""
    return _digest_json(request)


def _digest_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return _digest(normalize("NFC", text))


@lru_cache(maxsize=1)  # several metrics say so of the same answer
def _quote_beginning(answer: str) -> str:
    words = " ".join(answer.split(maxsplit=_EXCERPT // 2))  # the rest is not shown
    return f"answered '{words[: _EXCERPT - 1]}…'" if len(words) > _EXCERPT else f"answered '{words}'"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
