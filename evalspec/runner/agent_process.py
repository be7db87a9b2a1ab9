"""The agent's own process, for the time of a run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evalspec.agents.process import AgentProcess, ready_url
from evalspec.runner.session import Session


@asynccontextmanager
async def agent_process(session: Session, *, needed: bool) -> AsyncIterator[None]:
    """The agent's own process, where the manifest has a command and nothing answers yet. What it prints is a text.

    An url given with the run names another agent than the one that the command starts.
    """
    plan = session.plan
    api = plan.loaded.manifest.spec.api
    if not needed or api.command is None or plan.url is None or plan.options.url is not None:
        yield
        return
    process = AgentProcess(
        api.command,
        cwd=plan.loaded.path.parent,
        ready_url=ready_url(plan.url, api.ready_path),
        ready_timeout=api.ready_timeout_seconds,
        log_path=session.log.folder / "agent.log" if session.outline.has_texts else None,
    )
    try:
        await process.start_if_needed()
        yield
    finally:
        process.stop()
