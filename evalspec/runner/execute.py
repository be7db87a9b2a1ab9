"""One run, from a plan to a Run: asked, scored, aggregated, gated, and on disk all along."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from evalspec.agents.base import Agent
from evalspec.agents.http import HttpAgent, create_ssl_context
from evalspec.agents.process import AgentProcess, ready_url
from evalspec.agents.replay import ReplayAgent
from evalspec.errors import EvalspecError
from evalspec.plan.build import Plan
from evalspec.plan.draft import needs_of
from evalspec.records import Exchange, Run, Sample, SampleResult, SampleStatus
from evalspec.runner.asking import Asking
from evalspec.runner.conclude import conclude
from evalspec.runner.lag import LagMeter
from evalspec.runner.scoring import score_exchange
from evalspec.store.log_records import reply_record, score_record
from evalspec.store.run_log import RunLog

_PRELOAD_GRACE_SECONDS = 0.3
"""How long the first request may take before the judge's libraries are loaded beside it: an agent that is down is
known by then, and nothing is loaded for it."""


class Progress(Protocol):
    """Told after each step of a run."""

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Counts of samples so far."""
        ...


@dataclass(frozen=True, slots=True)
class _Job:
    dataset: int
    position: int


@dataclass(slots=True)
class _Counts:
    asked: int = 0
    scored: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Execution:
    """The state of one run. Replies are not kept: they go to the log, and only scores stay in memory."""

    plan: Plan
    log: RunLog
    progress: Progress
    counts: _Counts = field(default_factory=_Counts)
    results: list[list[SampleResult | None]] = field(default_factory=list)
    first_exchange: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Run:
        plan = self.plan
        self.results = [[None] * len(dataset.samples) for dataset in plan.datasets]
        scorers = plan.judge.concurrency if plan.judged and plan.judge else 4
        queue: asyncio.Queue[tuple[_Job, Exchange]] = asyncio.Queue(maxsize=2 * scorers)

        async def receive(job: _Job, exchange: Exchange) -> None:
            self._keep_reply(job, exchange)
            await queue.put((job, exchange))

        asking = Asking[_Job](
            _agent_factory(plan),
            receive,
            concurrency=min(plan.options.concurrency, plan.total),
            max_retries=plan.target.endpoint.max_retries if plan.target else 0,
        )
        lag = LagMeter()
        if plan.gates_latency:
            await self._preload()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._score_from(queue)) for _ in range(scorers)]
            preload = group.create_task(self._preload_beside(asking))
            measuring = group.create_task(lag.measure())
            await asking.ask_all(self._jobs())
            measuring.cancel()
            await preload
            await queue.join()
            for worker in workers:
                worker.cancel()
        finished = [[result for result in results if result is not None] for results in self.results]
        return conclude(plan, self.log.id, finished, asking.agent_down, lag.p95_ms)

    def _jobs(self) -> Iterator[tuple[_Job, Sample]]:
        for number, dataset in enumerate(self.plan.datasets):
            for position, sample in enumerate(dataset.samples):
                yield _Job(number, position), sample

    def _keep_reply(self, job: _Job, exchange: Exchange) -> None:
        self.log.append(reply_record(self.plan.datasets[job.dataset].name, exchange))
        self.counts.asked += 1
        self.counts.failed += exchange.reply is None
        self._tell()
        self.first_exchange.set()

    async def _score_from(self, queue: "asyncio.Queue[tuple[_Job, Exchange]]") -> None:
        while True:
            job, exchange = await queue.get()
            await self._score(job, exchange)
            queue.task_done()

    async def _score(self, job: _Job, exchange: Exchange) -> None:
        dataset = self.plan.datasets[job.dataset]
        scores = await score_exchange(dataset.metrics, exchange)
        for metric, score in scores.items():
            self.log.append(score_record(dataset.name, exchange.sample.id, metric, score))
        sample = exchange.sample
        self.results[job.dataset][job.position] = SampleResult(
            id=sample.id,
            status=SampleStatus.FAILED if exchange.reply is None else SampleStatus.ANSWERED,
            tags=sample.tags,
            metadata=sample.metadata,
            latency_ms=exchange.reply.latency_ms if exchange.reply else None,
            error=exchange.error,
            scores=scores,
        )
        self.counts.scored += 1
        self._tell()

    async def _preload_beside(self, asking: Asking[_Job]) -> None:
        """Load what scoring needs while the first requests are under way, unless their latency is at stake."""
        if self.plan.gates_latency:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self.first_exchange.wait(), _PRELOAD_GRACE_SECONDS)
        if asking.never_reached:
            await self.first_exchange.wait()
        if asking.agent_down is None:
            await self._preload()

    async def _preload(self) -> None:
        """What the first scores would otherwise wait for, and requests in flight with them."""
        modules = {module for d in self.plan.datasets for m in d.metrics for module in m.definition.imports}
        for module in sorted(modules):
            await asyncio.to_thread(import_module, module)
        await self.plan.services.preload(needs_of(self.plan.datasets))

    def _tell(self) -> None:
        self.progress(asked=self.counts.asked, scored=self.counts.scored, failed=self.counts.failed)


async def execute(plan: Plan, log: RunLog, progress: Progress) -> Run:
    """Run a plan: start the agent where the manifest says how, ask, score, decide.

    Raises:
        AgentDown: its command did not become ready.
        StoreError: the log cannot be written; what is in it stays.
        InvalidInput: an optional package turned out to be missing or broken.
    """
    try:
        async with _agent_process(plan, log):
            return await _Execution(plan, log, progress).run()
    except* EvalspecError as group:
        raise _first(group) from None
    finally:
        await plan.services.aclose()


def _first(group: BaseExceptionGroup[EvalspecError]) -> EvalspecError:
    """Tasks that fail together fail for one reason: the first is told."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@asynccontextmanager
async def _agent_process(plan: Plan, log: RunLog) -> AsyncIterator[None]:
    """The agent's own process, where the manifest has a command and nothing answers yet.

    An url given with the run names another agent than the one that the command starts.
    """
    api = plan.loaded.manifest.spec.api
    if api.command is None or plan.url is None or plan.options.url is not None:
        yield
        return
    process = AgentProcess(
        api.command,
        cwd=plan.loaded.path.parent,
        ready_url=ready_url(plan.url, api.ready_path),
        ready_timeout=api.ready_timeout_seconds,
        log_path=log.folder / "agent.log",
    )
    try:
        await process.start_if_needed()
        yield
    finally:
        process.stop()


def _agent_factory(plan: Plan) -> Callable[[], Agent]:
    if plan.replies is not None:
        replies = plan.replies
        return lambda: ReplayAgent(replies)
    if plan.target is None:
        raise ValueError("a plan has a target or replies")
    target, context = plan.target, create_ssl_context()
    return lambda: HttpAgent(target, context)
