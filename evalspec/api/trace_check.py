"""`evalspec traces check`: send one request, and tell what its spans say and what each metric would read in them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

from msgspec.structs import replace

from evalspec.api.arguments import AnyPath, Options, to_options
from evalspec.api.evaluation import ProgressCallback
from evalspec.api.loops import run_coroutine
from evalspec.base.errors import InvalidInput
from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.traces.steps import read_steps
from evalspec.model import Exchange
from evalspec.model.checkups import Checkup, CheckupFinding, CheckupStatus
from evalspec.model.log import SpansRecord, TraceRecord
from evalspec.model.spans import StepKind, TraceStep
from evalspec.runs.planning.build import Plan, build_plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.runner.conversing import NoTurnLog
from evalspec.runs.runner.execute import agent_process, close_agent
from evalspec.runs.runner.targets import Jobs, open_agent
from evalspec.runs.runner.trace_source import open_tracing
from evalspec.runs.runner.tracing import Tracing
from evalspec.runs.store.log_index import AttemptKey
from evalspec.scoring.metrics.base import Metric
from evalspec.targets.agents.entry import AgentFunction

_READ = {
    "retrieved_context_ids": "ids of retrieved documents",
    "retrieved_contexts": "texts of retrieved documents",
    "prompt_contexts": "which texts were in the prompt",
    "candidate_ids": "ids before reranking",
    "tool_calls": "calls of tools",
    "steps": "calls of the model",
    "usage": "tokens",
    "trace": "times of stages",
}
_CONTINUE = "let its server continue the `traceparent` header, for example with an instrumentation of its web framework"
_ATTRIBUTES_SHOWN = 12


def check_traces(manifest: AnyPath, *, agent: AgentFunction | None = None, **options: Unpack[Options]) -> Checkup:
    """Return which spans arrive for the first sample of a manifest, and what metrics read in them.

    The agent's command is started, and stopped afterwards. Nothing is stored.

    Raises:
        InvalidInput: the manifest or a dataset is invalid, or the agent is not asked.
        AgentDown: the agent's command did not become ready.
    """
    loaded = load_manifest(Path(manifest))
    given = to_options({"sample_size": 1, **options}, agent)
    plan = build_plan(loaded, replace(given, no_judge=True, traces=True))
    asked = [dataset for dataset in plan.datasets if dataset.retriever is None]
    config = plan.traces
    if not asked or config is None:
        raise InvalidInput("no dataset asks the agent, so there are no traces", "add a dataset without a retriever")
    findings = run_coroutine(lambda: _check(plan, config, asked[0]))
    redact = loaded.references.redact
    shown = tuple(
        replace(one, name=redact(one.name), message=redact(one.message), fix=one.fix and redact(one.fix))
        for one in findings
    )
    return Checkup(exit_code=3 if any(one.status is CheckupStatus.FAILED for one in shown) else 0, findings=shown)


async def _check(plan: Plan, config: TracesConfig, dataset: PlannedDataset) -> list[CheckupFinding]:
    stored: list[SpansRecord | TraceRecord] = []
    replies: list[Exchange] = []
    joined: list[Exchange] = []
    sample = dataset.samples[0]
    key = AttemptKey(dataset.name, sample.id, 1)

    async def receive(_: AttemptKey, exchange: Exchange) -> None:
        replies.append(exchange)

    async def keep(exchange: Exchange) -> None:
        joined.append(exchange)

    try:
        async with (
            open_tracing(plan, config, stored.append, None) as (tracing, environment),
            agent_process(plan, None, needed=True, environment=environment) as reused_url,
        ):
            if reused_url is not None:
                tracing.note_running()
            jobs = Jobs([key], lambda _: sample)
            target = open_agent(plan, jobs, receive, ProgressCallback(1, None), lambda _: NoTurnLog(), tracing.begin)
            await target.ask_all()
            await tracing.submit(key, replies[0], dataset, keep, asyncio.create_task)
            await tracing.drain()
    finally:
        await plan.services.aclose()
        await close_agent(plan)
    if joined[0].reply is None:
        return [CheckupFinding("reply", CheckupStatus.FAILED, f"there is none: {joined[0].error}", "repair the agent")]
    records = [one for one in stored if isinstance(one, SpansRecord)]
    if not records:
        return list(_check_arrival((), tracing))
    steps = read_steps([span for one in records for span in one.spans])
    attributes = {span.span_id: list(span.attributes) for one in records for span in one.spans}
    metrics = [metric for one in plan.datasets if one.retriever is None for metric in one.metrics.values()]
    return [
        *_check_arrival(steps, tracing),
        *(_describe_span(step, attributes[step.span_id]) for step in steps),
        *_check_fields(joined[0]),
        *_check_metrics(joined[0], metrics),
    ]


def _check_arrival(steps: tuple[TraceStep, ...], tracing: Tracing) -> Iterator[CheckupFinding]:
    if steps:
        yield CheckupFinding("spans", CheckupStatus.OK, f"{counted(len(steps), 'span')} of the request arrived")
    else:
        fix = f"let the agent continue `traceparent`, sample every trace, and export it to {tracing.source}"
        yield CheckupFinding("spans", CheckupStatus.FAILED, "no span of the request arrived", fix)
    if tracing.counts["other"]:
        message = f"{counted(tracing.counts['other'], 'span')} of other traces arrived"
        status = CheckupStatus.WARNING if steps else CheckupStatus.FAILED
        yield CheckupFinding("other traces", status, message, _CONTINUE)
    for why in tracing.refusals:
        yield CheckupFinding("export", CheckupStatus.FAILED, why, "correct the exporter of the agent")


def _describe_span(step: TraceStep, attributes: list[str]) -> CheckupFinding:
    kind = "not read" if step.kind is StepKind.OTHER else step.kind
    named = ", ".join(attributes[:_ATTRIBUTES_SHOWN]) + (", …" if len(attributes) > _ATTRIBUTES_SHOWN else "")
    status = CheckupStatus.WARNING if step.hidden else CheckupStatus.OK
    return CheckupFinding(f"span {step.name}", status, f"{kind}; attributes: {named or 'none'}", step.hidden)


def _check_fields(exchange: Exchange) -> Iterator[CheckupFinding]:
    reply = exchange.reply
    for field, words in _READ.items():
        value, why = getattr(reply, field), exchange.lacks_traced(field)
        if value is not None:
            count = counted(len(value), "entry", "entries") if isinstance(value, tuple) else "known"
            yield CheckupFinding(words, CheckupStatus.OK, count)
        elif why is not None:
            yield CheckupFinding(words, CheckupStatus.SKIPPED, why)


def _check_metrics(exchange: Exchange, metrics: list[Metric]) -> Iterator[CheckupFinding]:
    """Yield what each metric that reads the trace would read."""
    for metric in {metric.name: metric for metric in metrics if metric.traced}.values():
        lacking = [why for field in sorted(metric.traced) if (why := exchange.lacks_traced(field)) is not None]
        read = name_some([_READ[field] for field in sorted(metric.traced)])
        if lacking:
            yield CheckupFinding(f"metric {metric.name}", CheckupStatus.FAILED, lacking[0], f"it reads {read}")
        else:
            yield CheckupFinding(f"metric {metric.name}", CheckupStatus.OK, f"reads {read}")
