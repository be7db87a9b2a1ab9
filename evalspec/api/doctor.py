"""`evalspec doctor`: ask the agent, the judge and the embeddings of a manifest one small question each."""

import asyncio
import os
import platform
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from evalspec import __version__
from evalspec.api.loops import run_coroutine
from evalspec.api.repository import check_gate
from evalspec.base.errors import EvalspecError, InvalidInput, ServiceError
from evalspec.inputs.manifest.judge_schema import JudgeConfig, ModelConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import AgentReply, JudgeUsage, Need, Sample
from evalspec.model.checkups import Checkup, CheckupFinding, CheckupStatus
from evalspec.runs.planning.build import Plan, build_plan
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.services import locate_keys
from evalspec.runs.runner.execute import agent_process, close_agent
from evalspec.runs.store.run_store import RunStore
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.entry import AgentFunction
from evalspec.targets.agents.function import call_function

if TYPE_CHECKING:
    from evalspec.scoring.judge.chat import ModelRole

_QUESTION = "Are you there? Answer with yes."
_SCHEMA = {
    "title": "answer",
    "type": "object",
    "properties": {"value": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["value"],
}
_LEAST_FREE_BYTES = 200 << 20
_MOST_SKEW_SECONDS = 30.0
_PACKAGES = ("ragas", "instructor", "openai", "wordllama", "httpx", "pydantic", "msgspec")


class _Answered(NamedTuple):
    """What a service answered. `clock_skew`: seconds that this machine's clock is ahead of the service's, if known.

    `seconds`: until the answer; None: until the check ended.
    """

    message: str
    clock_skew: float | None = None
    warning: str | None = None
    fix: str | None = None
    seconds: float | None = None


def diagnose(loaded: LoadedManifest, options: RunOptions, store: RunStore) -> Checkup:
    """Return what a run of the manifest would find. Starts the agent's command, and sends one question to each service.

    Raises:
        InvalidInput: the manifest or a dataset is invalid.
    """
    plan = build_plan(loaded, options, is_probe=True)
    found = [*_check_machine(store), *check_gate(loaded), *run_coroutine(lambda: _ask_all(plan))]
    redact = loaded.references.redact
    findings = tuple(replace(one, message=redact(one.message), fix=one.fix and redact(one.fix)) for one in found)
    return Checkup(exit_code=3 if any(one.status is CheckupStatus.FAILED for one in findings) else 0, findings=findings)


def _check_machine(store: RunStore) -> Iterator[CheckupFinding]:
    versions = [f"evalspec {__version__}", f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    yield CheckupFinding("versions", CheckupStatus.OK, ", ".join(versions))
    for name, folder in (("runs", store.runs), ("cache", store.cache)):
        yield _check_folder(f"disk of {name}", folder)


def _check_folder(name: str, folder: Path) -> CheckupFinding:
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        fix = "make it a folder that you may write to, or run evalspec in another folder"
        return CheckupFinding(name, CheckupStatus.FAILED, f"{place} cannot be written to", fix)
    free = shutil.disk_usage(place).free
    message = f"{free >> 20:,} MiB are free in {place}"
    if free < _LEAST_FREE_BYTES:
        return CheckupFinding(name, CheckupStatus.FAILED, message, f"free at least {_LEAST_FREE_BYTES >> 20} MiB")
    return CheckupFinding(name, CheckupStatus.OK, message)


async def _ask_all(plan: Plan) -> list[CheckupFinding]:
    needs = {need for dataset in plan.datasets for metric in dataset.metrics.values() for need in metric.needs}
    embeddings = plan.services.embeddings
    is_local = embeddings.provider == "local"
    parts: list[tuple[str, str | None, str, Callable[[], Awaitable[_Answered]] | None]] = [
        ("agent", plan.target.url if plan.target else None, "spec.api", _find_agent(plan)),
        *_list_judges(plan),
        *_list_users(plan),
        (
            "embeddings",
            None if is_local else embeddings.base_url,
            "spec.evaluation.embeddings",
            partial(_embed, plan) if Need.EMBEDDINGS in needs else None,
        ),
    ]
    try:
        return [
            finding
            for name, url, setting, ask in parts
            async for finding in _check_service(name, url if ask else None, setting, ask)
        ]
    finally:
        await plan.services.aclose()
        await close_agent(plan)


def _list_judges(plan: Plan) -> list[tuple[str, str | None, str, Callable[[], Awaitable[_Answered]] | None]]:
    """Return the judge, or each one of a panel."""
    setting = "spec.evaluation.judge"
    if plan.judge is None:
        return [("judge", None, setting, None)]
    members = plan.judge.members
    names = ["judge"] if len(members) == 1 else [f"judge {one.model}" for one in members]
    return [
        (name, one.base_url, setting, partial(_ask_judge, plan, one, number))
        for number, (name, one) in enumerate(zip(names, members, strict=True))
    ]


def _list_users(plan: Plan) -> list[tuple[str, str | None, str, Callable[[], Awaitable[_Answered]] | None]]:
    """Return the model that plays users, if the run has any."""
    if plan.user is None:
        return []
    from evalspec.scoring.judge.chat import ModelRole

    role = ModelRole("the simulated user", "spec.evaluation.user")
    return [("simulated user", plan.user.base_url, role.setting, partial(_ask_model, plan, plan.user, role))]


async def _check_service(
    name: str, url: str | None, setting: str, ask: Callable[[], Awaitable[_Answered]] | None
) -> AsyncIterator[CheckupFinding]:
    if ask is None:
        yield CheckupFinding(name, CheckupStatus.SKIPPED, "no selected dataset needs it")
        return
    if url is not None:
        from evalspec.targets.http.routes import shown_proxy

        proxy = shown_proxy(url)
        yield CheckupFinding(
            f"proxy of {name}", CheckupStatus.OK, f"requests go through {proxy}" if proxy else "none is used"
        )
    started = perf_counter()
    try:
        answered = await ask()
    except EvalspecError as error:
        yield CheckupFinding(name, CheckupStatus.FAILED, str(error), _suggest(error, setting))
        return
    seconds = perf_counter() - started if answered.seconds is None else answered.seconds
    message = f"{answered.message} in {seconds:.1f} s"
    yield CheckupFinding(name, CheckupStatus.OK, message)
    if answered.warning:
        yield CheckupFinding(f"answers of {name}", CheckupStatus.WARNING, answered.warning, answered.fix)
    if answered.clock_skew is not None:
        yield _judge_clock(name, answered.clock_skew)


def _judge_clock(name: str, skew: float) -> CheckupFinding:
    message = f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} that of the service"
    if abs(skew) <= _MOST_SKEW_SECONDS:
        return CheckupFinding(f"clock of {name}", CheckupStatus.OK, message)
    return CheckupFinding(
        f"clock of {name}", CheckupStatus.WARNING, message, "set the clock; keys that expire depend on it"
    )


def _suggest(error: EvalspecError, setting: str) -> str:
    """Return what to do after a failure."""
    if isinstance(error, InvalidInput):
        return error.problems[0].fix
    if isinstance(error, ServiceError) and error.unreachable:
        return f"start it, or correct its address in {setting}"
    if isinstance(error, ServiceError) and error.status in (401, 403):
        return f"correct the key in {setting}"
    return f"correct {setting}, or the service; the message says what it answered"


def _find_agent(plan: Plan) -> Callable[[], Awaitable[_Answered]] | None:
    asked = [dataset for dataset in plan.datasets if dataset.is_at_agent]
    if not asked or (plan.target is None and plan.agent is None):
        return None
    sample = replace(asked[0].samples[0], user_input=_QUESTION)

    agent, target = plan.agent, plan.target

    async def ask() -> _Answered:
        async with agent_process(plan, None, needed=True):
            reply = await (ask_by_http(plan.loaded, target, sample) if agent is None and target else _call(agent))
        return _Answered(f"it answered {len(reply.response):,} characters")

    return ask


async def _call(agent: AgentFunction) -> AgentReply:
    from evalspec.targets.agents.results import read_result

    return read_result(await call_function(agent, _QUESTION), "the result of the agent's function")


async def ask_by_http(loaded: LoadedManifest, target: AgentTarget, sample: Sample) -> AgentReply:
    """Return the reply to one request, as a run makes it.

    Raises:
        ServiceError: there is no usable reply.
    """
    from evalspec.targets.agents.http import HttpAgent, open_credentials

    credentials = open_credentials(target, locate_keys(loaded))
    agent = HttpAgent(target, credentials.choose_route(target.url), credentials)
    try:
        return await agent.ask(sample)
    finally:
        await agent.aclose()


async def _ask_judge(plan: Plan, config: JudgeConfig, member: int) -> _Answered:
    from evalspec.scoring.judge.chat import find_role
    from evalspec.scoring.judge.services import import_ragas

    answered = await _ask_model(plan, config, find_role(member))
    await asyncio.to_thread(import_ragas)
    return answered


async def _ask_model(plan: Plan, config: ModelConfig, role: "ModelRole") -> _Answered:
    from evalspec.scoring.judge.chat import ChatClient
    from evalspec.scoring.judge.extraction import UnusableVerdict, extract_object
    from evalspec.scoring.judge.usage import JudgeListener, UsageLedger

    learned: dict[str, Mapping[str, str]] = {}
    ledger = UsageLedger()

    def check(text: str) -> str:
        answer = extract_object(text).get("value")
        if answer not in ("yes", "no"):
            raise UnusableVerdict("its answer is neither yes nor no")
        return str(answer)

    listener = JudgeListener(lambda found: learned.update(found))
    client = ChatClient(config, ledger, listener, keys=locate_keys(plan.loaded), role=role)
    started = perf_counter()
    try:
        await client.ask(_QUESTION, _SCHEMA, check, "doctor")
    finally:
        await client.aclose()
    seconds = perf_counter() - started
    names = [*learned.get("judge_models", {}).values()] or ["it"]
    refused = learned.get("judge_refused", {})
    instead = "".join(f"; {name} is {what}" for name, what in sorted(refused.items()))
    message = f"{names[0]} answered by wire {config.wire}{instead}"
    if _count_repairs(ledger.total, len(refused)):
        warning = "its first answer was no JSON object of the schema, so each such answer costs another request"
        return _Answered(
            message, client.clock_skew, warning, "set responseFormat to what the endpoint supports", seconds
        )
    return _Answered(message, client.clock_skew, seconds=seconds)


def _count_repairs(used: JudgeUsage, refused: int) -> int:
    """Return the requests after an unusable answer or a failure; refused parameters are reported on their own."""
    return used.retries - refused


async def _embed(plan: Plan) -> _Answered:
    embedder = plan.services.embedder()
    vectors = await embedder.embed([_QUESTION])
    return _Answered(f"a vector of {vectors.shape[1]} dimensions", embedder.clock_skew)
