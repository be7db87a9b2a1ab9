"""The retrievers of datasets as targets of a run, with their ingestion."""

from pathlib import Path

from evalspec.base.errors import RetrieverError, Unmeasurable
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset, PlannedRetriever
from evalspec.runs.runner.targets import Job, JobTarget, ProgressListener, Receive, open_pool
from evalspec.runs.runner.worker_pool import JobSource
from evalspec.targets.retrievers.agent import RetrieverAgent
from evalspec.targets.retrievers.base import Prepares, Retriever
from evalspec.targets.retrievers.ingest_plan import IngestPlan, ask_ingested
from evalspec.targets.retrievers.stores import count_retries

LOCKS = Path(".evalspec") / "locks"


def open_retriever_target(
    plan: Plan, dataset: PlannedDataset, jobs: JobSource[Job], receive: Receive[Job], progress: ProgressListener
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
    pool = open_pool(plan, lambda: agent, receive, jobs, count_retries(planned.target))

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
