"""The agent process that evalspec starts for a run."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evalspec.base.errors import InvalidInput
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.services import API_PLACE
from evalspec.runs.runner.session import Session
from evalspec.runs.store.run_log import AGENT_LOG_NAME

_NOT_TRUE = ("", "0", "false", "no", "off")


@asynccontextmanager
async def agent_process(session: Session, *, needed: bool) -> AsyncIterator[str | None]:
    """Run the manifest's command for the duration of the block, if there is one.

    Yields the url of an agent that already answers, in which case the command is not started; otherwise None. A url in
    the options of the run means another agent, so the command is not started either. The output of the command is a
    text: without texts, it is not stored.

    Raises:
        InvalidInput: An agent already answers there, and `spec.api.reuse` forbids to use it.
        AgentDown: The command did not become ready.
    """
    plan = session.plan
    api = plan.loaded.manifest.spec.api
    if not needed or api.command is None or plan.url is None or plan.options.url is not None:
        yield None
        return
    from evalspec.targets.agents.process import AgentProcess, ready_url
    from evalspec.targets.http.failures import shown_url

    process = AgentProcess(
        api.command,
        cwd=plan.loaded.path.parent,
        ready_url=ready_url(plan.url, api.ready_path),
        ready_timeout=api.ready_timeout_seconds,
        log_path=session.log.place / AGENT_LOG_NAME if session.outline.has_texts else None,
    )
    try:
        started = await process.start_if_needed()
        if not started:
            _refuse_reuse(plan, shown_url(plan.url))
        yield None if started else shown_url(plan.url)
    finally:
        process.stop()


def _refuse_reuse(plan: Plan, url: str) -> None:
    """Raise unless `spec.api.reuse` allows a running agent. In CI, a leftover agent would go unnoticed."""
    reuse = plan.loaded.manifest.spec.api.reuse
    in_ci = os.environ.get("CI", "").strip().lower() not in _NOT_TRUE
    if reuse is True or (reuse == "auto" and not in_ci):
        return
    why = "spec.api.reuse is false" if reuse is False else "in CI evalspec queries only the agent that `command` starts"
    message = f"something already answers at {url}, and {why}"
    fix = "stop it, change the port, or set spec.api.reuse: true"
    raise InvalidInput(plan.loaded.problem((*API_PLACE, "command"), message, fix))
