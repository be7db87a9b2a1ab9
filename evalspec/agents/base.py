"""What the runner needs of an agent, and all that is known about one before the first request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from evalspec.manifest.schema import ChatEndpoint
from evalspec.model import AgentReply, Sample


class Agent(Protocol):
    """Answers one sample at a time. Each worker of a run has one of its own, so nothing in it is shared."""

    async def ask(self, sample: Sample) -> AgentReply:
        """One attempt, without retries.

        Raises:
            ServiceError: no usable reply; it says whether another attempt may help.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """Where and how to ask: `url` with the path, headers with their references resolved."""

    url: str
    endpoint: ChatEndpoint
    headers: Mapping[str, str] = field(default_factory=dict)
