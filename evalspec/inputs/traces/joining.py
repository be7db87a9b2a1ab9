"""What the trace of a request says about its reply, and what is unknown because the trace does not say it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.plural import name_some
from evalspec.inputs.traces.steps import read_steps
from evalspec.model import AgentReply, Exchange, SearchTrace
from evalspec.model.exchanges import OF_RETRIEVAL, TRACED_FIELDS, TracedRequest, list_traced
from evalspec.model.log import TraceRecord
from evalspec.model.spans import Span, StepKind, TraceStep
from evalspec.model.tool_calls import ToolCall
from evalspec.model.usage import add_up

LAST, UNION = "last", "union"
"""How to choose among several retrievals of a request; any other word is the name of one."""

FIELDS_OF: Mapping[StepKind, tuple[str, ...]] = {
    StepKind.RETRIEVAL: OF_RETRIEVAL,
    StepKind.TOOL: ("tool_calls",),
    StepKind.MODEL: ("steps", "usage"),
}
"""The fields of a reply that the steps of a kind give."""
_NOT_SEEN = {
    StepKind.RETRIEVAL: "no trace of the run has a span of a retrieval: is the retriever instrumented?",
    StepKind.TOOL: "no trace of the run has a span of a tool: are the tools instrumented?",
    StepKind.MODEL: "no trace of the run has a span of a model call: is the model instrumented?",
}
_COMPARED = ("retrieved_context_ids", "tool_calls", "usage")
_WORDS = re.compile(r"\w+")
_SHINGLE, _SHARE_IN_PROMPT = 8, 0.9


class TraceFacts(Struct):
    """What the trace of one request says. `reply`: a reply without an answer. `untraced`: why fields are unknown.

    `seen`: the kinds of steps in it.
    """

    reply: AgentReply
    untraced: dict[str, str] = field(default_factory=dict)
    seen: frozenset[StepKind] = frozenset()
    is_complete: bool = True


class TraceRules(Struct, frozen=True):
    """How a trace is read. `choice`: among several retrievals: `last`, `union`, the name of one, or None if there must
    be one. `passages`: texts of the corpus by id, for retrievals whose spans have ids only."""

    choice: str | None = None
    passages: Mapping[str, str] = {}


def read_facts(spans: Sequence[Span], request: TracedRequest, response: str, rules: TraceRules) -> TraceFacts:
    """Return what the spans of a request say.

    Only steps of its answered try count; tokens count for all tries. `response`: the answer.
    """
    everything = read_steps(spans)
    scopes = {span.span_id: span.scope for span in spans}
    everything = _without_twins(everything, scopes)
    steps, lost = _list_below(everything, spans, request)
    models = _without_inner(steps, StepKind.MODEL, outer=False)
    found = TraceFacts(AgentReply(""), seen=frozenset(step.kind for step in steps))
    _add_retrieval(found, steps, rules)
    _add_prompt(found, models, response)
    calls = [step.call for step in _without_inner(steps, StepKind.TOOL) if step.call is not None]
    usages = [step.usage for step in _without_inner(everything, StepKind.MODEL, outer=False)]
    known = {"tool_calls": tuple(_number(calls)) or None, "usage": add_up(usages), "steps": len(models) or None}
    if usages and known["usage"] is None:
        found.untraced["usage"] = "a span of a model call has no token counts"
    found.reply = replace(found.reply, **known)
    for kind in {StepKind.RETRIEVAL if step.kind is StepKind.RERANK else step.kind for step in lost} & FIELDS_OF.keys():
        _forget(found, kind)
    return found


def _forget(found: TraceFacts, kind: StepKind) -> None:
    """Make what steps of a kind give unknown, because some of them may be of a try that failed."""
    names = [name for name in (*FIELDS_OF[kind], "prompt_contexts") if name != "usage"]
    found.reply = replace(found.reply, **dict.fromkeys(names))
    found.untraced |= dict.fromkeys(names, f"the parent of a span of a {kind} is not in the trace, {_MAY_BE_FAILED}")


_MAY_BE_FAILED = "so it may be of a try of the request that failed"


def mark_incomplete(reason: str) -> TraceFacts:
    """Return what a trace says that is not complete: nothing."""
    return TraceFacts(AgentReply(""), dict.fromkeys(TRACED_FIELDS, reason), is_complete=False)


def settle_absent(facts: TraceFacts, seen: Collection[StepKind]) -> TraceFacts:
    """Return the facts with what it means that steps of a kind are absent.

    `seen`: the kinds in any trace of the run. If others have them, the agent did nothing of the kind; if none has, the
    kind is not instrumented.
    """
    reply, untraced = facts.reply, dict(facts.untraced)
    for kind, names in FIELDS_OF.items():
        absent = [name for name in names if getattr(reply, name) is None and name not in untraced]
        if kind in facts.seen or not absent:
            continue
        if kind in seen:
            reply = replace(reply, **{name: 0 if name == "steps" else () for name in absent if name not in _OPEN})
        else:
            untraced |= dict.fromkeys(absent, _NOT_SEEN[kind])
    return TraceFacts(reply, untraced, facts.seen, facts.is_complete)


_OPEN = ("candidate_ids", "trace", "usage")
"""What has no empty value."""


def describe_trace(key: tuple[str, str, int], exchange: Exchange, facts: Sequence[TraceFacts]) -> TraceRecord:
    """Return the record of what the traces of an attempt say. `facts`: of each of its requests."""
    numbered = enumerate(facts, 1)
    untraced = {
        name: reason if len(facts) == 1 else f"turn {number}: {reason}"
        for number, one in reversed(list(numbered))
        for name, reason in one.untraced.items()
    }
    pairs = list(zip(list_traced(exchange.reply), facts, strict=True))
    contradicts = [name for name in _COMPARED if any(_differ(name, reply, one.reply) for reply, one in pairs)]
    seen = sorted({kind for one in facts for kind in one.seen})
    is_complete = all(one.is_complete for one in facts)
    return TraceRecord(*key, tuple(one.reply for one in facts), untraced, tuple(seen), tuple(contradicts), is_complete)


def _differ(name: str, reply: AgentReply, found: AgentReply) -> bool:
    stated, seen = getattr(reply, name), getattr(found, name)
    if stated is None or seen is None:
        return False
    if name == "tool_calls":
        stated, seen = sorted(call.name for call in stated), sorted(call.name for call in seen)
    return bool(stated != seen)


def _list_below(
    steps: Sequence[TraceStep], spans: Sequence[Span], request: TracedRequest
) -> tuple[list[TraceStep], list[TraceStep]]:
    """Return the steps of the answered try, and those that may be of another one because their parent is lost.

    They are below a parent that evalspec named for the try. If no try failed, all steps are of the answered one.
    """
    parents = {span.span_id: span.parent_id for span in spans}
    below: dict[str | None, bool | None] = {None: None}
    below |= {**dict.fromkeys(request.answered, True), **dict.fromkeys(request.failed, False)}
    for start in parents:
        path: list[str] = []
        at: str | None = start
        while at not in below:
            below[at] = None  # until it is known, so that a circle of parents ends
            path.append(str(at))
            at = parents.get(str(at))
        below |= dict.fromkeys(path, below[at])
    lost = [step for step in steps if below[step.span_id] is None]
    if not request.failed:
        return list(steps), []
    return [step for step in steps if below[step.span_id]], lost


def _without_twins(steps: Sequence[TraceStep], scopes: Mapping[str, str]) -> tuple[TraceStep, ...]:
    """Return the steps without those that another instrumentation describes beside them, not inside.

    It does if it did not make its own span current: then both have the same parent, one happened while the other did,
    and they say the same.
    """
    twins: set[str] = set()
    paired: set[str] = set()
    beside: dict[Any, list[TraceStep]] = {}
    for step in steps:
        said = (step.usage, step.documents, step.call and (step.call.name, repr(step.call.arguments)))
        if step.kind in _TWICE and any(said):
            beside.setdefault((step.parent_id, step.kind, *said), []).append(step)
    for same in beside.values():
        for inner, outer in permutations(same, 2) if 1 < len(same) <= _MOST_ALIKE else ():
            is_within = outer.start_ms <= inner.start_ms and _end(inner) <= _end(outer)
            is_free = paired.isdisjoint((inner.span_id, outer.span_id))
            if is_within and is_free and scopes[outer.span_id] != scopes[inner.span_id]:
                twins.add(inner.span_id)
                paired |= {inner.span_id, outer.span_id}
    return tuple(step for step in steps if step.span_id not in twins)


_MOST_ALIKE = 50
_TWICE = (StepKind.MODEL, StepKind.TOOL, StepKind.RETRIEVAL, StepKind.RERANK)


def _end(step: TraceStep) -> float:
    return step.start_ms + step.duration_ms


def _without_inner(steps: Sequence[TraceStep], kind: StepKind, *, outer: bool = True) -> list[TraceStep]:
    """Return the steps of a kind, one for each that two instrumentations describe, one inside the other.

    `outer`: keep the outer one, else the inner one. If there is a step of another kind between them, they are two: a
    tool may be an agent that calls a model and tools.
    """
    by_id = {step.span_id: step for step in steps}
    inner: set[str] = set()
    enclosing: set[str] = set()
    for step in (one for one in steps if one.kind is kind):
        around = next((one for one in _list_above(step, by_id) if one.kind is not StepKind.OTHER), None)
        if around is not None and around.kind is kind:
            inner.add(step.span_id)
            enclosing.add(around.span_id)
    dropped = inner if outer else enclosing
    return [step for step in steps if step.kind is kind and step.span_id not in dropped]


def _list_above(step: TraceStep, by_id: Mapping[str, TraceStep]) -> Iterator[TraceStep]:
    """Yield the steps that a step is part of, from the inside. A circle of parents ends where it began."""
    passed, at = {step.span_id}, by_id.get(step.parent_id or "")
    while at is not None and at.span_id not in passed:
        yield at
        passed.add(at.span_id)
        at = by_id.get(at.parent_id or "")


def _number(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return calls with their steps counted from 0, without gaps."""
    numbers = {step: place for place, step in enumerate(sorted({call.step for call in calls}))}
    return [replace(call, step=numbers[call.step]) for call in calls]


def _add_retrieval(found: TraceFacts, steps: Sequence[TraceStep], rules: TraceRules) -> None:
    retrievals = _without_inner(steps, StepKind.RETRIEVAL)
    rerankers = _without_inner(steps, StepKind.RERANK)
    timed = {"embed": _without_inner(steps, StepKind.EMBEDDING), "retrieve": retrievals, "rerank": rerankers}
    timings = {stage: sum(step.duration_ms for step in some) for stage, some in timed.items() if some}
    found.reply = replace(found.reply, trace=SearchTrace(timings) if timings else None)
    if rerankers:
        found.seen |= {StepKind.RETRIEVAL}
    try:
        chosen = _choose(retrievals, rerankers, rules.choice)
    except ValueError as error:
        found.untraced |= dict.fromkeys(OF_RETRIEVAL, str(error))
        return
    if chosen:
        _add_documents(found, chosen, rules.passages)
    if len(chosen) == 1 and chosen[0].kind is StepKind.RERANK:
        begun = [step for step in steps if step.kind is StepKind.RETRIEVAL and step.start_ms <= chosen[0].start_ms]
        above = {step.span_id for step in _list_above(chosen[0], {step.span_id: step for step in steps})}
        before = [step for step in begun if step.span_id not in above]
        candidates = [document.id for document in (before[-1].documents or ())] if before else []
        if candidates and None not in candidates:
            found.reply = replace(found.reply, candidate_ids=tuple(map(str, candidates)))


def _choose(retrievals: Sequence[TraceStep], rerankers: Sequence[TraceStep], choice: str | None) -> Sequence[TraceStep]:
    """Return the steps whose documents count.

    Raises:
        ValueError: nothing says which of several.
    """
    every = sorted((*retrievals, *rerankers), key=_end)
    if choice == UNION:
        return retrievals
    if choice == LAST:
        return every[-1:]
    names = list(dict.fromkeys(step.name for step in every))
    if choice is not None:
        chosen = [step for step in every if step.name == choice]
        if every and not chosen:
            raise ValueError(f"no retrieval of the trace is named '{choice}'; it has {name_some(names)}")
        return chosen[-1:]
    if rerankers or len(retrievals) <= 1:
        return rerankers[-1:] or retrievals
    named = f"{len(retrievals)} retrievals: {name_some([step.name for step in retrievals])}"
    raise ValueError(f"the trace has {named}; set spec.api.traces.retrieval to last, union or the name of one")


def _add_documents(found: TraceFacts, chosen: Sequence[TraceStep], passages: Mapping[str, str]) -> None:
    """Add the ids and the texts of the retrieved documents, each document once."""
    silent = next((step for step in chosen if step.documents is None), None)
    if silent is not None:
        reason = f"span {silent.name} lists no documents: {silent.hidden}; if it found none, record an empty list"
        found.untraced |= dict.fromkeys(OF_RETRIEVAL, reason)
        return
    documents = list({(one.id, one.text): one for step in chosen for one in step.documents or ()}.values())
    ids = [one.id for one in documents]
    texts = [passages.get(one.id or "") if one.text is None else one.text for one in documents]
    if None in ids:
        found.untraced["retrieved_context_ids"] = "the retrieved documents of the trace have no ids"
    else:
        found.reply = replace(found.reply, retrieved_context_ids=tuple(map(str, ids)))
    if None in texts:
        reason = "the retrieved documents of the trace have ids and no texts, so only rankings are measured"
        found.untraced["retrieved_contexts"] = reason
    else:
        found.reply = replace(found.reply, retrieved_contexts=tuple(map(str, texts)))


def _add_prompt(found: TraceFacts, models: Sequence[TraceStep], response: str) -> None:
    """Add the contexts that were in the prompt of the call that made the answer, if its prompt is recorded."""
    contexts = found.reply.retrieved_contexts
    if contexts is None:
        return
    response = _squeeze(response)
    answering = [step for step in models if step.answer is not None and _squeeze(step.answer) == response]
    made = max(answering or _guess_maker(models, response), key=_end, default=None)
    if made is None or made.prompt is None:
        return
    prompt = _squeeze("\n".join(made.prompt))
    shingles = _list_shingles(prompt)
    kept = tuple(context for context in contexts if _is_in(context, prompt, shingles))
    found.reply = replace(found.reply, prompt_contexts=kept)


def _guess_maker(models: Sequence[TraceStep], response: str) -> Sequence[TraceStep]:
    """Return the calls that may have made an answer that none has word for word; none, if all said something else.

    `response`: squeezed.
    """
    said = [(step, _squeeze(step.answer)) for step in models if step.answer]
    alike = [(step, text) for step, text in said if text and (text in response or response in text)]
    longest = max((len(text) for _, text in alike), default=0)
    return [step for step, text in alike if len(text) == longest] or ([] if said and len(models) > 1 else models)


def _is_in(context: str, prompt: str, shingles: Collection[tuple[str, ...]]) -> bool:
    """Return whether a text is in a prompt, or nearly all of its runs of eight words."""
    if _squeeze(context) in prompt:
        return True
    own = _list_shingles(context)
    return bool(own) and sum(one in shingles for one in own) >= _SHARE_IN_PROMPT * len(own)


def _list_shingles(text: str) -> set[tuple[str, ...]]:
    words = _WORDS.findall(text.casefold())
    return {tuple(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)}


def _squeeze(text: str) -> str:
    return " ".join(text.split())
