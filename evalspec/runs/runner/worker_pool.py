"""Send requests with a fixed number of workers, retries, back-off, and a circuit breaker for an agent that is down."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import FailureCause, ServiceError, Unmeasurable, UserFailed
from evalspec.model import NOT_ASKED, AgentReply, Exchange, Sample
from evalspec.runs.runner.conversing import PLAIN, AttemptContext, NoTurnLog, Performer, TurnLog
from evalspec.targets.agents.base import Agent
from evalspec.targets.http.pacing import AdaptiveLimit, Breaker, persist
from evalspec.targets.tracing import OpenRequest
from evalspec.verdict.stats import compute_statistic

_RAMP_SECONDS = 0.02
"""Time in which the workers start one after the other. Without it, replies with equal latency would always arrive
together, and each would wait until all others are read."""

_INTERVAL_SECONDS = 0.02

CANCELLED = "the evaluated code cancelled the task that called it, so samples have no reply"

Job = TypeVar("Job")
Job_co = TypeVar("Job_co", covariant=True)


class JobSource(Protocol[Job_co]):
    """The jobs of one target, one after the other. `most`: how many there can be."""

    most: int

    async def take(self) -> tuple[Job_co, Sample] | None:
        """Return the next job with its sample; None at the end."""
        ...


class WorkerPool(Struct, Generic[Job]):
    """A pool of `concurrency` workers that sends every job's sample once. Each worker has its own agent.

    `limit`: on concurrent requests. `breaker`: of the service. `find_end`: returns why nothing more is to be sent, or
    None. `open_log`: keeps the turns of a job. `trace`: begins the trace of a request. `performer`: makes an
    attempt of one or more requests. `on_exchange` is awaited for each job as soon as it has a reply or has failed. The
    worker waits for it, so a slow consumer limits the replies in memory.
    """

    open_agent: Callable[[], Agent]
    on_exchange: Callable[[Job, Exchange], Awaitable[None]]
    concurrency: int
    max_retries: int
    limit: AdaptiveLimit
    breaker: Breaker
    find_end: Callable[[], str | None] = lambda: None
    performer: Performer = PLAIN
    open_log: Callable[[Job], TurnLog] = lambda _: NoTurnLog()
    trace: Callable[[Job], OpenRequest] | None = None
    failed: int = 0
    """Samples that got no usable reply."""

    @property
    def agent_down(self) -> str | None:
        """Why the agent is considered down, or None."""
        return self.breaker.down

    @property
    def never_reached(self) -> bool:
        """Whether connections failed and no request was ever answered."""
        return self.breaker.refused and not self.breaker.answered

    async def ask_all(self, jobs: JobSource[Job]) -> None:
        """Send all samples. Once the agent is down, remaining samples fail immediately without a request.

        Raises:
            Unmeasurable: the evaluated code cancelled a worker.
        """
        workers = []
        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                workers.append(group.create_task(self._work(jobs)))
                await asyncio.sleep(_RAMP_SECONDS / self.concurrency)
        if any(worker.cancelled() for worker in workers):
            raise Unmeasurable(CANCELLED)

    async def _work(self, jobs: JobSource[Job]) -> None:
        agent = self.open_agent()
        try:
            while (taken := await jobs.take()) is not None:
                job, sample = taken
                exchange = await self._exchange(agent, job, sample)
                self.failed += exchange.reply is None
                await self.on_exchange(job, exchange)
        finally:
            await agent.aclose()

    async def _exchange(self, agent: Agent, job: Job, sample: Sample) -> Exchange:
        if end := self.breaker.down or self.find_end():
            return Exchange(sample, error=f"{NOT_ASKED}{end}", unreachable=True)
        failed: list[ServiceError] = []
        user_failed: list[ServiceError] = []

        async def ask(one: Sample) -> AgentReply:
            request = None if self.trace is None else self.trace(job)
            reply = await persist(
                lambda: self.limit.run(lambda: self._attempt(agent, one, request)),
                self.max_retries,
                lambda error, _wait: failed.append(error),
                may_repeat=lambda error: error.is_refusal or not self.performer.acts,
            )
            return reply if request is None else replace(reply, traced=request.close())

        def note(error: ServiceError) -> None:
            (user_failed if isinstance(error, UserFailed) else failed).append(error)

        try:
            reply = await self.performer.perform(sample, AttemptContext(ask, note, self.open_log(job)))
        except ServiceError as error:
            if error.cause is FailureCause.REPLY:  # others say nothing about the agent
                is_useless = error.fatal and error.status is None  # nothing can be sent: there is no token, for example
                self.breaker.saw_failure(str(error), unreachable=error.unreachable, is_useless=is_useless)
            is_stopped = error.cause is FailureCause.STOPPED
            return Exchange(
                sample,
                error=f"{NOT_ASKED}{error}" if is_stopped else str(error),
                unreachable=is_stopped or (error.unreachable and error.cause is FailureCause.REPLY),
                retries=len(failed),
                cause=error.cause,
                user_errors=len(user_failed) + (error.cause is FailureCause.USER),
            )
        self.breaker.saw_reply()
        return Exchange(sample, reply=reply, retries=len(failed), user_errors=len(user_failed))

    async def _attempt(self, agent: Agent, sample: Sample, request: OpenRequest | None) -> AgentReply:
        try:
            with nullcontext() if request is None else request.trying():
                return await agent.ask(sample)
        except ServiceError as error:
            self.breaker.refused |= error.unreachable
            if self.breaker.down:
                error.retryable = False
            raise


class LagMeter:
    """A meter of event loop lag. It sleeps for short intervals and records how late it wakes up.

    Latency is measured in an event loop, and a busy loop reads replies late.
    """

    def __init__(self) -> None:
        self._lags_ms: list[float] = []

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.perf_counter() + _INTERVAL_SECONDS
            await asyncio.sleep(_INTERVAL_SECONDS)
            self._lags_ms.append((time.perf_counter() - due) * 1000)

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the lag in milliseconds. 0 without measurements."""
        return compute_statistic(self._lags_ms, "p95") if self._lags_ms else 0.0
