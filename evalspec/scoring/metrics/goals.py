"""Whole conversations, judged through ragas: whether the goal was reached, and which topics were answered.

ragas gives topic_adherence 0.0 to a conversation whose topics are all foreign and were all declined. That is what an
agent should do, so here it is 1.0.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.model import AgentReply, Cause, Exchange, Message, Need, Score
from evalspec.scoring.metrics.base import BuildContext, MetricDefinition, Scorer
from evalspec.scoring.metrics.evidence import explain_goal, explain_topics
from evalspec.scoring.metrics.parameters import Parameter

_GOAL, _TOPICS = "agent_goal_accuracy", "topic_adherence"
_STATED, _INFERRED = "stated", "inferred"
_DECIMALS = 9
_GUESSED_TOPICS = 2


def list_messages(exchange: Exchange) -> list[dict[str, Any]]:
    """Return a conversation with its calls of tools, in order: `role`, `content`, and `calls` of the assistant."""
    sample, reply = exchange.sample, exchange.reply or AgentReply("")
    asked = sample.user_input if not isinstance(sample.user_input, str) else (Message("user", sample.user_input),)
    found = [_say(one.role, one.content) for one in (sample.opening if reply.turns else asked)]
    for turn in reply.turns:
        found += [_say("user", turn.user), *_list_reply(turn.reply)]
    return found if reply.turns else [*found, *_list_reply(reply)]


def _list_reply(reply: AgentReply) -> Iterator[dict[str, Any]]:
    calls = reply.tool_calls or ()
    if calls:
        yield _say("assistant", "") | {"calls": [[call.name, call.arguments] for call in calls]}
    for call in calls:
        if call.is_answered:
            yield _say("tool", call.error if call.error is not None else _to_text(call.result))
    yield _say("assistant", reply.response)


def _say(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _build_goal(context: BuildContext) -> Scorer:
    is_inferred = context.parameters.get("reference") == _INFERRED

    async def score(exchange: Exchange) -> Score:
        sample = exchange.sample
        wanted = sample.reference or (sample.user.goal if sample.user else None)
        fields: dict[str, Any] = {"user_input": list_messages(exchange)}
        if is_inferred:
            graded = await context.services.grade("AgentGoalAccuracyWithoutReference", fields, metric=_GOAL)
        elif wanted is None:
            return Score.not_applicable("neither an expected answer nor a user says what to reach", Cause.DATASET)
        else:
            fields["reference"] = wanted
            graded = await context.services.grade("AgentGoalAccuracyWithReference", fields, metric=_GOAL)
        return Score.scored(graded.value, *explain_goal(graded))

    return score


def _build_topics(context: BuildContext) -> Scorer:
    topics = [one.strip() for one in str(context.parameters.get("topics", "")).split(",") if one.strip()]
    if not topics:
        raise ValueError("topics names none; write them with commas, as in topics: billing, refunds")

    async def score(exchange: Exchange) -> Score:
        fields: Mapping[str, Any] = {"user_input": list_messages(exchange), "reference_topics": topics}
        graded = await context.services.grade("TopicAdherence", fields, metric=_TOPICS)
        found, reason = explain_topics(graded)
        if not found:
            return Score.not_applicable("the judge found no topic in the conversation", Cause.JUDGE)
        is_declined = not any(one["answered"] or one["allowed"] for one in found)
        return Score.scored(1.0 if is_declined else round(graded.value, _DECIMALS), reason, {"topics": found})

    return score


GOALS = (
    MetricDefinition(
        name=_GOAL,
        summary="1 if the conversation ends as expected, or with the goal of its user reached.",
        engine="ragas",
        build=_build_goal,
        needs=frozenset({Need.JUDGE}),
        is_binary=True,
        is_of_whole=True,
        parameters=(Parameter("reference", str, (_STATED, _INFERRED), _STATED),),
        judge_calls=lambda _contexts: 2,
    ),
    MetricDefinition(
        name=_TOPICS,
        summary="F1 of the topics of a conversation that the agent answered against those that it may.",
        engine="ragas",
        build=_build_topics,
        needs=frozenset({Need.JUDGE}),
        is_of_whole=True,
        parameters=(Parameter("topics", str),),
        judge_calls=lambda _contexts: 2 + _GUESSED_TOPICS,
    ),
)
