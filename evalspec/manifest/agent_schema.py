"""The section of a manifest about the agent, `spec.api`: its address, its requests and its replies."""

from typing import Any, Literal

from pydantic import Field, StrictBool, StrictStr, model_validator
from pydantic.alias_generators import to_camel

from evalspec.manifest.fields import Count, Extensible, ModuleObject, Name, Seconds, Strict

_OWN: Any = Field(None, description="Part of AgentSpec; not used.")


class ResponseMapping(Strict):
    """JSONPath queries (RFC 9535) that select the parts of the agent's reply."""

    answer: Name
    contexts: Name | None = None
    context_ids: Name | None = None
    tool_calls: Name | None = None
    usage: Name | None = None
    finish_reason: Name | None = None
    done: Name | None = Field(
        None, description="What the last event of a stream has. A stream without it is incomplete."
    )
    error: Name | None = Field(
        None, description="An error in place of the answer: any value but null, false, 0 and blank."
    )


class ChatEndpoint(Extensible):
    """How to build a request from a sample, and read the answer from the reply."""

    path: StrictStr = "/v1/chat"
    protocol: Name | None = Field(
        None, description="How requests and replies are written. Default: AgentSpec's message, as `agentspec`."
    )
    model: Name | None = Field(None, description="The model to name in the request.")
    parameters: dict[StrictStr, Any] = Field(
        default_factory=dict,
        description="Further keys of each request. Null leaves out a key that evalspec would send.",
    )
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    request: Any = Field(
        None, description="JSON template of a custom request; {{input}} and {{messages}} are replaced."
    )
    response: ResponseMapping | None = None
    streaming: StrictBool | None = Field(None, description="Request a streamed reply.")
    timeout_seconds: Seconds = 30.0
    max_retries: Count = 2
    session_mode: Literal["stateful", "stateless"] | None = _OWN
    thread_id_header: StrictStr | None = _OWN

    @model_validator(mode="after")
    def _custom_needs_its_templates(self) -> "ChatEndpoint":
        if self.protocol == "custom" and (self.request is None or self.response is None):
            raise ValueError("protocol custom needs both a request template and a response mapping; add both")
        if self.request is not None and self.protocol != "custom":
            raise ValueError("a request template is used by protocol custom only; set protocol: custom")
        if self.parameters and self.protocol in (None, "agentspec", "custom"):
            raise ValueError(
                "parameters are added to the requests of a model's protocol; write protocol: openai-compatible"
            )
        return self


class Api(Extensible):
    """The agent's address, and how to start it."""

    url: StrictStr | None = None
    command: list[StrictStr] | None = Field(None, min_length=1)
    python: ModuleObject | None = Field(
        None,
        description="module:object with the agent, beside the manifest: a function, an object or a class. In place of "
        "url.",
    )
    reuse: Literal["auto", True, False] = Field(
        "auto",
        description="Use an agent that already runs at the url instead of starting `command`; auto: not in CI.",
    )
    ready_path: StrictStr | None = None
    ready_timeout_seconds: Seconds = 60.0
    chat_endpoint: ChatEndpoint = ChatEndpoint.model_construct()
    type: Any = _OWN
    port: Any = _OWN
    path_prefix: Any = _OWN
    auth: Any = _OWN
    rate_limit: Any = _OWN
    streaming: Any = _OWN
    health_endpoint: Any = _OWN
    metrics_endpoint: Any = _OWN
    cors_origins: Any = _OWN
    headers: Any = Field(None, description="Not sent, with a warning: write chatEndpoint.headers.")

    @model_validator(mode="after")
    def _one_agent(self) -> "Api":
        idle = [to_camel(name) for name in _OF_A_SERVICE if name in self.model_fields_set]
        if self.python is not None and idle:
            raise ValueError(f"python and {idle[0]} name two agents; remove one of them")
        return self


_OF_A_SERVICE = ("url", "command", "reuse", "ready_path", "ready_timeout_seconds")
"""Fields of `spec.api` for agents behind HTTP."""


UNUSED_API_KEYS = frozenset(name for name, field in Api.model_fields.items() if field.description == _OWN.description)
"""AgentSpec's own keys of `spec.api`, as names of fields."""
