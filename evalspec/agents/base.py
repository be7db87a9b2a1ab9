"""The interface of an agent, and its address."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from evalspec.manifest.schema import ChatEndpoint
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


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """The address of an agent: `url` includes the path, and references in `headers` are resolved."""

    url: str
    endpoint: ChatEndpoint
    headers: Mapping[str, str] = field(default_factory=dict)
