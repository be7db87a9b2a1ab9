"""One attempt at a sample: one request, or one for each turn of a conversation."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from uuid import uuid4

from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.model import AgentReply, AgentTurn, Message, Sample
from evalspec.model.exchanges import join_turns

Ask = Callable[[Sample], Awaitable[AgentReply]]
"""Sends the request of a sample, again if it fails. Raises ServiceError if there is no reply."""


class Performer(Protocol):
    """Makes attempts. `acts`: whether requests change the world, so that one that may have acted is not sent again."""

    acts: bool

    async def perform(self, sample: Sample, ask: Ask, on_restart: Callable[[ServiceError], None]) -> AgentReply:
        """Return the reply of one attempt. `on_restart`: called when the whole attempt begins again.

        Raises:
            ServiceError: there is no reply.
        """
        ...


class PlainPerformer:
    """Sends one request a sample."""

    acts = False

    async def perform(self, sample: Sample, ask: Ask, on_restart: Callable[[ServiceError], None]) -> AgentReply:  # noqa: ARG002
        """See Performer."""
        return await ask(sample)


PLAIN = PlainPerformer()


class Conversation:
    """Asks turn by turn, each time with what was really said before.

    `is_stateful`: the agent keeps the conversation, so that it gets only what is new.
    """

    acts = False

    def __init__(self, *, is_stateful: bool) -> None:
        self._is_stateful = is_stateful

    async def perform(self, sample: Sample, ask: Ask, on_restart: Callable[[ServiceError], None]) -> AgentReply:  # noqa: ARG002
        """See Performer. A conversation in which a turn has no reply has no end, and no reply."""
        sample = replace(sample, session=sample.session or uuid4().hex)
        if not sample.turns:
            return await ask(sample)
        done: list[AgentTurn] = []
        for place, turn in enumerate(sample.turns):
            said = [] if self._is_stateful and place else list_messages(sample.opening, done)
            done.append(AgentTurn(turn.user, await ask(sample.at_turn(place, said))))
        return join_turns(done)


def list_messages(opening: Sequence[Message], turns: Sequence[AgentTurn]) -> list[Message]:
    """Return a conversation so far: what opened it, and what was said in its turns."""
    pairs = ((Message("user", turn.user), Message("assistant", turn.reply.response)) for turn in turns)
    return [*opening, *(message for pair in pairs for message in pair)]
