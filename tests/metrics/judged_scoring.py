"""Scores exchanges with judged metrics against a scripted judge, through the doors that a run uses."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import UNSET

from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.model import AgentReply, Exchange, Sample, Score
from evalspec.runs.runner.scoring import score_exchange
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.metrics.base import METRICS, BuildContext, Metric, build_scorer
from evalspec.scoring.metrics.own import define_rubric
from servers.scripted_judge import ScriptedJudge

KEY = "sk-scripted-0123456789"
REFUNDS = "Refunds are paid within 30 days. Annual plans can be refunded during the first month."
SYNC = "Photos are uploaded only while the battery is above 20 percent."
KEYS = "Up to 6 devices can be linked to one account."


def exchange(
    response: str = "Refunds are paid within 30 days. Refunds are paid in gold coins.",
    contexts: tuple[str, ...] | None = (REFUNDS, SYNC, KEYS),
    **sample: Any,
) -> Exchange:
    """A question about refunds, and what the agent made of it."""
    fields = {
        "user_input": "When are refunds paid?",
        "references": ("Refunds are paid within 30 days.",),
        "reference_contexts": (REFUNDS,),
    }
    return Exchange(Sample("s1", **(fields | sample)), AgentReply(response, retrieved_contexts=contexts))


def services_for(judge: ScriptedJudge, **config: Any) -> JudgeServices:
    """Judge and embeddings at the scripted judge; no retries unless asked for, and one request after the other."""
    settings = {"model": "scripted", "base_url": judge.url, "api_key": KEY, "max_retries": 0, "timeout_seconds": 60.0}
    settings["concurrency"] = 1
    embeddings = EmbeddingsConfig(provider="openai-compatible", model="bag", base_url=judge.url, max_retries=0)
    return JudgeServices(JudgeConfig(**(settings | config)), embeddings)


def score(judge: ScriptedJudge, entry: str | dict[str, Any], *exchanges: Exchange, **config: Any) -> list[Score]:
    """The scores of one metric for several exchanges at once."""
    return score_with(services_for(judge, **config), entry, *exchanges)


def score_with(services: JudgeServices, entry: str | dict[str, Any], *exchanges: Exchange) -> list[Score]:
    """The same with services of one's own; they are closed afterwards."""

    async def run() -> list[Score]:
        metric = build_metric(MetricEntry.model_validate(entry), services)
        try:
            results = await asyncio.gather(
                *(score_exchange([metric], each, lambda _new: None, known={}) for each in exchanges)
            )
        finally:
            await services.aclose()
        return [scores[metric.name] for scores in results]

    return asyncio.run(run())


def evidence_of(score: Score) -> Any:
    """The evidence of a score, which has some."""
    assert score.evidence is not UNSET
    return score.evidence


def build_metric(entry: MetricEntry, services: JudgeServices) -> Metric:
    """The metric of an entry, with the one it is derived from."""
    definition = define_rubric(entry) if entry.rubric else METRICS.find(entry.name)
    assert definition is not None
    root = None
    if definition.base:
        root = build_metric(entry.model_copy(update={"name": definition.base}), services)
    scorer = build_scorer(
        definition, definition.needs, BuildContext(None, Path(), services, parameters=entry.model_extra or {})
    )
    return Metric(definition.name, definition, scorer, definition.needs, definition.bounds, root)
