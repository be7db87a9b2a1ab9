"""The targets of a run: the agent for its datasets. retriever_targets.py has those of the other datasets."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field

from evalspec.model import Exchange, Sample
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.services import locate_keys
from evalspec.runs.runner.conversing import PLAIN, Conversation, NoTurnLog, Performer, TurnLog
from evalspec.runs.runner.worker_pool import JobSource, WorkerPool
from evalspec.targets.agents.base import Agent
from evalspec.targets.agents.function import FunctionAgent
from evalspec.targets.agents.user_agent import UserAgent
from evalspec.targets.tracing import OpenRequest

Job = TypeVar("Job")
Receive = Callable[[Job, Exchange], Awaitable[None]]


class Jobs(Generic[Job]):
    """The jobs of one target. Samples are looked up one by one, because they may be on disk."""

    def __init__(self, jobs: Sequence[Job], find_sample: Callable[[Job], Sample]) -> None:
        self.most = len(jobs)
        self._remaining, self._find_sample = iter(jobs), find_sample

    async def take(self) -> tuple[Job, Sample] | None:
        """See JobSource."""
        job = next(self._remaining, None)
        return None if job is None else (job, self._find_sample(job))


class ProgressListener(Protocol):
    """A listener that is called after each step of a run."""

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Report the number of attempts so far."""
        ...

    def ingested(self, done: int, total: int) -> None:
        """Report the documents that a retriever has ingested so far."""
        ...

    def judge_waits(self, seconds: float) -> None:
        """Report that the judge is rate limited, and the seconds until its next request."""
        ...

    def say(self, line: str) -> None:
        """Report a message to show immediately."""
        ...


class JobTarget(Struct, Generic[Job]):
    """An agent or retriever with its jobs.

    `surround`: called instead of `ask` with this target, for work before and after the requests. `own_notes`: notes for
    the report.
    """

    name: str
    pool: WorkerPool[Job]
    jobs: JobSource[Job]
    surround: Callable[["JobTarget[Job]"], Awaitable[None]] | None = None
    own_notes: list[str] = field(default_factory=list)

    @property
    def is_down(self) -> bool:
        """Whether the target is considered down."""
        return self.pool.agent_down is not None

    @property
    def notes(self) -> list[str]:
        """Notes about the target for the report."""
        down = [f"{self.name} is down: {self.pool.agent_down}"] if self.is_down else []
        return [*down, *self.own_notes]

    async def ask_all(self) -> None:
        """Send all requests, with the work before and after them.

        Raises:
            Unmeasurable: The work before or after failed.
        """
        await (self.surround(self) if self.surround else self.ask())

    async def ask(self) -> None:
        """Send all requests."""
        await self.pool.ask_all(self.jobs)


def open_agent(
    plan: Plan,
    jobs: JobSource[Job],
    receive: Receive[Job],
    progress: ProgressListener,
    open_log: Callable[[Job], TurnLog],
    trace: Callable[[Job], OpenRequest] | None = None,
) -> JobTarget[Job]:
    """Return the agent as a target. Each worker gets its own Agent. `open_log`: keeps the turns of a job.

    `trace`: begins the trace of a request; None: nothing is traced.

    Raises:
        ValueError: The plan has no agent.
    """
    name = "the agent"
    if plan.agent is not None:
        return _open_own_agent(name, plan, jobs, receive, progress, open_log, trace)
    if plan.target is None:
        raise ValueError("the plan has no agent")
    from evalspec.targets.agents.http import HttpAgent, open_credentials

    target = plan.target
    credentials = open_credentials(target, locate_keys(plan.loaded))
    route = credentials.choose_route(target.url)
    retries = target.endpoint.max_retries
    performer, surround = _open_performer(plan, target.endpoint.is_stateful, retries, progress)
    pool = open_pool(
        plan, lambda: HttpAgent(target, route, credentials), receive, jobs, retries, performer, open_log, trace
    )
    return JobTarget(name, pool, jobs, surround)


def _open_performer(
    plan: Plan, is_stateful: bool, retries: int, progress: ProgressListener
) -> tuple[Performer, Callable[[JobTarget[Job]], Awaitable[None]] | None]:
    """Return what makes attempts, and what surrounds all of them: the environment and the simulated user, if any."""
    performer: Performer = Conversation(is_stateful=is_stateful, max_retries=retries)
    closing: list[Callable[[], Awaitable[None]]] = []
    if plan.user is not None:
        from evalspec.runs.runner.playing import Player, open_client, speak_through

        client = open_client(plan, progress.judge_waits)
        closing.append(client.aclose)
        performer = Player(speak_through(client), is_stateful=is_stateful, max_retries=retries)
    config = plan.environment
    if config is not None:
        from evalspec.runs.runner.conversing import Acting
        from evalspec.targets.worlds import EnvironmentAccess

        world = EnvironmentAccess(config, plan.loaded.path.parent)
        closing.append(world.aclose)
        performer = Acting(world, performer, retries)
    if plan.user is not None:
        from evalspec.runs.runner.playing import Retaken

        performer = Retaken(performer, may_repeat=config is None or config.reset is not None)

    async def ask_and_close(target: JobTarget[Job]) -> None:
        async with AsyncExitStack() as opened:
            for close in closing:
                opened.push_async_callback(close)
            await target.ask()

    return performer, ask_and_close if closing else None


def _open_own_agent(
    name: str,
    plan: Plan,
    jobs: JobSource[Job],
    receive: Receive[Job],
    progress: ProgressListener,
    open_log: Callable[[Job], TurnLog],
    trace: Callable[[Job], OpenRequest] | None,
) -> JobTarget[Job]:
    """Return the user's agent as a target. Workers close their own instances of a class."""
    timeout = plan.options.timeout or plan.loaded.manifest.spec.api.chat_endpoint.timeout_seconds
    agent = UserAgent(plan.agent)

    async def query_and_report(target: JobTarget[Job]) -> None:
        is_complete = False
        try:
            await (surround or JobTarget.ask)(target)
            is_complete = True
        finally:
            for notice in () if is_complete else agent.notices:
                progress.say(notice)  # there is no report

    performer, surround = _open_performer(plan, False, 0, progress)
    pool = open_pool(plan, lambda: FunctionAgent(agent, timeout), receive, jobs, 0, performer, open_log, trace)
    return JobTarget(name, pool, jobs, query_and_report, own_notes=agent.notices)


def open_pool(
    plan: Plan,
    create: Callable[[], Agent],
    receive: Receive[Job],
    jobs: JobSource[Job],
    retries: int,
    performer: Performer = PLAIN,
    open_log: Callable[[Job], TurnLog] = lambda _: NoTurnLog(),
    trace: Callable[[Job], OpenRequest] | None = None,
) -> WorkerPool[Job]:
    """Return the workers of a target."""
    concurrency, budget = min(plan.options.concurrency, jobs.most), plan.services.budget
    limit, breaker, find_end = budget.open_limit("spec.api", concurrency), budget.open_breaker(), budget.find_time_out
    return WorkerPool(create, receive, concurrency, retries, limit, breaker, find_end, performer, open_log, trace)
