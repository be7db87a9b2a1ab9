"""An agent behind HTTP: one request a sample."""

import json
from time import perf_counter

from msgspec.structs import replace

from evalspec.agents.base import AgentTarget
from evalspec.agents.sse import read_stream
from evalspec.agents.wire import build_request, read_reply
from evalspec.http.client import (
    EVENT_STREAM,
    OutgoingRequest,
    is_event_stream,
    open_client,
    parse_body,
    read_events,
    read_whole,
    refuse_status,
    send,
)
from evalspec.http.failures import Service
from evalspec.http.routes import Route
from evalspec.model import AgentReply, Sample

AGENT = Service("the agent", "chatEndpoint", "request and protocol")


class HttpAgent:
    """One worker's agent, with one connection of its own."""

    def __init__(self, target: AgentTarget, route: Route) -> None:
        self._target = target
        headers = {"accept": f"application/json, {EVENT_STREAM}", **target.headers}
        self._client = open_client(headers, route)

    async def ask(self, sample: Sample) -> AgentReply:
        """One attempt, bounded by `timeoutSeconds` from sending to the last byte.

        Raises:
            ServiceError: no usable reply; it says whether another attempt may help.
        """
        url, endpoint = self._target.url, self._target.endpoint
        content = json.dumps(build_request(sample, endpoint), allow_nan=False).encode()
        started = perf_counter()
        async with send(self._client, OutgoingRequest(url, endpoint.timeout_seconds, content), AGENT) as response:
            await refuse_status(response, AGENT)
            if is_event_stream(response):
                reply = await read_stream(read_events(response), endpoint)
                finished = perf_counter()
            else:
                raw = await read_whole(response)
                finished = perf_counter()
                reply = read_reply(parse_body(raw, url, AGENT), endpoint)
        return replace(reply, latency_ms=(finished - started) * 1000)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()
