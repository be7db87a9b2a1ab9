"""The agent's own process, for the time of a run."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evalspec.errors import InvalidInput
from evalspec.planning.build import Plan
from evalspec.planning.services import API_PLACE
from evalspec.runner.session import Session

_NOT_TRUE = ("", "0", "false", "no", "off")


@asynccontextmanager
async def agent_process(session: Session, *, needed: bool) -> AsyncIterator[str | None]:
    """The agent's own process, where the manifest has a command. What it prints is a text.

    Gives the url where something already answers, so that the command was not started; None otherwise. A url given
    with the run names another agent than the one that the command starts.

    Raises:
        InvalidInput: something already answers there, and is not to be asked (`spec.api.reuse`).
        AgentDown: see AgentProcess.
    """
    plan = session.plan
    api = plan.loaded.manifest.spec.api
    if not needed or api.command is None or plan.url is None or plan.options.url is not None:
        yield None
        return
    from evalspec.agents.process import AgentProcess, ready_url
    from evalspec.http.failures import shown_url

    process = AgentProcess(
        api.command,
        cwd=plan.loaded.path.parent,
        ready_url=ready_url(plan.url, api.ready_path),
        ready_timeout=api.ready_timeout_seconds,
        log_path=session.log.place / "agent.log" if session.outline.has_texts else None,
    )
    try:
        started = await process.start_if_needed()
        if not started:
            _refuse_reuse(plan, shown_url(plan.url))
        yield None if started else shown_url(plan.url)
    finally:
        process.stop()


def _refuse_reuse(plan: Plan, url: str) -> None:
    """Raise unless an agent that already answers may be asked: one left over from elsewhere would go unseen in CI."""
    reuse = plan.loaded.manifest.spec.api.reuse
    in_ci = os.environ.get("CI", "").strip().lower() not in _NOT_TRUE
    if reuse is True or (reuse == "auto" and not in_ci):
        return
    why = "spec.api.reuse is false" if reuse is False else "in CI only the agent that `command` starts is asked"
    message = f"something already answers at {url}, and {why}"
    fix = "stop it, change the port, or set spec.api.reuse: true"
    raise InvalidInput(plan.loaded.problem((*API_PLACE, "command"), message, fix))
