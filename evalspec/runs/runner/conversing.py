"""One attempt at a sample: one request, or one for each turn of a conversation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from msgspec import UNSET, Struct
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.patterns import CannotCheck, sharing_limit
from evalspec.model import AgentReply, AgentTurn, ExpectedState, Message, Sample, World
from evalspec.model.exchanges import join_turns
from evalspec.scoring.metrics.end_state import list_state_differences

if TYPE_CHECKING:
    from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
    from evalspec.targets.worlds import EnvironmentAccess


Ask = Callable[[Sample], Awaitable[AgentReply]]
"""Sends the request of a sample, again if it fails. Raises ServiceError if there is no reply."""


class TurnLog(Protocol):
    """Keeps the turns of one attempt while it is under way."""

    def recall(self) -> tuple[str, tuple[AgentTurn, ...]]:
        """Return the session and the turns that a killed run has left; none if the attempt begins now."""
        ...

    def keep(self, session: str, turn: AgentTurn) -> None:
        """Store the next turn of a session."""
        ...

    def supersede(self) -> None:
        """Note that the attempt begins again: the turns so far count only in the usage."""
        ...


class NoTurnLog:
    """Keeps nothing: an attempt of one request has no turns."""

    def recall(self) -> tuple[str, tuple[AgentTurn, ...]]:
        """See TurnLog."""
        return "", ()

    def keep(self, session: str, turn: AgentTurn) -> None:
        """See TurnLog."""

    def supersede(self) -> None:
        """See TurnLog."""


class AttemptContext(Struct, frozen=True):
    """What an attempt is made with. `on_restart`: called with the error for which the whole attempt begins again."""

    ask: Ask
    on_restart: Callable[[ServiceError], None] = lambda _: None
    log: TurnLog = NoTurnLog()


class Performer(Protocol):
    """Makes attempts. `acts`: whether requests change the world, so that one that may have acted is not sent again."""

    acts: bool

    async def perform(self, sample: Sample, context: AttemptContext) -> AgentReply:
        """Return the reply of one attempt.

        Raises:
            ServiceError: there is no reply.
        """
        ...


class Conversation:
    """Asks turn by turn, each time with what was really said before. A plain sample has one turn.

    `is_stateful`: the agent keeps the conversation, so that it gets only what is new. A turn that it may have kept is
    not sent again: the attempt begins again, up to `max_retries` times, in a new session.
    """

    def __init__(self, *, is_stateful: bool = False, max_retries: int = 0) -> None:
        self._is_stateful, self._max_retries = is_stateful, max_retries
        self.acts = is_stateful
        """See Performer: a turn changes what a stateful agent knows."""

    async def perform(self, sample: Sample, context: AttemptContext) -> AgentReply:
        """See Performer. A conversation in which a turn has no reply has no end, and no reply."""
        is_own = self._is_stateful and sample.session is None
        return await begin_again(lambda: self._talk(sample, context), self._max_retries if is_own else 0, context)

    async def _talk(self, sample: Sample, context: AttemptContext) -> AgentReply:
        """Return the reply of one attempt.

        A killed conversation resumes where it was, if the agent gets the whole history and changes nothing. Otherwise
        it begins again: what the agent knows, and what it has done, cannot be seen.
        """
        if not sample.turns and sample.user is None:
            return await context.ask(replace(sample, session=sample.session or uuid4().hex))
        session, known = context.log.recall()
        if known and (self._is_stateful or sample.session is not None):
            context.log.supersede()
            session, known = "", ()
        session = sample.session or session or uuid4().hex
        done, sample = list(known), replace(sample, session=session)
        while (text := await self.find_next(sample, done)) is not None:
            place = len(done)
            said = [] if self._is_stateful and place else list_messages(sample.opening, done)
            told = sample.as_told([*(turn.user for turn in done), text])
            turn = AgentTurn(text, await context.ask(told.at_turn(place, said)))
            context.log.keep(session, turn)
            done.append(turn)
        return join_turns(done)

    async def find_next(self, sample: Sample, done: Sequence[AgentTurn]) -> str | None:
        """Return what the user says next; None at the end of the script."""
        return sample.turns[len(done)].user if len(done) < len(sample.turns) else None


PLAIN = Conversation()


def list_messages(opening: Sequence[Message], turns: Sequence[AgentTurn]) -> list[Message]:
    """Return a conversation so far: what opened it, and what was said in its turns."""
    pairs = ((Message("user", turn.user), Message("assistant", turn.reply.response)) for turn in turns)
    return [*opening, *(message for pair in pairs for message in pair)]


_LOOK_SECONDS = 0.2
"""How long to wait before the world is looked at again."""


def _is_settled(expected: ExpectedState, world: World, config: "EnvironmentConfig") -> bool:
    """Return whether to look no further: the state is the expected one, or it cannot be compared, as the score says."""
    try:
        with sharing_limit():
            return next(list_state_differences(expected, world, config), None) is None
    except (CannotCheck, ServiceError):
        return True


async def begin_again(
    attempt: Callable[[], Awaitable[AgentReply]], restarts_left: int, context: AttemptContext
) -> AgentReply:
    """Return the reply of an attempt, which begins again as a whole after a request that may have changed something.

    Raises:
        ServiceError: there is no reply.
    """
    while True:
        try:
            return await attempt()
        except ServiceError as error:
            if not (restarts_left and error.retryable) or error.is_refusal:
                raise
            restarts_left -= 1
            context.on_restart(error)


class Acting:
    """Makes attempts in an environment. Those that share one world run one at a time.

    `talk`: makes the requests of an attempt. `max_retries`: how often an attempt begins again after a request that may
    have acted, and so cannot be sent again.
    """

    acts = True

    def __init__(self, world: "EnvironmentAccess", talk: Performer, max_retries: int) -> None:
        self.world, self._talk, self._max_retries = world, talk, max_retries
        self._turn = None if world.config.isolated else asyncio.Lock()

    async def perform(self, sample: Sample, context: AttemptContext) -> AgentReply:
        """Return the reply of an attempt, with the world before and after it.

        Raises:
            ServiceError: the agent gave no reply.
            EnvironmentFailed: the world could not be reset or looked at.
        """
        restarts = self._max_retries if self.world.config.reset else 0
        async with self._turn or nullcontext():
            return await begin_again(lambda: self._attempt(sample, context), restarts, context)

    async def _attempt(self, sample: Sample, context: AttemptContext) -> AgentReply:
        sample = replace(sample, session=uuid4().hex)
        names = {"session": sample.session or "", "id": sample.id}
        await self.world.reset(names)
        expected = sample.expected_state
        before = UNSET if expected is None else await self.world.read(names)
        reply = await self._talk.perform(sample, context)
        return reply if expected is None else replace(reply, world=await self._look(expected, before, names))

    async def _look(self, expected: ExpectedState, before: Any, names: dict[str, str]) -> World:
        """Return the world as soon as its state is the expected one, else as it is when the time is over."""
        within = self.world.config.within if expected.within is None else expected.within
        ends_at = monotonic() + within
        while True:
            world = World(before, await self.world.read(names))
            if _is_settled(expected, world, self.world.config) or monotonic() >= ends_at:
                return world
            await asyncio.sleep(min(_LOOK_SECONDS, max(0.0, ends_at - monotonic())))
