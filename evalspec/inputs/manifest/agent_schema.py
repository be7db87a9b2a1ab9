"""The section of a manifest about the agent, `spec.api`: its address, its requests and its replies."""

from typing import Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic.alias_generators import to_camel

from evalspec.base.registry import find_close
from evalspec.inputs.manifest.auth_schema import Authenticated, PollConfig
from evalspec.inputs.manifest.fields import Count, Extensible, ManifestModel, ModuleObject, Name, Seconds
from evalspec.inputs.manifest.judge_schema import PriceConfig
from evalspec.inputs.manifest.traces_schema import TracesConfig

_OWN: Any = Field(None, description="Part of AgentSpec; not used.")


class EndMarker(ManifestModel):
    """What only the last event of a stream has."""

    path: Name = Field(description="JSONPath query (RFC 9535) that is applied to each event.")
    equals: StrictStr | StrictBool | StrictInt | StrictFloat | None = Field(
        None,
        description="The value at `path` that ends the stream. Default: any value but null, false, 0 and blank text.",
    )


class ResponseMapping(ManifestModel):
    """JSONPath queries (RFC 9535) that select the parts of the agent's reply."""

    answer: Name = Field(
        description="The answer, a single text; in a stream, the texts of all events are joined.",
        examples=["$.response"],
    )
    contexts: Name | None = Field(
        None, description="The retrieved passages as texts, best first. They override the sample's `context`."
    )
    context_ids: Name | None = Field(
        None, description="Ids of the retrieved documents, best first, which retrieval metrics need."
    )
    tool_calls: Name | None = Field(
        None,
        description="The agent's tool calls, in order: a list of calls in any common spelling, or of messages.",
    )
    steps: Name | None = Field(
        None,
        description="How often the agent called a model: a number, or a list with an item for each call. Default: the "
        "messages of the model, if `toolCalls` selects messages.",
    )
    usage: Name | None = Field(
        None,
        description="An object with the input and output tokens, for `tokens_mean`: `input_tokens` and "
        "`output_tokens`, or `prompt_tokens` and `completion_tokens`.",
    )
    finish_reason: Name | None = Field(
        None,
        description="Why the answer ended, such as stop or length, for `truncated_rate`. Default: "
        "`$.choices[0].finish_reason`.",
    )
    done: EndMarker | None = Field(
        None,
        description="What only the last event of a stream has. A stream that ends without it fails the sample.",
    )
    error: Name | None = Field(
        None, description="An error: any value but null, false, 0 and blank text fails the sample, whatever the answer."
    )


class ChatEndpoint(Authenticated, Extensible):
    """How a sample becomes a request, and a reply becomes an answer."""

    path: StrictStr = Field(
        "/v1/chat",
        description="Path under the url. Default for openai-responses: /v1/responses; for anthropic: "
        "/v1/messages; for ollama: /api/chat.",
    )
    method: Literal["POST", "PUT", "GET"] = Field(
        "POST", description="HTTP method. With GET, the keys of `request` become query parameters."
    )
    protocol: Name | None = Field(
        None,
        description='How requests and replies are written. Default: agentspec, which sends `{"message": question}` '
        "and reads the first text among `response`, `message` and `content`.",
    )
    model: Name | None = Field(
        None,
        description="The model named in requests of openai-compatible, openai-responses, anthropic and ollama. "
        "Default: agent.",
    )
    parameters: dict[StrictStr, Any] = Field(
        default_factory=dict,
        description="Further keys of requests of openai-compatible, openai-responses, anthropic and ollama, such as "
        "max_tokens; null leaves out a key that evalspec would send.",
    )
    headers: dict[str, StrictStr] = Field(
        default_factory=dict,
        description="HTTP headers of each request. Values may contain references, as in `Bearer ${env:TOKEN}`.",
    )
    request: Any = Field(
        None,
        description="JSON template for protocol custom; {{input}}, {{messages}}, {{id}} and {{metadata.KEY}} are "
        "replaced by values of the sample.",
    )
    response: ResponseMapping | None = Field(
        None,
        description="JSONPath queries (RFC 9535) that read the reply in place of the protocol; required for custom.",
    )
    streaming: StrictBool | None = Field(
        None,
        description="Whether to request streamed replies from openai-compatible, openai-responses, anthropic and "
        "ollama. Default: false.",
    )
    poll: PollConfig | None = None
    timeout_seconds: Seconds = Field(
        30.0,
        description="Seconds for one attempt, from sending to the last byte of the reply, or of the result of a job; "
        "--timeout overrides it.",
    )
    max_retries: Count = Field(
        2, description="Retries after status 408, 425, 429 or 5xx, a timeout, or a failed or broken connection."
    )
    session_mode: Literal["stateful", "stateless"] | None = Field(
        None,
        description="stateful: the agent keeps conversations, by the session id in `threadIdHeader`. stateless: no id "
        "is sent.",
    )
    thread_id_header: Name | None = Field(
        None,
        description="The header for the session id, a new one for each request. Default with `sessionMode: stateful`: "
        "X-Thread-Id.",
    )

    @property
    def is_stateful(self) -> bool:
        """Whether the agent keeps conversations, so that it gets only what is new. Only a manifest that says so."""
        return self.session_header is not None

    @property
    def session_header(self) -> str | None:
        """The header for the id of a new session. None: requests have no session."""
        if self.session_mode == "stateless":
            return None
        return self.thread_id_header or ("X-Thread-Id" if self.session_mode else None)

    @model_validator(mode="after")
    def _custom_needs_its_templates(self) -> "ChatEndpoint":
        if self.protocol == "custom" and (self.request is None or self.response is None):
            raise ValueError("protocol custom needs both a request template and a response mapping; add both")
        if self.request is not None and self.protocol != "custom":
            if find_close(self.protocol or "", ("custom",)):
                raise ValueError(f"unknown protocol '{self.protocol}'; did you mean 'custom'?")
            raise ValueError("a request template is used by protocol custom only; set protocol: custom")
        if self.parameters and self.protocol in (None, "agentspec", "custom"):
            raise ValueError(
                "parameters are added to the requests of a model's protocol; write protocol: openai-compatible"
            )
        if self.method == "GET" and (self.protocol != "custom" or not isinstance(self.request, dict)):
            raise ValueError(
                "with method GET, the keys of a request template become query parameters; write protocol: "
                "custom, and request, as in {q: '{{input}}'}"
            )
        if self.poll is not None and self.streaming:
            raise ValueError("a job has no stream; remove streaming or poll")
        return self


class Api(Extensible):
    """How to reach the agent, and how to start it."""

    url: StrictStr | None = Field(
        None, description="Base URL of the agent, http:// or https://. --url and EVALSPEC_URL override it."
    )
    command: list[StrictStr] | None = Field(
        None,
        min_length=1,
        description="Program and arguments to start in the manifest's folder, without a shell, if nothing answers at "
        "the url. It is stopped after the run.",
    )
    python: ModuleObject | None = Field(
        None,
        description="The agent as Python code next to the manifest, module:object, in place of `url`: a function, an "
        "object or a class.",
    )
    price: PriceConfig | None = Field(None, description="What the agent's tokens cost, for `cost`. Default: unknown.")
    reuse: Literal["auto", True, False] = Field(
        "auto",
        description="Whether to use an agent that already answers at the url instead of starting `command`. auto: "
        "unless the environment variable CI is set.",
    )
    ready_path: StrictStr | None = Field(
        None, description="Path under the url to poll with GET until the status is below 500. Default: the url itself."
    )
    traces: TracesConfig | None = Field(
        None, description="OpenTelemetry spans of the agent, which metrics read beside its replies. Default: none."
    )
    ready_timeout_seconds: Seconds = Field(60.0, description="Seconds that `command` has to become ready.")
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
        if isinstance(self.auth, dict) and not {"oauth2", "command", "certificate"}.isdisjoint(self.auth):
            raise ValueError("auth is AgentSpec's here, and says how clients prove who they are; use chatEndpoint.auth")
        return self


_OF_A_SERVICE = ("url", "command", "reuse", "ready_path", "ready_timeout_seconds")
"""Fields of `spec.api` for agents behind HTTP."""

UNUSED_API_KEYS = frozenset(name for name, field in Api.model_fields.items() if field.description == _OWN.description)
"""AgentSpec's own keys of `spec.api`, as names of fields."""
