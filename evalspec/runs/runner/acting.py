"""An attempt of an agent that acts: the world is reset before it and looked at afterwards."""

import asyncio
from contextlib import nullcontext
from itertools import chain
from time import monotonic
from typing import Any
from uuid import uuid4

from msgspec import UNSET
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.patterns import CannotCheck, sharing_limit
from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
from evalspec.model import AgentReply, ExpectedState, Sample, World
from evalspec.runs.runner.conversing import AttemptContext, Performer
from evalspec.scoring.metrics.end_state import compare_state, list_side_effects
from evalspec.targets.worlds import EnvironmentAccess

_LOOK_SECONDS = 0.2
"""How long to wait before the world is looked at again."""


def _is_settled(expected: ExpectedState, world: World, config: EnvironmentConfig) -> bool:
    """Return whether to look no further: the state is the expected one, or it cannot be compared, as the score says."""
    try:
        with sharing_limit():
            differences = chain(compare_state(expected, world.after), list_side_effects(expected, world, config))
            return next(differences, None) is None
    except (CannotCheck, ServiceError):
        return True


class Acting:
    """Makes attempts in an environment. Those that share one world run one at a time.

    `talk`: makes the requests of an attempt. `max_retries`: how often an attempt begins again after a request that may
    have acted, and so cannot be sent again.
    """

    acts = True

    def __init__(self, world: EnvironmentAccess, talk: Performer, max_retries: int) -> None:
        self.world, self._talk, self._max_retries = world, talk, max_retries
        self._turn = None if world.config.isolated else asyncio.Lock()

    async def perform(self, sample: Sample, context: AttemptContext) -> AgentReply:
        """Return the reply of an attempt, with the world before and after it.

        Raises:
            ServiceError: the agent gave no reply.
            EnvironmentFailed: the world could not be reset or looked at.
        """
        restarts_left = self._max_retries if self.world.config.reset else 0
        async with self._turn or nullcontext():
            while True:
                try:
                    return await self._attempt(replace(sample, session=uuid4().hex), context)
                except ServiceError as error:
                    if not (restarts_left and error.retryable) or error.is_refusal:
                        raise
                    restarts_left -= 1
                    context.on_restart(error)

    async def _attempt(self, sample: Sample, context: AttemptContext) -> AgentReply:
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
