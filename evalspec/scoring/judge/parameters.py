"""The parameters of the judge's requests: the configured ones, without those that the endpoint refuses."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.text import strip_userinfo
from evalspec.inputs.manifest.judge_schema import LIMIT_KEYS, EmbeddingsConfig, ModelConfig
from evalspec.scoring.judge.refusals import list_refused, refuses_system_role
from evalspec.scoring.judge.wire import JudgeQuestion, find_judge_wire

_FIXED_SAMPLING = re.compile(r"(?:^|[.:])(?:o[1-9]|gpt-(?:[5-9]|1\d))(?![0-9a-z])", re.IGNORECASE)
"""OpenAI's reasoning models reject `temperature` and `max_tokens`.

Providers and regions may precede the name: `openai/o3`, `global.openai.gpt-5.6`, `ft:gpt-5-mini:team`.
"""

_FORMAT = "response_format"
"""The name of the way to request JSON, in the manifest and the fingerprint, whatever the wire calls it."""
_LEFT_OUT = "left out"
_SEVERAL = "n"
_SYSTEM_ROLE = "system role"
_CREDENTIALS = {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"}


def identify_model(config: ModelConfig | EmbeddingsConfig) -> list[Any]:
    """Return all that may decide which model answers: its name, the address, and the headers without credentials."""
    headers = sorted((name.lower(), text) for name, text in config.headers.items() if name.lower() not in _CREDENTIALS)
    return [config.model, strip_userinfo(config.base_url), headers]


def compute_effective_parameters(config: ModelConfig) -> dict[str, Any]:
    """Return the parameters of the first request besides model and messages, without a temperature that is rejected.

    The JSON Schema of `json_schema` is left out, because it differs from request to request.

    Raises:
        JudgeError: there is no such wire.
    """
    return JudgeParameters(config).describe()


class JudgeParameters:
    """The parameters of one judge. A parameter that the endpoint refuses is replaced or left out for the whole run.

    `refused`: what is sent instead, by name, for the fingerprint of the run. `takes_several`: whether the endpoint is
    asked for several answers in one request. It changes no answer, so it is no part of the fingerprint. `given_up`:
    everything that was refused, in this order.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Raise a JudgeError if there is no such wire."""
        self._wire = find_judge_wire(config.wire)
        self._model = config.model
        self.refused: dict[str, str] = {}
        self.takes_several = self._wire.gives_several
        self.given_up: list[str] = []
        fixed = _has_fixed_sampling(config.model)
        given = {} if fixed else {"temperature": config.temperature}
        given |= config.parameters
        self._others = {name: value for name, value in given.items() if value is not None and name not in LIMIT_KEYS}
        limit_keys = sorted(self._wire.limit_keys, key=lambda name: (name == "max_tokens") is fixed)
        unlimited = any(name in config.parameters for name in LIMIT_KEYS)
        self._limit_keys = [] if unlimited else limit_keys
        self._max_tokens = config.max_tokens
        unformatted = _FORMAT in config.parameters
        self._formats = [] if unformatted else list(self._wire.forms.get(config.response_format, ()))

    @property
    def has_limit(self) -> bool:
        """Return whether the number of output tokens is limited."""
        return bool(self._limit_keys)

    def describe(self) -> dict[str, Any]:
        """Return the parameters without the JSON Schema of an answer."""
        formats = {_FORMAT: {"type": self._formats[0]}} if self._formats else {}
        return {**formats, **self._limit(self._max_tokens)}

    def _limit(self, max_tokens: int) -> dict[str, Any]:
        limit = {self._limit_keys[0]: max_tokens} if self._limit_keys else {}
        return {**self._others, **limit}

    def ask(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any], max_tokens: int, answers: int = 1
    ) -> JudgeQuestion:
        """Return one request. `schema`: JSON Schema of the answer. `answers`: number of choices, where possible."""
        form = self._formats[0] if self._formats else None
        several = answers if self.takes_several else 1
        placed = self._place_system(messages)
        return JudgeQuestion(self._model, placed, schema, form, self._limit(max_tokens), several)

    def list_sent(self, sent: JudgeQuestion) -> list[str]:
        """Return the names of what a request sends besides model and messages, as the manifest has them."""
        return [*sent.parameters, *([_FORMAT] if sent.form else []), *([_SEVERAL] if sent.answers > 1 else [])]

    def give_up(self, sent: JudgeQuestion, error: ServiceError) -> bool:
        """Leave out or replace what the endpoint refuses. Return whether another request may succeed.

        `sent`: the refused request. Another request may have had the same refusal before.
        """
        form_keys = self._wire.form_keys.get(sent.form or "", ())
        on_wire = [name for name in self.list_sent(sent) if name != _FORMAT] + [*form_keys]
        found = list_refused(error, on_wire)
        names = dict.fromkeys(_FORMAT if name in form_keys else name for name in found)
        for name in names:
            if name == _SEVERAL or self._still_sends(name, sent):
                self.drop(name)
        if sent.messages[0]["role"] == "system" and refuses_system_role(error):
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

    def _place_system(self, messages: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
        """Return the messages with the text of the first one, the system's, where the endpoint accepts it."""
        if _SYSTEM_ROLE not in self.refused:
            return messages
        system, user, *others = messages
        return [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *others]

    def _still_sends(self, name: str, sent: JudgeQuestion) -> bool:
        return name in self.describe() and (name != _FORMAT or self._formats[0] == sent.form)

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


def _has_fixed_sampling(model: str) -> bool:
    return _FIXED_SAMPLING.search(model.rpartition("/")[2]) is not None
