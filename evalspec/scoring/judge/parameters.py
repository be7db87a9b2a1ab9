"""The parameters of the judge's requests: the configured ones, without those that the endpoint refuses."""

import re
from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.inputs.manifest.judge_schema import LIMIT_KEYS, JudgeConfig
from evalspec.scoring.judge.refusals import list_refused, refuses_system_role

_FIXED_SAMPLING = re.compile(r"(?:^|[.:])(?:o[1-9]|gpt-(?:[5-9]|1\d))(?![0-9a-z])", re.IGNORECASE)
"""OpenAI's reasoning models reject `temperature` and `max_tokens`.

Providers and regions may precede the name: `openai/o3`, `global.openai.gpt-5.6`, `ft:gpt-5-mini:team`.
"""

_FORMATS = {
    "auto": ("json_object", "json_schema"),
    "json_object": ("json_object",),
    "json_schema": ("json_schema",),
    "none": (),
}
"""The response formats to try, by `responseFormat`. After the last one, none is requested."""

_FORMAT = "response_format"
_SCHEMA_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_LEFT_OUT = "left out"
_SEVERAL = "n"
_SYSTEM_ROLE = "system role"


def compute_effective_parameters(config: JudgeConfig) -> dict[str, Any]:
    """Return the parameters of the first request besides model and messages, without a temperature that is rejected.

    The JSON Schema of `json_schema` is left out, because it differs from request to request.
    """
    return JudgeParameters(config).describe()


class JudgeParameters:
    """The parameters of one judge. A parameter that the endpoint refuses is replaced or left out for the whole run.

    `refused`: what is sent instead, by name, for the fingerprint of the run. `takes_several`: whether the endpoint is
    asked for several answers in one request. It changes no answer, so it is no part of the fingerprint. `given_up`:
    everything that was refused, in this order.
    """

    def __init__(self, config: JudgeConfig) -> None:
        self.refused: dict[str, str] = {}
        self.takes_several = True
        self.given_up: list[str] = []
        fixed = _has_fixed_sampling(config.model)
        given = {} if fixed else {"temperature": config.temperature}
        given |= config.parameters
        self._others = {name: value for name, value in given.items() if value is not None and name not in LIMIT_KEYS}
        limit_keys = sorted(LIMIT_KEYS, key=lambda name: (name == "max_tokens") is fixed)
        unlimited = any(name in config.parameters for name in LIMIT_KEYS)
        self._limit_keys = [] if unlimited else limit_keys
        self._max_tokens = config.max_tokens
        unformatted = _FORMAT in config.parameters
        self._formats = [] if unformatted else list(_FORMATS[config.response_format])

    @property
    def has_limit(self) -> bool:
        """Return whether the number of output tokens is limited."""
        return bool(self._limit_keys)

    def describe(self) -> dict[str, Any]:
        """Return the parameters without the JSON Schema of an answer."""
        formats = {_FORMAT: {"type": self._formats[0]}} if self._formats else {}
        limit = {self._limit_keys[0]: self._max_tokens} if self._limit_keys else {}
        return {**formats, **self._others, **limit}

    def build(self, schema: Mapping[str, Any], max_tokens: int, answers: int = 1) -> dict[str, Any]:
        """Return the parameters of one request. `schema`: JSON Schema of the answer. `answers`: number of choices."""
        parameters = self.describe()
        if answers > 1 and self.takes_several:
            parameters[_SEVERAL] = answers
        if self._limit_keys:
            parameters[self._limit_keys[0]] = max_tokens
        if self._formats[:1] == ["json_schema"]:
            parameters[_FORMAT] = {"type": "json_schema", "json_schema": _describe_schema(schema)}
        return parameters

    def give_up(self, sent: Mapping[str, Any], error: ServiceError) -> bool:
        """Leave out or replace what the endpoint refuses. Return whether another request may succeed.

        `sent`: the body of the refused request. Another request may have had the same refusal before.
        """
        names = list_refused(error, [name for name in sent if name not in ("model", "messages")])
        for name in names:
            if name == _SEVERAL or self._still_sends(name, sent[name]):
                self.drop(name)
        if sent["messages"][0]["role"] == "system" and refuses_system_role(error):
            self.drop(_SYSTEM_ROLE)
            return True
        return bool(names)

    def drop(self, name: str = _SEVERAL) -> None:
        """Send a parameter no longer, or what is sent instead. By default, ask for one answer at a time."""
        if name == _SEVERAL:
            self.given_up += [name] if self.takes_several else []
            self.takes_several = False
            return
        if name == _SYSTEM_ROLE:
            self.given_up += [name] if name not in self.refused else []
            self.refused[name] = "sent in the user's message"
        elif name in self.describe():
            self.given_up.append(name)
            self.refused[name] = self._replace(name)

    def place_system(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        """Return the messages with the text of the first one, the system's, where the endpoint accepts it."""
        if _SYSTEM_ROLE not in self.refused:
            return messages
        system, user, *others = messages
        return [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *others]

    def _still_sends(self, name: str, value: Any) -> bool:
        now = self.describe().get(name)
        return now is not None and (name != _FORMAT or now["type"] == value["type"])

    def _replace(self, name: str) -> str:
        """Drop a parameter, and return what is sent instead."""
        if name in LIMIT_KEYS:
            del self._limit_keys[0]
            return f"sent as {self._limit_keys[0]}" if self._limit_keys else _LEFT_OUT
        if name == _FORMAT:
            del self._formats[0]
            return f"sent as {self._formats[0]}" if self._formats else _LEFT_OUT
        del self._others[name]
        return _LEFT_OUT


def _describe_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = _SCHEMA_NAME.sub("_", str(schema.get("title", "answer")))[:_LONGEST_NAME]
    return {"name": name or "answer", "schema": _close(schema)}


def _close(schema: Any) -> Any:
    """Return a JSON Schema whose objects allow no further keys, which some endpoints require."""
    if isinstance(schema, list):
        return [_close(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {key: _close(value) for key, value in schema.items()}
    return {**closed, "additionalProperties": False} if closed.get("type") == "object" else closed


def _has_fixed_sampling(model: str) -> bool:
    return _FIXED_SAMPLING.search(model.rpartition("/")[2]) is not None
