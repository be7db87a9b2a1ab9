"""Which judge and embeddings a run has: from the manifest, else from the usual environment variables."""

import os
from collections.abc import Mapping
from typing import TypeVar

from evalspec.errors import Problem
from evalspec.manifest.fields import Strict
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.schema import EmbeddingsConfig, JudgeConfig
from evalspec.manifest.yaml_source import Place
from evalspec.trust import permitted_variables

Config = TypeVar("Config", bound=Strict)
JUDGE_PLACE: Place = ("spec", "evaluation", "judge")
EMBEDDINGS_PLACE: Place = ("spec", "evaluation", "embeddings")


def resolve_judge(declared: JudgeConfig | None, environ: Mapping[str, str] | None = None) -> JudgeConfig | None:
    """The declared judge, or one from OPENAI_API_KEY; None where there is neither.

    OPENAI_BASE_URL stands in for a missing baseUrl. The key stands in for a missing apiKey only where the manifest
    names no address of its own: it is never sent to a host that it may not belong to.
    """
    environ = permitted_variables(os.environ if environ is None else environ)
    if declared is None and not environ.get("OPENAI_API_KEY"):
        return None
    return _from_openai_environment(declared or JudgeConfig(), environ)


def resolve_embeddings(declared: EmbeddingsConfig, environ: Mapping[str, str] | None = None) -> EmbeddingsConfig:
    """The declared embeddings, an endpoint completed from the environment like the judge."""
    environ = permitted_variables(os.environ if environ is None else environ)
    return declared if declared.provider == "local" else _from_openai_environment(declared, environ)


def _from_openai_environment(config: Config, environ: Mapping[str, str]) -> Config:
    if "base_url" in config.model_fields_set:
        return config
    found = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
    update = {
        field: f"$env:{variable}"
        for field, variable in found.items()
        if environ.get(variable) and field not in config.model_fields_set
    }
    return config.model_copy(update=update)


def resolve_config(config: Config, place: Place, loaded: LoadedManifest, problems: list[Problem]) -> Config:
    """The config with its references resolved; what cannot be resolved goes to `problems`. What it does not say stays
    unsaid, so that a default is still told from a choice."""
    said = config.model_dump(by_alias=True, exclude_unset=True)
    return type(config).model_validate(loaded.resolve(said, place, problems))
