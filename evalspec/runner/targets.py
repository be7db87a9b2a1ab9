"""The targets of a run: the agent for its datasets, and a retriever for each other dataset."""

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
    """The jobs of one target. Samples are looked up one by one, because they may be on disk."""

    jobs: Sequence[Job]
    find_sample: Callable[[Job], Sample]

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[tuple[Job, Sample]]:
        return ((job, self.find_sample(job)) for job in self.jobs)


class ProgressListener(Protocol):
    """A listener that is called after each step of a run."""

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Report the number of attempts so far."""
        ...

    def ingested(self, done: int, total: int) -> None:
        """Report the documents that a retriever has ingested so far."""
        ...

    def say(self, line: str) -> None:
        """Report a message to show immediately."""
        ...


@dataclass(slots=True)
class JobTarget(Generic[Job]):
    """An agent or retriever with its jobs.

    `surround`: called instead of `ask` with this target, for work before and after the requests. `own_notes`: notes for
    the report.
    """

    name: str
    pool: WorkerPool[Job]
    jobs: Jobs[Job]
    surround: Callable[["JobTarget[Job]"], Awaitable[None]] | None = None
    own_notes: list[str] = field(default_factory=list)

    @property
    def is_down(self) -> bool:
        """Whether the target is considered down."""
        return self.pool.agent_down is not None

    @property
    def never_reached(self) -> bool:
        """Whether connections failed and no request was ever answered."""
        return self.pool.never_reached

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


def open_agent(plan: Plan, jobs: Jobs[Job], receive: Receive[Job]) -> JobTarget[Job]:
    """Return the agent as a target. Each worker gets its own Agent."""
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
    """Return the retriever of a dataset as a target. It ingests the documents first, if the plan says so.

    Raises:
        ValueError: The retriever is not open.
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
    """Delete, ingest, query and clean up. The queries succeed if all of them are answered."""

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
