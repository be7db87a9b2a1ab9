"""The arguments of the library's functions: their types, and the checks that the command line makes too."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.model.conventions import MAX_REPEATS
from evalspec.model.fingerprints import Cleanup, RetrieverMode
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.sharding import read_shard
from evalspec.targets.agents.entry import AgentFunction, is_agent

AnyPath = str | Path

Positive = Annotated[int, Field(ge=1)]
Repeats = Annotated[int, Field(ge=1, le=MAX_REPEATS)]


class LimitOptions(TypedDict, total=False):
    """What a run may use at most. See `evalspec evaluate --help`."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    max_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    max_judge_calls: Annotated[int, Field(ge=0)] | None
    max_tokens: Annotated[int, Field(ge=0)] | None
    max_time: Annotated[float, Field(gt=0)] | None
    fail_fast: bool


class Options(LimitOptions, total=False):
    """Options of a run. See `evalspec evaluate --help`."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    datasets: str | Sequence[str]
    url: str | None
    sample_size: Positive | None
    seed: int
    tags: str | Sequence[str]
    exclude_tags: str | Sequence[str]
    where: str | Sequence[str]
    stratify: str | Sequence[str]
    slice: str | None
    held_out: bool
    concurrency: Positive
    timeout: Annotated[float, Field(gt=0)] | None
    no_judge: bool
    shard: str | None
    on: str | None
    responses: AnyPath | None
    repeat: Repeats
    judge_repeat: Repeats
    no_content: bool
    allow_actions: bool
    traces: bool
    no_cache: bool
    fresh: bool
    retriever: str | None
    mode: Literal["retrieve", "retrieve+rerank"] | None
    top_k: Positive | None
    rerank_top_k: Positive | None
    scope_prefix: str | None
    no_ingest: bool
    cleanup: Literal["none", "on-success", "always"]
    depth: Annotated[int, Field(ge=0)]


_KINDS = {"mode": RetrieverMode, "cleanup": Cleanup}
"""The type of each option that users write as a word."""

_RULES: Mapping[str, Any] = {
    "alpha": Annotated[float, Field(gt=0, lt=1)],
    "resamples": Annotated[int, Field(ge=100)],
    "seed": Annotated[int, Field(ge=0)],
    "cutoffs": Sequence[Positive],
    "min_grade": Positive,
    "empty_qrels": Literal["notApplicable", "zero"],
    "retrieval_gt_1d": Literal["and", "or"] | None,
    "judge_repeat": Repeats,
    "sample_size": Positive | None,
    "judge": Mapping[str, Any] | None,
    "limits": LimitOptions,
}
"""The accepted values of arguments that are no options of a run, as on the command line."""


def check_arguments(**given: Any) -> None:
    """Check arguments that are no options of a run.

    Raises:
        InvalidInput: One of them has a value that the command line would refuse too.
    """
    for name, value in given.items():
        try:
            TypeAdapter(_RULES[name]).validate_python(value, strict=True)
        except ValidationError as error:
            raise _explain_arguments(error, name) from None


def _explain_arguments(error: ValidationError, name: str = "") -> InvalidInput:
    """Return the problems of arguments, without their values, which may be secret. `name`: of a single argument."""
    details = error.errors(include_url=False, include_input=False)
    return InvalidInput(Problem(detail["msg"], field=name or str(detail["loc"][0])) for detail in details)


def refuse_uncallable(agent: AgentFunction | None) -> None:
    """Raise InvalidInput if an agent is given that cannot answer questions."""
    if agent is not None and not is_agent(agent):
        raise InvalidInput(Problem(f"{type(agent).__name__} is not callable", "pass a function", field="agent"))


def to_options(options: Options, agent: AgentFunction | None = None) -> RunOptions:
    """Return the options of a run.

    Raises:
        InvalidInput: An option has a value that the command line would refuse too.
        TypeError: An option is unknown.
    """
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected option '{unknown[0]}'; {near_miss(unknown[0], Options.__annotations__)}")
    refuse_uncallable(agent)
    try:
        TypeAdapter(Options).validate_python(options)
    except ValidationError as error:
        raise _explain_arguments(error) from None
    given: dict[str, Any] = {**options}
    for name in ("datasets", "tags", "exclude_tags", "where", "stratify"):
        if name in given:
            given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
    if given.get("responses") is not None:
        given["responses"] = Path(given["responses"])
    if given.get("shard") is not None:
        given["shard"], _ = read_shard(given["shard"], os.environ)
    for name, kind in _KINDS.items():
        if given.get(name) is not None:
            given[name] = kind(given[name])
    return RunOptions(**given, agent=agent)
