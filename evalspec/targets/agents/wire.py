"""The wires of chat endpoints: how to build a request from a sample, and read a reply, by `chatEndpoint.protocol`.

Each wire is a module of `evalspec.targets.agents.wires`, or of another package (entry point group `evalspec.agents`). A
response mapping, if configured, reads the reply instead of the wire.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.base.registry import Registry, returned
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample, ToolCall
from evalspec.model.samples import render_input
from evalspec.targets.agents.mapping import MappedStream, read_mapped
from evalspec.targets.agents.response_events import RESPONSE_END

if TYPE_CHECKING:
    from evalspec.inputs.manifest.tool_schema import DeclaredTool

DEFAULT_WIRE = "agentspec"
"""The wire of an endpoint without a protocol."""

_MAPPED_ENDS = {"openai-compatible": "finish_reason or [DONE]", "openai-responses": RESPONSE_END}
"""What ends a mapped stream without `response.done`, by the protocol of its events."""

DEFAULT_MODEL = "agent"
"""The model in a request without `chatEndpoint.model`. Most servers require a name. Servers that are one agent ignore
it."""


class ToolPart(StrEnum):
    """What a reply may show of a tool: that it was called, what it returned, and that it failed."""

    CALLS = "calls"
    RESULTS = "results"
    ERRORS = "errors"


class StreamReader(Protocol):
    """Collects the events of one stream: server-sent events, or lines of JSON."""

    def add(self, data: str) -> bool:
        """Read the data of one event, and return whether it has text of the answer.

        Raises:
            ServiceError: the event is unreadable, or has an error.
        """
        ...

    @property
    def is_over(self) -> bool:
        """Whether the last event was read. What follows is no part of the reply, and is not waited for."""
        return False

    def find_missing_end(self, *, has_done: bool) -> str | None:  # noqa: ARG002 - for subclasses
        """Return what the ended stream lacks, or None if it is complete. `has_done`: `[DONE]` ended it."""
        return None

    def reply(self) -> AgentReply:
        """Return the reply of the whole stream.

        Raises:
            ServiceError: the stream has no answer.
        """
        ...


class RequestBuilder(Protocol):
    """Builds requests."""

    def __call__(self, sample: Sample, endpoint: ChatEndpoint, /) -> Any:
        """Return the JSON value to send for one sample.

        Raises:
            ServiceError: the sample lacks something. The error is recorded on the sample.
        """
        ...


class ReplyReader(Protocol):
    """Reads replies."""

    def __call__(self, value: Any, /) -> AgentReply:
        """Return the parts of a JSON reply, without latency. What the reply lacks is None, never 0 or empty.

        Raises:
            ServiceError: the value has another form, or is an error. It says whether another attempt may succeed.
        """
        ...


class Wire(Struct, frozen=True):
    """One protocol of a chat endpoint.

    `open_stream`: makes the reader of one streamed reply; None: the wire has no streams. `path`: the path of an
    endpoint without its own. `headers`: sent unless the endpoint has its own. `declare_tool`, `add_results`: how a tool
    is declared to a bare model, and how it gets the results of its calls; None: evalspec plays no tools. `shows`: what
    its replies show of the tools that an agent calls.
    """

    name: str
    summary: str
    build_request: RequestBuilder
    read_reply: ReplyReader
    open_stream: Callable[[], StreamReader] | None = None
    path: str | None = None
    headers: Mapping[str, str] = {}
    declare_tool: "Callable[[DeclaredTool], Any] | None" = None
    add_results: Callable[[Any, AgentReply, Sequence[ToolCall]], Any] | None = None
    shows: frozenset[ToolPart] = frozenset()

    def register(self, registry: "Registry[Wire]") -> None:
        """Register the wire under its name.

        Raises:
            ValueError: the name is taken.
        """
        registry.add(self.name, self)


WIRES: Registry[Wire] = Registry("protocol", "evalspec.agents", ("evalspec.targets.agents.wires",), Wire)


def find_wire(endpoint: ChatEndpoint) -> Wire:
    """Return the wire of an endpoint whose protocol is known."""
    wire = WIRES.find(endpoint.protocol or DEFAULT_WIRE)
    if wire is None:
        raise ServiceError(f"unknown protocol '{endpoint.protocol}'; {WIRES.hint(endpoint.protocol or '')}")
    return wire


def build_request(sample: Sample, endpoint: ChatEndpoint) -> Any:
    """Return the JSON value to send for one sample.

    Raises:
        ServiceError: the request template has a metadata key that the sample lacks.
    """
    return find_wire(endpoint).build_request(sample, endpoint)


def read_reply(value: Any, endpoint: ChatEndpoint, question: str = "") -> AgentReply:
    """Return the parts of a whole JSON reply. `question`: what was asked.

    Raises:
        ServiceError: the reply does not fit the protocol or the mapping, or has an error.
    """
    if endpoint.response is not None:
        return read_mapped(value, endpoint.response, question)
    return returned(find_wire(endpoint).read_reply(value), AgentReply)


def open_stream(endpoint: ChatEndpoint, question: str = "") -> StreamReader:
    """Return the reader of one streamed reply. `question`: what was asked.

    Raises:
        ServiceError: the protocol has no streams.
    """
    wire = find_wire(endpoint)
    if endpoint.response is not None:
        return MappedStream(endpoint.response, _MAPPED_ENDS.get(wire.name), question)
    if wire.open_stream is None:
        raise ServiceError(
            f"the reply is a stream, which protocol {wire.name} does not read; map chatEndpoint.response"
        )
    return wire.open_stream()


def build_messages(sample: Sample) -> list[dict[str, str]]:
    """Return the conversation as role and content. A plain question is one user message."""
    turns = render_input(sample.user_input)
    return [{"role": "user", "content": turns}] if isinstance(turns, str) else turns


def name_model(request: dict[str, Any], endpoint: ChatEndpoint) -> dict[str, Any]:
    """Return a request to a model, with the endpoint's parameters. Null leaves a key of the request out."""
    streaming = {"stream": True} if endpoint.streaming else {}
    merged = {"model": endpoint.model or DEFAULT_MODEL} | request | streaming | endpoint.parameters
    return {key: value for key, value in merged.items() if value is not None}


def first_string(value: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the value of the first key with text."""
    return next((value[key] for key in keys if isinstance(value.get(key), str)), None)
