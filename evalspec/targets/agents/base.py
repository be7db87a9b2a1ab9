"""The interface of an agent, and its address."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import FIRST_TOKEN, AgentReply, Sample, SearchTrace

if TYPE_CHECKING:
    from evalspec.targets.agents.tool_player import ToolPlayer


class Agent(Protocol):
    """Answers one sample at a time. Each worker of a run has its own agent, so agents share nothing."""

    async def ask(self, sample: Sample) -> AgentReply:
        """Send one request, without retries.

        Raises:
            ServiceError: there is no usable reply. The error says whether to retry.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


def add_times(reply: AgentReply, started: float, finished: float, first_token_at: float | None) -> AgentReply:
    """Return a reply with its latency and the time to its first text, if known. All times are by `perf_counter`."""
    trace = reply.trace if first_token_at is None else SearchTrace({FIRST_TOKEN: (first_token_at - started) * 1000})
    return replace(reply, latency_ms=(finished - started) * 1000, trace=trace)


class AgentTarget(Struct, frozen=True):
    """The address of an agent: `url` includes the path, and references in `headers` are resolved.

    `player`: answers the calls of a bare model. `base_url`: without the path.
    """

    url: str
    endpoint: ChatEndpoint
    headers: Mapping[str, str] = field(default_factory=dict)
    player: "ToolPlayer | None" = None
    base_url: str = ""
