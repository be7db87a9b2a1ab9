"""One request to an agent on loopback, and the answers that it gets."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Message, Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.routes import choose_route
from servers.faulty_agent import Answer, FaultyAgent

TURNS = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "Where?"))


def endpoint(settings: Mapping[str, Any]) -> ChatEndpoint:
    return ChatEndpoint.model_validate(settings)


def ask(agent: FaultyAgent, settings: Mapping[str, Any], answer: str | Answer) -> AgentReply:
    """The reply to one request that is answered so."""
    agent.mode = answer

    async def send() -> AgentReply:
        http = HttpAgent(AgentTarget(agent.url, endpoint(settings)), choose_route(agent.url))
        try:
            return await http.ask(Sample("s", "Where?"))
        finally:
            await http.aclose()

    return asyncio.run(send())


def failure(agent: FaultyAgent, settings: Mapping[str, Any], answer: str | Answer) -> ServiceError:
    """The error of one request that is answered so."""
    with pytest.raises(ServiceError) as caught:
        ask(agent, settings, answer)
    return caught.value


def lines(*values: Any, content_type: str = "application/x-ndjson") -> Answer:
    """A stream of lines of JSON, or of texts as they are."""
    body = "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)
    return Answer(body=body.encode(), content_type=content_type)


def events(*values: Mapping[str, Any]) -> Answer:
    """A stream of Anthropic or of OpenAI's responses, whose events have their type twice."""
    body = "".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values)
    return Answer(body=body.encode(), content_type="text/event-stream; charset=utf-8")
