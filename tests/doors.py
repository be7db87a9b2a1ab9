"""The four places where a reply comes in. Each sends requests to a url and raises what it makes of the last reply."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.model import Sample
from evalspec.scoring.judge.chat import ChatClient
from evalspec.scoring.judge.embeddings import create_embedder
from evalspec.scoring.judge.usage import UsageLedger
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.base import SearchRequest
from evalspec.targets.retrievers.http_target import RemoteRetriever
from servers.faulty_retriever import describe_retriever

SECONDS = 60.0


async def _repeat(ask: Callable[[], Awaitable[object]], times: int) -> None:
    for _ in range(times - 1):
        with suppress(ServiceError):
            await ask()
    await ask()


async def ask_agent(url: str, times: int = 1) -> None:
    agent = HttpAgent(AgentTarget(url, ChatEndpoint(timeout_seconds=SECONDS), {}), choose_route(url))
    try:
        await _repeat(lambda: agent.ask(Sample("s1", "?")), times)
    finally:
        await agent.aclose()


async def ask_judge(url: str, times: int = 1) -> None:
    config = JudgeConfig(base_url=url, model="m", max_retries=0, timeout_seconds=SECONDS)
    client = ChatClient(config, UsageLedger())
    try:
        await _repeat(lambda: client.ask("?", {}, json.loads, "tone"), times)
    finally:
        await client.aclose()


async def ask_embeddings(url: str, times: int = 1) -> None:
    options = {"provider": "openai-compatible", "model": "m", "max_retries": 0, "timeout_seconds": SECONDS}
    embedder = create_embedder(EmbeddingsConfig(base_url=url, **options))
    try:
        await _repeat(lambda: embedder.embed(["text"]), times)
    finally:
        await embedder.aclose()


async def ask_retriever(url: str, times: int = 1) -> None:
    retriever = RemoteRetriever(describe_retriever(), url, choose_route(url))
    try:
        await _repeat(lambda: retriever.search(SearchRequest("?", 3, "eval:")), times)
    finally:
        await retriever.aclose()


DOORS = [ask_agent, ask_judge, ask_embeddings, ask_retriever]
