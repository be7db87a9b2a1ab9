"""The sections of a manifest about models: the judge and the embeddings."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr, field_validator, model_validator

from evalspec.manifest.fields import Count, Name, Positive, Seconds, Strict

DEFAULT_JUDGE_MODEL = "gpt-6-luna"
DEFAULT_JUDGE_URL = "https://api.openai.com/v1"
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


class JudgeConfig(Strict):
    """The judge: an OpenAI-compatible chat endpoint that grades replies."""

    model: Name = DEFAULT_JUDGE_MODEL
    base_url: Name = DEFAULT_JUDGE_URL
    api_key: StrictStr | None = None
    headers: dict[Name, StrictStr] = Field(default_factory=dict)
    parameters: dict[Name, Any] = Field(
        default_factory=dict,
        description="Further parameters of each request, such as reasoning_effort; null leaves out one that evalspec "
        "would send.",
    )
    response_format: Literal["auto", "json_schema", "json_object", "none"] = Field(
        "auto", description="The response_format to request; auto: json_object, or what the endpoint accepts instead."
    )
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] = 0.0
    max_tokens: Positive = 4096
    timeout_seconds: Seconds = 60.0
    max_retries: Count = 2
    concurrency: Positive = 8

    @field_validator("parameters")
    @classmethod
    def _are_free(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        for name, value in parameters.items():
            may_be_null = name == "response_format" or name in LIMIT_KEYS
            if name in _OWN_PARAMETERS and not (value is None and may_be_null):
                raise ValueError(f"'{name}' cannot be a parameter; {_OWN_PARAMETERS[name]}")
            if not _is_json(value):
                raise ValueError(
                    f"the value of '{name}' cannot be written as JSON; use text, numbers, lists or mappings"
                )
        return parameters


class EmbeddingsConfig(Strict):
    """The embedding model: the built-in static model, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "openai-compatible"] = "local"
    model: Name | None = None
    base_url: Name = DEFAULT_JUDGE_URL
    api_key: StrictStr | None = None
    headers: dict[Name, StrictStr] = Field(default_factory=dict)
    timeout_seconds: Seconds = 60.0
    max_retries: Count = 2

    @model_validator(mode="after")
    def _endpoint_needs_a_model(self) -> "EmbeddingsConfig":
        if self.provider == "openai-compatible" and self.model is None:
            raise ValueError("provider openai-compatible needs a model; add one")
        return self
