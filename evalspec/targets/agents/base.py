"""The interface of an agent, and its address."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample


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


class AgentTarget(Struct, frozen=True):
    """The address of an agent: `url` includes the path, and references in `headers` are resolved."""

    url: str
    endpoint: ChatEndpoint
    headers: Mapping[str, str] = field(default_factory=dict)
