"""Work on attempts: ask the target, and score replies as they arrive. Whoever hands out attempts gets what is found."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from evalspec.base.errors import Unmeasurable
from evalspec.model import Exchange, Sample, Score
from evalspec.model.log import TurnRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.runner.conversing import TurnLog
from evalspec.runs.runner.origin import Origin
from evalspec.runs.runner.results import AttemptIndex
from evalspec.runs.runner.scoring import preload, preload_beside, start_scores
from evalspec.runs.runner.targets import Jobs, JobTarget, ProgressListener, open_agent
from evalspec.runs.runner.worker_pool import CANCELLED, JobSource, LagMeter
from evalspec.runs.store.log_index import AttemptKey
from evalspec.targets.agents.replay import replay

if TYPE_CHECKING:
    from evalspec.runs.runner.tracing import Tracing

_AGENT = -1
"""The target number of datasets without a retriever. A dataset with one has its own number, so the agent is first."""

_SCORERS = 4
"""Replies that are scored at the same time if nothing is judged."""
_SECONDS_AT_ONCE = 0.02
"""For which recorded replies are scored until what was found is written, and others have their turn."""


class Scorable(Struct, frozen=True):
    """A reply to score on some metrics of its dataset. `scores`: those that exist already."""

    job: AttemptIndex
    exchange: Exchange
    scores: Mapping[str, Score]
    metrics: Collection[str]


class Receiver(Protocol):
    """Gets what a worker finds, as soon as it exists."""

    def find(self, job: AttemptIndex) -> tuple[PlannedDataset, Sample]:
        """Return the dataset and the sample of an attempt."""
        ...

    def choose_metrics(self, job: AttemptIndex) -> Collection[str]:
        """Return the names of the metrics to score a new reply on."""
        ...

    def open_turns(self, job: AttemptIndex) -> TurnLog:
        """Return what keeps the turns of an attempt."""
        ...

    def keep_turn(self, record: TurnRecord) -> None:
        """Keep a turn that another process has had."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Keep what is found in the block together, and only then tell of it. Nothing in it waits."""
        ...

    def keep_reply(self, job: AttemptIndex, exchange: Exchange) -> None:
        """Keep a new reply, or why there is none."""
        ...

    def keep_scores(self, job: AttemptIndex, sample: Sample, scores: Mapping[str, Score]) -> None:
        """Keep new scores of a reply."""
        ...

    def finish(self, one: Scorable, scores: Mapping[str, Score]) -> None:
        """Take note that a reply has all scores that it was to get, in the order of its metrics."""
        ...


class Worker(Protocol):
    """Works on attempts of one plan. `notes`, `lag_ms`: for the report, once all is asked."""

    notes: list[str]
    lag_ms: float

    async def ask_all(self, jobs: Sequence[AttemptIndex]) -> None:
        """Ask all attempts. Their replies are scored meanwhile, the last ones perhaps after the return.

        Raises:
            Unmeasurable: The target cannot be asked.
        """
        ...

    async def score(self, one: Scorable) -> None:
        """Have a reply scored. Waits while too many wait for their scores."""
        ...

    async def join(self) -> None:
        """Wait until every reply has its scores."""
        ...


def score_here(plan: Plan, receiver: Receiver, one: Scorable) -> Awaitable[None] | None:
    """Score a reply in this process. Return what is to be awaited then, None if all of its scores are there."""
    dataset, sample = plan.datasets[one.job.dataset], one.exchange.sample
    scores = start_scores(
        [dataset.metrics[name] for name in one.metrics],
        one.exchange,
        lambda new: receiver.keep_scores(one.job, sample, new),
        known=one.scores,
        judge_repeats=plan.options.judge_repeat,
        attempt=(dataset.name, one.job.attempt),
    )
    if not isinstance(scores, dict):
        return _finish(receiver, one, scores)
    receiver.finish(one, scores)
    return None


async def _finish(receiver: Receiver, one: Scorable, scores: Awaitable[Mapping[str, Score]]) -> None:
    receiver.finish(one, await scores)


class LocalWorker(Struct):
    """Works in this process. `group`: for its tasks. `tracing`: joins replies with the spans of the agent, if any."""

    plan: Plan
    receiver: Receiver
    progress: ProgressListener
    group: asyncio.TaskGroup
    queue: "asyncio.Queue[Scorable]"
    origin: Origin
    tracing: "Tracing | None" = None
    first_exchange: asyncio.Event = field(default_factory=asyncio.Event)
    notes: list[str] = field(default_factory=list)
    lag_ms: float = 0.0

    async def ask_all(self, jobs: Sequence[AttemptIndex]) -> None:
        """See Worker."""
        has_replies = self.plan.options.has_replies
        if jobs and (has_replies or self.plan.gates_latency):
            await preload(self.plan)
        if has_replies:
            left = iter(jobs)
            done, _ = await asyncio.wait([self.group.create_task(self._replay(left)) for _ in range(_SCORERS)])
            if any(task.cancelled() for task in done):
                raise Unmeasurable(CANCELLED)
        else:
            await self._ask(self._list_targets(jobs))

    async def ask_agent(self, jobs: JobSource[AttemptIndex]) -> None:
        """Ask the agent, until there are no more jobs. Raises as ask_all."""
        await self._ask([self._open_agent(jobs)])

    async def _ask(self, targets: Sequence[JobTarget[AttemptIndex]]) -> None:
        plan, lag = self.plan, LagMeter()
        loading = self.group.create_task(preload_beside(plan, self.first_exchange, targets[:1]))
        measuring = self.group.create_task(lag.measure())
        for target in targets:
            await target.ask_all()
        measuring.cancel()
        if self.tracing is not None:
            await self.tracing.drain()
        await loading
        self.notes += [note for target in targets for note in target.notes]
        self.lag_ms = lag.p95_ms

    async def _replay(self, jobs: Iterator[AttemptIndex]) -> None:
        """Score recorded replies. They are there, so they need no workers, waits or retries."""
        rest: Awaitable[None] | None = asyncio.sleep(0)
        while rest is not None:
            await rest
            with self.receiver.together():
                rest = self._replay_some(jobs)

    def _replay_some(self, jobs: Iterator[AttemptIndex]) -> Awaitable[None] | None:
        """Score the next replies for a moment, or until one has to wait. Return what to await then; None: nothing."""
        end, is_judged = time.perf_counter() + _SECONDS_AT_ONCE, self.plan.judged
        for job in jobs:
            dataset, sample = self.receiver.find(job)
            exchange = replay(self.plan.replies or {}, dataset.name, sample).with_digest()
            self.receiver.keep_reply(job, exchange)
            one = Scorable(job, exchange, {}, self.receiver.choose_metrics(job))
            rest = self.score(one) if is_judged else score_here(self.plan, self.receiver, one)
            if rest is not None:
                return rest
            if time.perf_counter() > end:
                return asyncio.sleep(0)
        return None

    async def score(self, one: Scorable) -> None:
        """See Worker."""
        await self.queue.put(one)

    async def join(self) -> None:
        """See Worker."""
        await self.queue.join()

    async def score_queued(self) -> None:
        """Score replies of the queue until cancelled."""
        while True:
            one = await self.queue.get()
            if (rest := score_here(self.plan, self.receiver, one)) is not None:
                await rest
            self.queue.task_done()

    def _list_targets(self, jobs: Sequence[AttemptIndex]) -> list[JobTarget[AttemptIndex]]:
        """Return the targets in order: the agent with all its datasets, then one retriever per dataset."""
        targets = []
        for number, some in groupby(sorted(jobs, key=self._target_of), key=self._target_of):
            asked = self._list_jobs(list(some))
            if number == _AGENT:
                targets.append(self._open_agent(asked))
            else:
                from evalspec.runs.runner.retriever_targets import open_retriever_target

                dataset = self.plan.datasets[number]
                targets.append(open_retriever_target(self.plan, dataset, asked, self._receive_asked, self.progress))
        return targets

    def _open_agent(self, jobs: JobSource[AttemptIndex]) -> JobTarget[AttemptIndex]:
        trace = None if self.tracing is None else self.tracing.beginning(self._key)
        return open_agent(self.plan, jobs, self._receive_asked, self.progress, self.receiver.open_turns, trace)

    async def _receive_asked(self, job: AttemptIndex, exchange: Exchange) -> None:
        dataset = self.plan.datasets[job.dataset]
        marked = self.origin.mark(exchange, dataset).with_digest()
        self.receiver.keep_reply(job, marked)
        self.first_exchange.set()
        if self.tracing is None:
            await self._score_new(job, marked)
            return
        create = self.group.create_task
        await self.tracing.submit(self._key(job), marked, dataset, lambda joined: self._score_new(job, joined), create)

    async def _score_new(self, job: AttemptIndex, exchange: Exchange) -> None:
        await self.score(Scorable(job, exchange, {}, self.receiver.choose_metrics(job)))

    def _list_jobs(self, jobs: Sequence[AttemptIndex]) -> Jobs[AttemptIndex]:
        return Jobs(jobs, lambda job: self.receiver.find(job)[1])

    def _key(self, job: AttemptIndex) -> AttemptKey:
        dataset, sample = self.receiver.find(job)
        return AttemptKey(dataset.name, sample.id, job.attempt)

    def _target_of(self, job: AttemptIndex) -> int:
        """Return the number of the dataset if it has its own retriever, else _AGENT."""
        return job.dataset if self.plan.datasets[job.dataset].retriever is not None else _AGENT


@asynccontextmanager
async def work_here(
    plan: Plan, receiver: Receiver, progress: ProgressListener, tracing: "Tracing | None" = None
) -> AsyncIterator[LocalWorker]:
    """Open a worker in this process for the duration of the block."""
    scorers = plan.judge.concurrency if plan.judged and plan.judge else _SCORERS
    async with asyncio.TaskGroup() as group:
        worker = LocalWorker(plan, receiver, progress, group, asyncio.Queue(2 * scorers), Origin(plan), tracing)
        scoring = [group.create_task(worker.score_queued()) for _ in range(scorers)]
        yield worker
        for task in scoring:
            task.cancel()


OpenWorker = Callable[[Plan, Receiver, ProgressListener, "Tracing | None"], AbstractAsyncContextManager[Worker]]
"""Opens a worker for the duration of a block."""
