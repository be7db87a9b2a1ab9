"""Refuse the forbidden capabilities of an untrusted manifest before anything is called.

This module covers the capabilities that a run would use later: the command, hosts, variables, files in values and
stores. Other checks refuse code, datasets, baselines and plugins when they read them.
"""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from evalspec.base.trust import Act, current_trust, explain
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, ModelConfig
from evalspec.inputs.manifest.references import References, RefusedReference, UnresolvedReference
from evalspec.inputs.manifest.yaml_source import Place, find_texts
from evalspec.model import Need
from evalspec.runs.planning.draft import Draft
from evalspec.runs.planning.retrievers import RETRIEVERS_PLACE
from evalspec.runs.planning.services import (
    API_PLACE,
    EMBEDDINGS_PLACE,
    ENDPOINT_PLACE,
    ENVIRONMENT_PLACE,
    JUDGE_PLACE,
    USER_PLACE,
    resolve_embeddings,
    resolve_judge,
    resolve_user,
)

_DATASETS_PLACE: Place = ("spec", "evaluation", "datasets")
_USES: Mapping[Place, Act] = {
    (*API_PLACE, "url"): Act.CONNECT,
    (*JUDGE_PLACE, "baseUrl"): Act.CONNECT,
    (*JUDGE_PLACE, "panel", "baseUrl"): Act.CONNECT,
    (*USER_PLACE, "baseUrl"): Act.CONNECT,
    (*EMBEDDINGS_PLACE, "baseUrl"): Act.CONNECT,
    (*RETRIEVERS_PLACE, "*", "url"): Act.CONNECT,
    (*RETRIEVERS_PLACE, "*", "http", "url"): Act.CONNECT,
    (*RETRIEVERS_PLACE, "*", "path"): Act.KEEP_STORE,
    (*_DATASETS_PLACE, "loader"): Act.IMPORT,
    (*ENVIRONMENT_PLACE, "state"): Act.CONNECT,
    (*ENVIRONMENT_PLACE, "state", "url"): Act.CONNECT,
    (*ENVIRONMENT_PLACE, "state", "python"): Act.IMPORT,
    (*ENVIRONMENT_PLACE, "reset"): Act.CONNECT,
    (*ENVIRONMENT_PLACE, "reset", "url"): Act.CONNECT,
    (*ENVIRONMENT_PLACE, "reset", "python"): Act.IMPORT,
} | {
    (*place, "auth", *key): act
    for place in (
        *(ENDPOINT_PLACE, JUDGE_PLACE, (*JUDGE_PLACE, "panel"), USER_PLACE, EMBEDDINGS_PLACE),
        (*RETRIEVERS_PLACE, "*", "http"),
    )
    for key, act in (
        (("command",), Act.PRINT_KEY),
        (("oauth2", "tokenUrl"), Act.CONNECT),
        (("certificate", "cert"), Act.READ_FILE),
        (("certificate", "key"), Act.READ_FILE),
    )
}
"""Places in the manifest to the act of their values. `*` matches any name; list indexes are omitted."""

_VARIABLES = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}


def check_trust(draft: Draft) -> None:
    """Refuse forbidden values of the manifest, for any selection of datasets."""
    if not current_trust().is_limited:
        return
    asks_agent = draft.needs_url
    command = draft.loaded.manifest.spec.api.command
    if command is not None and asks_agent and draft.options.url is None:  # with --url, the command is not started
        _refuse(draft, Act.START, " ".join(command), (*API_PLACE, "command"))
    sections = {
        (*API_PLACE, "url"): asks_agent and draft.options.url is None,
        ENDPOINT_PLACE: asks_agent,
        JUDGE_PLACE: not draft.options.no_judge,
        USER_PLACE: not draft.options.has_replies,
        EMBEDDINGS_PLACE: True,
        RETRIEVERS_PLACE: True,
        _DATASETS_PLACE: True,
        ENVIRONMENT_PLACE: not draft.options.has_replies,
    }
    scratch = References(draft.loaded.path.parent)
    for section in [place for place, is_used in sections.items() if is_used]:
        for place, text in find_texts(_find_section(draft, section), section):
            _check_text(draft, scratch, place, text)


def check_services(draft: Draft, needs: Collection[Need]) -> None:
    """Refuse default judges and embeddings whose host and variables come from the environment."""
    if not current_trust().is_limited:
        return
    evaluation = draft.loaded.manifest.spec.evaluation
    if Need.JUDGE in needs:
        _check_defaults(draft, evaluation.judge, resolve_judge(evaluation.judge), JUDGE_PLACE)
    if evaluation.user is not None and not draft.options.has_replies:
        _check_defaults(draft, evaluation.user, resolve_user(evaluation.user), USER_PLACE)
    if Need.EMBEDDINGS in needs and evaluation.embeddings.provider != "local":
        _check_defaults(draft, evaluation.embeddings, resolve_embeddings(evaluation.embeddings), EMBEDDINGS_PLACE)


def _check_defaults(
    draft: Draft,
    declared: ModelConfig | EmbeddingsConfig | None,
    found: ModelConfig | EmbeddingsConfig | None,
    place: Place,
) -> None:
    said = declared.model_fields_set if declared else frozenset[str]()
    if "base_url" in said:
        return
    for field, variable in _VARIABLES.items():
        if field not in said and os.environ.get(variable):
            _refuse(draft, Act.READ_VARIABLE, variable, place)
    if found is not None:
        _check_text(draft, References(draft.loaded.path.parent), (*place, "baseUrl"), found.base_url)


def _check_text(draft: Draft, references: References, place: Place, text: str) -> None:
    """Check the references and the use of a value of the manifest."""
    names = tuple(step for step in place if not isinstance(step, int))
    if names[:-1] == _DATASETS_PLACE and names[-1] in ("path", "corpus"):  # paths, refused where datasets are read
        return
    act = next((act for pattern, act in _USES.items() if _matches(names, pattern)), None)
    if act is Act.PRINT_KEY:  # once, not for each argument
        act, place = (act if place[-1] == 0 else None), place[:-1]
    if act is Act.READ_FILE:
        text = text.removeprefix("$file:")
    try:
        value = references.resolve(text)
    except RefusedReference as error:
        draft.add(place, error.message, error.fix)
        return
    except UnresolvedReference:  # reported where a run needs it
        return
    if act is not None:
        subject = str(draft.loaded.path.parent / value) if act is Act.READ_FILE else value
        _refuse(draft, act, subject, place, "" if value == text else f"the value of {text}")


def _matches(names: Place, pattern: Place) -> bool:
    return len(names) == len(pattern) and all(
        wanted in ("*", name) for name, wanted in zip(names, pattern, strict=True)
    )


def _refuse(draft: Draft, act: Act, subject: str, place: Place, named: str = "") -> None:
    refused = explain(act, subject, named)
    if refused is not None:
        draft.add(place, *refused)


def _find_section(draft: Draft, place: Place) -> Any:
    value: Any = draft.loaded.source.data
    with suppress(KeyError, TypeError):
        for step in place:
            value = value[step]
        return value
    return None
