"""The wires of providers of judges, for ScriptedJudge: address, credentials, refused parameters and error bodies.

    with ScriptedJudge(wire=ANTHROPIC) as judge:
        judge.base_url                    # with the provider's own path and query
        judge.refusals                    # bodies of the requests that the provider refused

Each wire follows what the provider documents, or what users report of it. KEY is the only accepted key.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-provider-0123456789"
Refusal = tuple[int, Any]
"""The status and the JSON body of a refused request."""

_ALWAYS = {"model", "messages"}


def openai_error(code: int, message: str, param: str | None = None, kind: str | None = None) -> Refusal:
    """The error of OpenAI and of most servers that follow it."""
    return code, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": kind}}


def gemini_error(code: int, message: str, _param: str | None = None, _kind: str | None = None) -> Refusal:
    """The error of Gemini's OpenAI-compatible door: in a list."""
    return code, [{"error": {"code": code, "message": message, "status": "INVALID_ARGUMENT"}}]


def vllm_error(code: int, message: str, param: str | None = None, _kind: str | None = None) -> Refusal:
    """The error of vLLM: its code is the status."""
    return code, {"error": {"message": message, "type": "BadRequestError", "param": param, "code": code}}


def bare_error(code: int, message: str, _param: str | None = None, _kind: str | None = None) -> Refusal:
    """An error without further fields, as Moonshot, Bedrock and Gemma's chat template have it."""
    return code, {"message": message, "type": "BadRequestError", "param": None, "code": code}


def litellm_error(code: int, message: str, _param: str | None = None, _kind: str | None = None) -> Refusal:
    """The error of LiteLLM's proxy, which writes None as text."""
    more = "Received Model Group=judge\nAvailable Model Group Fallbacks=None"
    return code, {"error": {"message": f"{message}. {more}", "type": "None", "param": "None", "code": str(code)}}


def openrouter_error(code: int, message: str, param: str | None = None, kind: str | None = None) -> Refusal:
    """The error of OpenRouter, with the provider's own as text."""
    raw = json.dumps(openai_error(code, message, param, kind)[1], indent=2)
    error = {"message": "Provider returned error", "code": code, "metadata": {"raw": raw, "provider_name": "OpenAI"}}
    return code, {"error": error, "user_id": "user_1"}


@dataclass(frozen=True)
class Wire:
    """One provider, named as in docs/how-to/judges.md.

    `formats`: accepted types of response_format. `parameters`: what else is accepted, None for all.
    """

    name: str
    path: str
    model: str
    missing: str
    """The message about an unknown model. {model} is its name."""
    missing_status: int = 404
    missing_code: str | None = None
    key_header: str | None = "authorization"
    key_format: str = "Bearer {}"
    formats: Collection[str] = ("json_object", "json_schema", "text")
    format_message: str = ""
    parameters: Collection[str] | None = None
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The message and code for a parameter that the model refuses."""
    no_system: str = ""
    """The message about a message of the role `system`, if the model has no such role."""
    unknown: str = "Unrecognized request argument supplied: {name}"
    closes_objects: bool = False
    """Whether every object of a JSON Schema must forbid further keys."""
    error: Callable[..., Refusal] = openai_error

    def refuse(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Refusal | None:
        """The refusal of a request, or None."""
        if path not in (self._door("chat/completions"), self._door("embeddings")):
            return self.error(404, "Resource not found")
        if self.key_header and headers.get(self.key_header) != self.key_format.format(KEY):
            return self.error(401, f"Incorrect API key provided: {headers.get(self.key_header)}")
        if path == self._door("embeddings"):
            return None
        if body["model"] != self.model:
            message = self.missing.format(model=body["model"])
            return self.error(self.missing_status, message, None, self.missing_code)
        if self.no_system and body["messages"][0]["role"] == "system":
            return self.error(400, self.no_system, "messages[0].role", "unsupported_value")
        return self._refuse_parameter(body) or self._refuse_format(body.get("response_format"))

    def _door(self, name: str) -> str:
        before, mark, query = self.path.partition("?")
        return f"{before}/{name}{mark}{query}"

    def _refuse_parameter(self, body: Mapping[str, Any]) -> Refusal | None:
        for name in body:
            if name in self.refused:
                message, code = self.refused[name]
                return self.error(400, message, name, code)
            if self.parameters is not None and name not in {*self.parameters, "response_format", *_ALWAYS}:
                return self.error(400, self.unknown.format(name=name))
        return None

    def _refuse_format(self, wanted: Any) -> Refusal | None:
        if wanted is None:
            return None
        if wanted["type"] not in self.formats:
            return self.error(400, self.format_message)
        if wanted["type"] == "json_schema" and self.closes_objects and not _is_closed(wanted["json_schema"]["schema"]):
            message = "response_format.json_schema.schema: for 'object' type, 'additionalProperties' must be false"
            return self.error(400, message)
        return None


def _is_closed(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    open_object = schema.get("type") == "object" and schema.get("additionalProperties") is not False
    return not open_object and all(map(_is_closed, schema.values()))


_REASONING = {
    "max_tokens": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "unsupported_parameter",
    ),
    "temperature": (
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is "
        "supported.",
        "unsupported_value",
    ),
}
"""What OpenAI's reasoning models say, at OpenAI and at Azure."""

OPENAI = Wire(
    name="OpenAI",
    path="/v1",
    model="gpt-6-luna",
    missing="The model `{model}` does not exist or you do not have access to it.",
    missing_code="model_not_found",
    refused=_REASONING,
)
AZURE_CLASSIC = Wire(
    name="Azure classic",
    path="/openai/deployments/my-judge?api-version=2024-10-21",
    model="my-judge",
    missing="The API deployment for this resource does not exist.",
    missing_code="DeploymentNotFound",
    key_header="api-key",
    key_format="{}",
    refused=_REASONING,
)
AZURE_V1 = Wire(
    name="Azure v1",
    path="/openai/v1",
    model="my-judge",
    missing="The API deployment for this resource does not exist.",
    missing_code="DeploymentNotFound",
    refused=_REASONING,
)
ANTHROPIC = Wire(
    name="Anthropic",
    path="/v1",
    model="claude-sonnet-5",
    missing="model: {model}",
    missing_code="not_found_error",
    formats=("json_schema",),
    format_message="response_format.type: Input should be 'json_schema'",
    refused={"temperature": ("`temperature` is deprecated for this model.", "invalid_request_error")},
    closes_objects=True,
)
GEMINI = Wire(
    name="Gemini",
    path="/v1beta/openai",
    model="gemini-3.5-flash",
    missing="models/{model} is not found for API version v1main, or is not supported for generateContent.",
    parameters=("n", "temperature", "max_tokens", "max_completion_tokens", "reasoning_effort"),
    unknown='Invalid JSON payload received. Unknown name "{name}": Cannot find field.',
    error=gemini_error,
)
VLLM = Wire(
    name="vLLM",
    path="/v1",
    model="Qwen/Qwen3-8B",
    missing="The model `{model}` does not exist.",
    key_header=None,
    error=vllm_error,
)
OLLAMA = Wire(
    name="Ollama",
    path="/v1",
    model="qwen3:8b",
    missing="model '{model}' not found",
    key_header=None,
)
LM_STUDIO = Wire(
    name="LM Studio",
    path="/v1",
    model="qwen/qwen3-8b",
    missing='Invalid model identifier "{model}". Please specify a valid downloaded model.',
    missing_status=400,
    key_header=None,
    formats=("json_schema", "text"),
    format_message="'response_format.type' must be 'json_schema' or 'text'",
    error=lambda code, message, _param=None, _kind=None: (code, {"error": message}),
)
LLAMA_CPP = Wire(
    name="llama.cpp",
    path="/v1",
    model="any",
    missing="model '{model}' not found",
    key_header=None,
)
WIRES = (OPENAI, AZURE_CLASSIC, AZURE_V1, ANTHROPIC, GEMINI, VLLM, OLLAMA, LM_STUDIO, LLAMA_CPP)
