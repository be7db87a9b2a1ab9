"""Which sampling parameters a judge model is really sent: part of what a score depends on."""

import re
from typing import Any

from evalspec.manifest.schema import JudgeConfig

_FIXED_SAMPLING = re.compile(r"^(?:o[1-9]|gpt-(?:[5-9]|1\d))(?![0-9a-z])", re.IGNORECASE)
"""OpenAI's reasoning models refuse `temperature` and `max_tokens`; their names may follow a provider's, `openai/o3`."""


def choose_limit_key(model: str) -> str:
    """The name under which this model takes the limit on output tokens."""
    return "max_completion_tokens" if _has_fixed_sampling(model) else "max_tokens"


def compute_effective_parameters(config: JudgeConfig) -> dict[str, Any]:
    """What a request says besides model and messages. A temperature that the model would refuse is left out."""
    parameters: dict[str, Any] = {"response_format": {"type": "json_object"}}
    if not _has_fixed_sampling(config.model):
        parameters["temperature"] = config.temperature
    return {**parameters, choose_limit_key(config.model): config.max_tokens}


def _has_fixed_sampling(model: str) -> bool:
    return _FIXED_SAMPLING.match(model.rpartition("/")[2]) is not None
