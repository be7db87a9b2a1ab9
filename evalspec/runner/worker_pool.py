"""Asking the agent: bounded workers, retries, back-off, and a breaker for an agent that is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from evalspec.agents.base import Agent
from evalspec.errors import ServiceError
from evalspec.http.pacing import AdaptiveLimit, persist
from evalspec.model import AgentReply, Exchange, Sample

FAILURES_TO_BREAK = 5
"""Samples in a row that could not even connect, after which the agent counts as gone; one, if it never answered."""

NOT_ASKED = "not asked: "
"""Begins the error of a sample that was left when the agent was gone."""

_RAMP_SECONDS = 0.02
"""In which the workers begin, one after the other. Replies that take equally long would else come back all at once,
each time anew, and each would wait until all others are read."""

Job = TypeVar("Job")


@dataclass(slots=True)
class _Breaker:
    """Counts samples that could not connect; `down` is the reason once the agent counts as gone."""

    answered: bool = False
    refused: bool = False
    unreachable: int = 0
    down: str | None = None

    def saw_reply(self) -> None:
        self.answered = True
        self.unreachable = 0

    def saw_failure(self, error: ServiceError) -> None:
        self.unreachable = self.unreachable + 1 if error.unreachable else 0
        if self.unreachable >= (FAILURES_TO_BREAK if self.answered else 1):
            self.down = str(error)


class WorkerPool(Generic[Job]):
    """Asks every job's sample once, `concurrency` at a time, each worker with an agent of its own.

    `on_exchange` is awaited for each job as soon as its reply or its failure is known; while it waits, its worker
    does too, so that a slow consumer bounds what is held in memory.
    """

    def __init__(
        self,
        open_agent: Callable[[], Agent],
        on_exchange: Callable[[Job, Exchange], Awaitable[None]],
        *,
        concurrency: int,
        max_retries: int,
    ) -> None:
        self._open_agent = open_agent
        self._on_exchange = on_exchange
        self._concurrency = concurrency
        self._limit = AdaptiveLimit(concurrency)
        self._breaker = _Breaker()
        self._max_retries = max_retries
        self.failed = 0
        """Samples that got no usable reply."""

    @property
    def agent_down(self) -> str | None:
        """Why the agent counts as gone, None while it does not."""
        return self._breaker.down

    @property
    def never_reached(self) -> bool:
        """Whether connections were refused and none has ever been answered."""
        return self._breaker.refused and not self._breaker.answered

    async def ask_all(self, jobs: Iterable[tuple[Job, Sample]]) -> None:
        """Ask all of them. Samples left when the agent is gone are failed at once, without being asked."""
        remaining = iter(jobs)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(remaining))
                await asyncio.sleep(_RAMP_SECONDS / self._concurrency)

    async def _work(self, remaining: Iterable[tuple[Job, Sample]]) -> None:
        agent = self._open_agent()
        try:
            for job, sample in remaining:
                exchange = await self._exchange(agent, sample)
                self.failed += exchange.reply is None
                await self._on_exchange(job, exchange)
        finally:
            await agent.aclose()

    async def _exchange(self, agent: Agent, sample: Sample) -> Exchange:
        if self._breaker.down:
            return Exchange(sample, error=f"{NOT_ASKED}{self._breaker.down}", unreachable=True)
        try:
            reply = await persist(lambda: self._limit.run(lambda: self._attempt(agent, sample)), self._max_retries)
        except ServiceError as error:
            self._breaker.saw_failure(error)
            return Exchange(sample, error=str(error), unreachable=error.unreachable)
        self._breaker.saw_reply()
        return Exchange(sample, reply=reply)

    async def _attempt(self, agent: Agent, sample: Sample) -> AgentReply:
        try:
            return await agent.ask(sample)
        except ServiceError as error:
            self._breaker.refused |= error.unreachable
            if self._breaker.down:
                error.retryable = False
            raise
