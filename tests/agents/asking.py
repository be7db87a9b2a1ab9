"""One request to an agent on loopback, and the answers that it gets."""

import asyncio
import json

import pytest

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import Message, Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.routes import choose_route
from servers.faulty_agent import Answer

TURNS = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Yes?"), Message("user", "Where?"))


def endpoint(settings):
    return ChatEndpoint.model_validate(settings)


def ask(agent, settings, answer):
    """The reply to one request that is answered so."""
    agent.mode = answer

    async def send():
        http = HttpAgent(AgentTarget(agent.url, endpoint(settings)), choose_route(agent.url))
        try:
            return await http.ask(Sample("s", "Where?"))
        finally:
            await http.aclose()

    return asyncio.run(send())


def failure(agent, settings, answer):
    with pytest.raises(ServiceError) as caught:
        ask(agent, settings, answer)
    return caught.value


def lines(*values, content_type="application/x-ndjson"):
    body = "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)
    return Answer(body=body.encode(), content_type=content_type)


def events(*values):
    """A stream of Anthropic or of OpenAI's responses, whose events have their type twice."""
    body = "".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values)
    return Answer(body=body.encode(), content_type="text/event-stream; charset=utf-8")
