"""Execute a plan: send requests, score replies, and conclude the run. Everything is stored as soon as it exists."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from evalspec.base.errors import AgentDown, EvalspecError, InvalidInput, RetrieverError
from evalspec.base.plural import counted
from evalspec.model import Run, add_usage
from evalspec.model.log import PeopleRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.services import API_PLACE, PORT
from evalspec.runs.planning.sharding import has_own_agents
from evalspec.runs.runner.anchors import check_drift
from evalspec.runs.runner.command_code import explain_unknown
from evalspec.runs.runner.conclude import RunMetadata
from evalspec.runs.runner.controls import check_judge
from evalspec.runs.runner.execution import Execution
from evalspec.runs.runner.known_attempts import KnownAttempts
from evalspec.runs.runner.results import Results
from evalspec.runs.runner.second_attempts import explain_no_second, outline_second
from evalspec.runs.runner.session import Session, keep_drifts, keep_reuse
from evalspec.runs.runner.targets import ProgressListener
from evalspec.runs.runner.turn_log import TurnLogs
from evalspec.runs.runner.worker import OpenWorker, work_here
from evalspec.runs.store.run_log import AGENT_LOG_NAME
from evalspec.scoring.judge.budget import Budget
from evalspec.scoring.judge.usage import JudgeListener
from evalspec.targets.agents.call_thread import CallThread, close_object, find_owner
from evalspec.verdict.outline import RunOutline

if TYPE_CHECKING:
    from evalspec.verdict.comparison.baseline import Baseline

_NOT_TRUE = ("", "0", "false", "no", "off")


@asynccontextmanager
async def agent_process(
    plan: Plan, log_path: Path | None, *, needed: bool, environment: Mapping[str, str] = {}
) -> AsyncIterator[str | None]:
    """Run the manifest's command for the duration of the block, if there is one.

    Yields the url of an agent that already answers, in which case the command is not started; otherwise None. A url in
    the options of the run means another agent, so the command is not started either. `log_path`: the file for the
    output of the command; None: it is dropped. `environment`: further variables for it.

    Raises:
        InvalidInput: An agent already answers there, and `spec.api.reuse` forbids to use it.
        AgentDown: The command did not become ready.
    """
    api = plan.loaded.manifest.spec.api
    is_elsewhere = plan.options.url is not None or has_own_agents(plan.loaded, plan.options)
    if not needed or api.command is None or plan.url is None or is_elsewhere:
        yield None
        return
    from evalspec.targets.http.failures import shown_url
    from evalspec.targets.process import AgentProcess, ready_url

    port = str(urlsplit(plan.url).port or 80)
    process = AgentProcess(
        [word.replace(PORT, port) for word in api.command],
        cwd=plan.loaded.path.parent,
        ready_url=ready_url(plan.url, api.ready_path),
        ready_timeout=api.ready_timeout_seconds,
        log_path=log_path,
        environment=environment,
    )
    try:
        started = await process.start_if_needed()
        if not started:
            _refuse_reuse(plan, shown_url(plan.url))
        yield None if started else shown_url(plan.url)
    finally:
        process.stop()


def _find_log(session: Session) -> Path | None:
    """Return the file for the output of the agent's command. It is a text: without texts, it is not stored."""
    return session.log.place / AGENT_LOG_NAME if session.outline.has_texts else None


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


async def execute(
    session: Session,
    progress: ProgressListener,
    baseline: "Baseline | None" = None,
    open_worker: OpenWorker = work_here,
) -> Run:
    """Run all remaining attempts of a session and return the run. Starts the agent if the manifest has a command.

    A drop that a test finds is confirmed by second attempts. `baseline`: what to compare with. `open_worker`: opens
    what asks and scores.

    Raises:
        AgentDown: The agent's command did not become ready.
        InvalidInput: An agent already answers at the url of the command, and `spec.api.reuse` forbids to use it.
        StoreError: The log cannot be written. Earlier records are intact.
        MissingPackage: An optional package is missing or broken.
    """
    plan, outline, log, known = session.plan, session.outline, session.log, session.known_attempts
    run_metadata, results = RunMetadata(session.fingerprint, baseline), Results(plan, outline)
    turns = TurnLogs(log.append, known)
    execution = Execution(plan, outline, log, progress, known, run_metadata, results, turns, open_worker)
    plan.services.listener = JudgeListener(execution.keep_learned, progress.judge_waits, progress.say)
    if plan.services.cache is not None:
        plan.services.cache.report_to(plan.services.usage, plan.services.listener)
    execution.sort_out()
    if plan.options.fail_fast:
        execution.stop_when_certain(may_be_corrected=session.collect_people is not None)
    is_resumed = session.known_attempts is not None and session.known_attempts.is_own and execution.needs_agent()
    run = None
    receiving = AsyncExitStack()
    try:
        await receiving.enter_async_context(_receive_traces(session, execution))
        await plan.services.collect_batches(progress.say)
        plan.services.budget = open_budget(plan, session.known_attempts)
        async with agent_process(
            plan, _find_log(session), needed=execution.needs_agent(), environment=execution.environment
        ) as reused_url:
            if reused_url is not None:
                _note_reuse(session, execution, reused_url)
            if is_resumed and (unknown := explain_unknown(plan, execution.run_metadata.fingerprint)):
                progress.say(unknown)
            await execution.measure()
            drifts = await check_drift(session, progress)
            fingerprint = keep_drifts(session, execution.run_metadata.fingerprint, drifts)
            controls = await check_judge(session, progress)
            execution.run_metadata = structs.replace(execution.run_metadata, fingerprint=fingerprint, controls=controls)
            if session.collect_people is not None:
                people = session.collect_people()
                log.conclude_with(PeopleRecord(people))
                execution.run_metadata = structs.replace(execution.run_metadata, people=people)
            run = execution.conclude()
            second = outline_second(outline, run)
            if second is not None:
                run = execution.conclude(await _ask_again(session, execution, second))
        await plan.services.submit_batches(progress.say)
    except BaseExceptionGroup as group:
        raise _first(group.subgroup(EvalspecError) or group) from None
    finally:
        await receiving.aclose()
        await plan.services.aclose()
        notices = [*await close_agent(plan), *await _close_retrievers(plan)]
        if run is None:  # there will be no report
            for notice in notices:
                progress.say(notice)
    return structs.replace(run, notes=(*run.notes, *notices))


def _note_reuse(session: Session, execution: Execution, url: str) -> None:
    fingerprint = keep_reuse(session, url)
    execution.run_metadata = structs.replace(execution.run_metadata, fingerprint=fingerprint)
    if execution.tracing is not None:
        execution.tracing.note_running()


@asynccontextmanager
async def _receive_traces(session: Session, execution: Execution) -> AsyncIterator[None]:
    """Receive the spans of the agent for the duration of the block, if the plan says so."""
    if session.plan.traces is None:
        yield
        return
    from evalspec.runs.runner.trace_source import open_tracing

    receiving = open_tracing(session.plan, session.plan.traces, session.log.append, session.known_attempts)
    async with receiving as (execution.tracing, execution.environment):
        yield


def open_budget(plan: Plan, known: KnownAttempts | None) -> Budget:
    """Return the budget of a run. Its log says what earlier sessions have used."""
    own = known.index if known is not None and known.is_own else None
    used = dict(own.judge_usage) if own else {}
    batches = plan.services.batches
    if batches is not None:
        used = add_usage(used, batches.usage, {"": batches.reserved})
    seconds = own.milliseconds / 1000 if own else 0.0
    return Budget(plan.services.usage, plan.limits, plan.price, used, seconds, plan.limit_names, plan.user_price)


async def _ask_again(session: Session, first: Execution, outline: RunOutline) -> Execution | str:
    """Return the second attempts at the samples of an outline, or why there are none."""
    if reason := explain_no_second(first.run_metadata.fingerprint):
        return reason
    second = first.prepare_second(outline)
    metrics = sum(len(dataset.metrics) for dataset in outline.datasets)
    samples = sum(len(dataset.samples) for dataset in second.plan.datasets)
    first.progress.say(f"confirming {counted(metrics, 'metric')} on {counted(samples, 'sample')}")
    try:
        is_needed = second.needs_agent() and not first.needs_agent()
        environment = first.environment
        async with agent_process(session.plan, _find_log(session), needed=is_needed, environment=environment):
            await second.measure()
    except (AgentDown, InvalidInput) as error:
        return f"the agent did not start: {error}"
    return second


async def close_agent(plan: Plan) -> list[str]:
    """Close the agent that was created for this run, and return why it cannot be closed. It may not have been asked."""
    owner = find_owner(plan.agent) if plan.owns_agent else None
    thread = CallThread()
    failure = None if owner is None else await close_object(owner, thread)
    thread.close()
    return [] if failure is None else [failure]


async def _close_retrievers(plan: Plan) -> list[str]:
    """Close all retrievers, and return why some cannot be closed, which must not cost a finished run."""
    notices = []
    for retriever in plan.opened:
        try:
            await retriever.aclose()
        except RetrieverError as error:
            notices.append(f"a retriever cannot be closed: {error}")
    return notices


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group. Tasks that fail together fail for the same reason."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
