"""Those who are asked in a run: the agent for its datasets, and for each other dataset its retriever."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from evalspec.agents.base import Agent
from evalspec.agents.function import FunctionAgent
from evalspec.agents.replay import ReplayAgent
from evalspec.errors import RetrieverError, Unmeasurable
from evalspec.http.routes import choose_route
from evalspec.model import Exchange, Sample
from evalspec.planning.build import Plan
from evalspec.planning.draft import PlannedDataset, PlannedRetriever
from evalspec.retrievers.agent import RetrieverAgent
from evalspec.retrievers.base import Prepares, Retriever
from evalspec.retrievers.ingest_plan import IngestPlan
from evalspec.retrievers.ingesting import ask_ingested
from evalspec.retrievers.opening import count_retries
from evalspec.runner.worker_pool import WorkerPool

LOCKS = Path(".evalspec") / "locks"

Job = TypeVar("Job")
Receive = Callable[[Job, Exchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Jobs(Generic[Job]):
    """What one party is asked. The samples are looked up one by one: they may be on disk."""

    jobs: Sequence[Job]
    find_sample: Callable[[Job], Sample]

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[tuple[Job, Sample]]:
        return ((job, self.find_sample(job)) for job in self.jobs)


class ProgressListener(Protocol):
    """Told after each step of a run."""

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Counts of attempts so far."""
        ...

    def ingested(self, done: int, total: int) -> None:
        """Documents that a retriever has taken in so far."""
        ...

    def say(self, line: str) -> None:
        """What a person has to know at once."""
        ...


@dataclass(slots=True)
class JobTarget(Generic[Job]):
    """One who is asked, with what it is asked. `notes`: what the report has to say of it afterwards.

    `surround`: what has to be done around the asking, which it is given; None where that is nothing.
    """

    name: str
    pool: WorkerPool[Job]
    jobs: Jobs[Job]
    surround: Callable[["JobTarget[Job]"], Awaitable[None]] | None = None
    own_notes: list[str] = field(default_factory=list)

    @property
    def is_down(self) -> bool:
        """Whether it counts as gone."""
        return self.pool.agent_down is not None

    @property
    def never_reached(self) -> bool:
        """Whether connections were refused and none has ever been answered."""
        return self.pool.never_reached

    @property
    def notes(self) -> list[str]:
        """What the report has to say of it."""
        down = [f"{self.name} is gone: {self.pool.agent_down}"] if self.is_down else []
        return [*down, *self.own_notes]

    async def ask_all(self) -> None:
        """Ask everything, with what has to be done before and after.

        Raises:
            Unmeasurable: that could not be done.
        """
        await (self.surround(self) if self.surround else self.ask())

    async def ask(self) -> None:
        """Ask everything."""
        await self.pool.ask_all(self.jobs)


def open_agent(plan: Plan, jobs: Jobs[Job], receive: Receive[Job]) -> JobTarget[Job]:
    """The agent; each worker has one of its own."""
    retries = plan.target.endpoint.max_retries if plan.target else 0
    return JobTarget("the agent", _open_pool(plan, _agent_factory(plan), receive, jobs, retries), jobs)


def _open_pool(
    plan: Plan, create: Callable[[], Agent], receive: Receive[Job], jobs: Jobs[Job], retries: int
) -> WorkerPool[Job]:
    concurrency = min(plan.options.concurrency, len(jobs))
    return WorkerPool(create, receive, concurrency=concurrency, max_retries=retries)


def _agent_factory(plan: Plan) -> Callable[[], Agent]:
    if plan.replies is not None:
        replies = plan.replies
        return lambda: ReplayAgent(replies)
    function = plan.options.agent
    if function is not None:
        timeout = plan.options.timeout or plan.loaded.manifest.spec.api.chat_endpoint.timeout_seconds
        return lambda: FunctionAgent(function, timeout)
    if plan.target is None:
        return lambda: ReplayAgent({})
    from evalspec.agents.http import HttpAgent

    target, route = plan.target, choose_route(plan.target.url)
    return lambda: HttpAgent(target, route)


def open_dataset(
    plan: Plan, dataset: PlannedDataset, jobs: Jobs[Job], receive: Receive[Job], progress: ProgressListener
) -> JobTarget[Job]:
    """The retriever of a dataset. Its documents are ingested before it is asked, where they are to be.

    Raises:
        ValueError: it was not opened.
    """
    planned = dataset.retriever
    if planned is None or planned.opened is None:
        raise ValueError(f"dataset {dataset.name} has no open retriever")
    retriever = planned.opened
    agent = RetrieverAgent(retriever, planned.query_settings)
    pool = _open_pool(plan, lambda: agent, receive, jobs, count_retries(planned.target))

    async def surround(target: JobTarget[Job]) -> None:
        if planned.ingest is None:
            await _prepare(planned, retriever)
            await target.ask()
        else:
            await _ask_ingested(target, planned.ingest, retriever, progress)

    return JobTarget(f"the retriever {planned.settings.name}", pool, jobs, surround)


async def _prepare(planned: PlannedRetriever, retriever: Retriever) -> None:
    if isinstance(retriever, Prepares):
        try:
            await retriever.prepare(planned.settings.scope_prefix)
        except RetrieverError as error:
            raise Unmeasurable(f"the retriever {planned.settings.name}: {error}") from error


async def _ask_ingested(
    target: JobTarget[Job], plan: IngestPlan, retriever: Retriever, progress: ProgressListener
) -> None:
    """Delete, ingest, ask, clean up. Asking went well if every query was answered."""

    async def ask() -> bool:
        await target.ask()
        return not target.pool.failed

    found = await ask_ingested(
        plan,
        retriever,
        ask,
        locks=LOCKS,
        tell=progress.say,
        succeeded=bool,
        on_progress=progress.ingested,
    )
    if found.unsearchable:
        shown = ", ".join(found.unsearchable[:3]) + (", …" if len(found.unsearchable) > 3 else "")
        target.own_notes.append(f"{target.name} can never find {len(found.unsearchable)} of the documents: {shown}")
    if found.left_behind:
        target.own_notes.append(found.left_behind)
