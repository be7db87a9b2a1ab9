"""The sections of a manifest about models: the judge and the embeddings."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from evalspec.inputs.manifest.auth_schema import Authenticated
from evalspec.inputs.manifest.fields import Count, ManifestModel, Name, Positive, Seconds

DEFAULT_JUDGE_MODEL = "gpt-6-luna"
DEFAULT_JUDGE_URL = "https://api.openai.com/v1"
DEFAULT_JUDGE_WIRE = "chat"
LIMIT_KEYS = frozenset({"max_tokens", "max_completion_tokens"})
"""Names of the limit on output tokens in requests to the judge."""

_OWN_PARAMETERS = {
    "model": "use model",
    "messages": "remove it; evalspec writes the messages",
    "stream": "remove it; evalspec reads whole answers",
    "n": "remove it; evalspec reads one answer",
    "response_format": "use responseFormat",
} | dict.fromkeys(LIMIT_KEYS, "use maxTokens")
"""Parameters of the judge's requests that have a key of their own or no effect, to the fix."""


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _are_free(parameters: dict[str, Any]) -> dict[str, Any]:
    for name, value in parameters.items():
        may_be_null = name == "response_format" or name in LIMIT_KEYS
        if name in _OWN_PARAMETERS and not (value is None and may_be_null):
            raise ValueError(f"'{name}' cannot be a parameter; {_OWN_PARAMETERS[name]}")
        if not _is_json(value):
            raise ValueError(f"the value of '{name}' cannot be written as JSON; use text, numbers, lists or mappings")
    return parameters


Parameters = Annotated[
    dict[Name, Any],
    AfterValidator(_are_free),
    Field(
        description="Further parameters of each request, such as reasoning_effort; null leaves out one that evalspec "
        "would send."
    ),
]


ApiKey = Annotated[
    StrictStr | None,
    Field(
        description="Bearer token, best as a reference such as `$env:NAME`; `auth` has tokens that expire. Default: "
        "OPENAI_API_KEY, if there is no baseUrl."
    ),
]
Headers = Annotated[
    dict[Name, StrictStr],
    Field(description="HTTP headers of each request. They override Authorization; values may contain references."),
]
RequestSeconds = Annotated[
    Seconds, Field(description="Seconds for one request, from sending to the last byte of the reply.")
]


class JudgePace(ManifestModel):
    """How fast the judge is asked, by all judged metrics together."""

    requests_per_minute: Positive | None = Field(None, description="Most requests in any 60 seconds; null: no limit.")
    tokens_per_minute: Positive | None = Field(
        None, description="Most tokens of prompts and answers in any 60 seconds, estimated until the reply counts them."
    )


Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class PriceConfig(ManifestModel):
    """Your own prices of a million tokens, in any currency. evalspec has no price list."""

    input: Amount = Field(description="Price of a million input tokens.")
    output: Amount = Field(description="Price of a million output tokens.")
    cached: Amount | None = Field(
        None, description="Price of a million input tokens that the service reads from its cache; null: as `input`."
    )
    cache_write: Amount | None = Field(
        None,
        description="Price of a million input tokens that the service writes to its cache, as Anthropic charges more "
        "for; null: as `input`.",
    )


class LimitsConfig(ManifestModel):
    """What a run may use at most. With a limit, it stops cleanly, exits with 3 and can be resumed."""

    max_cost: Amount | None = Field(
        None, description="Cost of the judge and the simulated user, in the currency of judge.price. Default: any cost."
    )
    max_judge_calls: Count | None = Field(
        None,
        description="Requests to the judge and the simulated user, with retries and failed ones. Default: any number.",
    )
    max_tokens: Count | None = Field(
        None,
        description="Tokens of the judge and the simulated user, of prompts and answers together. Default: any number.",
    )
    max_time: Seconds | None = Field(
        None, description="Seconds that the run is worked on, agent and judge together. Default: any time."
    )


class PanelMember(Authenticated):
    """Another judge of a panel. What is not given is as of the judge."""

    model: Name = Field(description="Name of the model, as the endpoint knows it.")
    wire: Name | None = Field(None, description="Protocol of the endpoint.")
    base_url: Name | None = Field(
        None, description="URL of its own. Then the credentials and the headers of the judge are not sent."
    )
    api_key: StrictStr | None = Field(None, description="Bearer token, best as a reference such as `$env:NAME`.")
    headers: Headers = Field(default_factory=dict)
    parameters: Parameters = Field(default_factory=dict)


class ModelConfig(Authenticated):
    """A model that evalspec asks, at its own endpoint."""

    wire: Name = Field(
        DEFAULT_JUDGE_WIRE,
        description="Protocol of the endpoint: chat for OpenAI's chat completions, anthropic for Anthropic's messages, "
        "or one of a plug-in.",
    )
    model: Name = Field(DEFAULT_JUDGE_MODEL, description="Name of the model, as the endpoint knows it.")
    base_url: Name = Field(
        DEFAULT_JUDGE_URL,
        description="URL to which the wire's path is appended: /chat/completions, or /messages of anthropic. "
        "OPENAI_BASE_URL overrides the default.",
    )
    api_key: ApiKey = None
    headers: Headers = Field(default_factory=dict)
    parameters: Parameters = Field(default_factory=dict)
    response_format: Literal["auto", "json_schema", "json_object", "none"] = Field(
        "auto",
        description="How to request JSON; auto: what the wire tries first, json_object for chat and a forced tool for "
        "anthropic, or what the endpoint accepts instead.",
    )
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] = Field(
        0.0, description="Sampling temperature; not sent to OpenAI's models that reject it (o1 …, gpt-5 …)."
    )
    max_tokens: Positive = Field(
        4096, description="Limit on the output tokens of an answer. A truncated one is retried once with twice as many."
    )
    timeout_seconds: RequestSeconds = 60.0
    max_retries: Count = Field(2, description="Retries after a failed request or an unusable answer.")
    concurrency: Positive = Field(
        8, description="Most requests in flight. Halved after status 429, 503 or 529, then raised again."
    )
    price: PriceConfig | None = Field(
        None, description="What the model costs, for reports, `evalspec plan` and limits. Default: unknown."
    )

    pace: JudgePace | None = Field(
        None, description="Requests and tokens a minute. Rate-limit headers of the endpoint are respected without it."
    )

    @model_validator(mode="after")
    def _other_wires_need_an_address(self) -> Self:
        if self.wire != DEFAULT_JUDGE_WIRE and not {"model", "base_url"} <= self.model_fields_set:
            raise ValueError(f"the defaults of model and baseUrl are not for wire {self.wire}; add both")
        return self


class UserConfig(ModelConfig):
    """The model that plays the users of datasets with goals. It has no default: what plays decides what is measured."""

    model: Name = Field(description="Name of the model, as the endpoint knows it.")


class JudgeConfig(ModelConfig):
    """The model that grades replies, at an OpenAI-compatible chat endpoint. Optional if OPENAI_API_KEY is set."""

    panel: list[PanelMember] = Field(
        [], description="Further judges that score each reply. Default: the judge is alone."
    )
    combine: Literal["mean", "median", "majority"] = Field(
        "mean", description="How the scores of a panel become one. Without a value of more than half, majority fails."
    )
    missing: Literal["fail", "ignore"] = Field(
        "fail",
        description="What follows if a judge of a panel has no score. fail: there is none. ignore: the others count, "
        "if they are more than half.",
    )

    @model_validator(mode="after")
    def _panel_needs_no_majority_of_two(self) -> "JudgeConfig":
        if self.panel and self.combine == "majority" and len(self.panel) == 1:
            raise ValueError("of two judges, none is in the majority; add a third one, or use mean")
        return self

    @model_validator(mode="after")
    def _judges_of_a_panel_differ(self) -> "JudgeConfig":
        known = [(one.wire, one.model, one.base_url.rstrip("/"), one.parameters) for one in self.members]
        if any(one in known[:place] for place, one in enumerate(known)):
            raise ValueError("two judges of the panel are the same; change the model or parameters, or remove one")
        return self

    @property
    def members(self) -> list["JudgeConfig"]:
        """This judge, and the others of its panel. Another address gets no key and no headers of this one."""
        found = [self.model_copy(update={"panel": []})]
        for one in self.panel:
            given = {name: value for name in one.model_fields_set if (value := getattr(one, name)) is not None}
            own: dict[str, Any] = {"headers": {}} if "base_url" in given else {}
            own |= {"api_key": None, "auth": None} if given.keys() & {"base_url", "api_key", "auth"} else {}
            found.append(self.model_copy(update={"panel": [], **own, **given}))
        return found


class EmbeddingsConfig(Authenticated):
    """The embedding model: the built-in static model, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "openai-compatible"] = Field(
        "local",
        description="Where texts are embedded: by wordllama on this machine (extra `local`), or by an endpoint.",
    )
    model: Name | None = Field(None, description="Name of the endpoint's model; required by openai-compatible.")
    base_url: Name = Field(
        DEFAULT_JUDGE_URL, description="URL to which /embeddings is appended. OPENAI_BASE_URL overrides the default."
    )
    api_key: ApiKey = None
    headers: Headers = Field(default_factory=dict)
    timeout_seconds: RequestSeconds = 60.0
    max_retries: Count = Field(2, description="Retries after a failed request.")

    @model_validator(mode="after")
    def _endpoint_needs_a_model(self) -> "EmbeddingsConfig":
        if self.provider == "openai-compatible" and self.model is None:
            raise ValueError("provider openai-compatible needs a model; add one")
        return self
