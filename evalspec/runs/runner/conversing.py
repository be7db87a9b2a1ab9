"""One attempt at a sample: one request, or one for each turn of a conversation."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import uuid4

from msgspec.structs import replace

from evalspec.model import AgentReply, AgentTurn, Message, Sample
from evalspec.model.exchanges import join_turns

Ask = Callable[[Sample], Awaitable[AgentReply]]
"""Sends the request of a sample, again if it fails. Raises ServiceError if there is no reply."""


async def converse(sample: Sample, ask: Ask, *, is_stateful: bool) -> AgentReply:
    """Return the reply to a sample. Each turn of a script is asked with what was really said before.

    `is_stateful`: the agent keeps the conversation, so that it gets only what is new.

    Raises:
        ServiceError: a turn has no reply, so the conversation has no end.
    """
    sample = replace(sample, session=uuid4().hex)
    if not sample.turns:
        return await ask(sample)
    done: list[AgentTurn] = []
    for place, turn in enumerate(sample.turns):
        said = [] if is_stateful and place else list_messages(sample.opening, done)
        done.append(AgentTurn(turn.user, await ask(sample.at_turn(place, said))))
    return join_turns(done)


def list_messages(opening: Sequence[Message], turns: Sequence[AgentTurn]) -> list[Message]:
    """Return a conversation so far: what opened it, and what was said in its turns."""
    pairs = ((Message("user", turn.user), Message("assistant", turn.reply.response)) for turn in turns)
    return [*opening, *(message for pair in pairs for message in pair)]
