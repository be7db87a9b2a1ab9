"""The limits of a run, and a shard's part of them, so that all shards together use no more than the run may."""

from typing import TypeVar

from msgspec.structs import replace
from pydantic.alias_generators import to_camel

from evalspec.base.errors import Problem
from evalspec.inputs.manifest.judge_schema import ModelConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model.shards import Shard
from evalspec.runs.planning.options import RunOptions
from evalspec.scoring.judge.limits import SpendingLimits

Config = TypeVar("Config", bound=ModelConfig)


def choose_limits(loaded: LoadedManifest, options: RunOptions) -> SpendingLimits:
    """Return what a run, or its shard, may use at most. Options take the place of the manifest's limits."""
    stated = loaded.manifest.spec.evaluation.limits
    names = SpendingLimits.__struct_fields__
    given = {name: getattr(options, name) for name in names}
    whole = SpendingLimits(**{name: getattr(stated, name) if given[name] is None else given[name] for name in names})
    return _share_limits(whole, options.shard)


def _share_limits(limits: SpendingLimits, shard: Shard | None) -> SpendingLimits:
    """Return a shard's part of what the run may use. Shards run side by side, so each has all of its time."""
    if shard is None:
        return limits
    cost, calls, tokens = limits.max_cost, limits.max_judge_calls, limits.max_tokens
    return replace(
        limits,
        max_cost=None if cost is None else cost / shard.of,
        max_judge_calls=None if calls is None else shard.take_part(calls),
        max_tokens=None if tokens is None else shard.take_part(tokens),
    )


def share_pace(
    config: Config, place: Place, shard: Shard | None, loaded: LoadedManifest, problems: list[Problem]
) -> Config:
    """Return a model with a shard's part of its pace. A pace that is too slow to be shared goes to `problems`."""
    if shard is None or config.pace is None:
        return config
    rates = config.pace.model_dump(exclude_none=True)
    for name in [name for name, rate in rates.items() if rate < shard.of]:
        message = f"{rates[name]} a minute cannot be shared by {shard.of} shards"
        problems.append(loaded.problem((*place, "pace", to_camel(name)), message, "raise it, or use fewer shards"))
    shared = {name: max(1, shard.take_part(rate)) for name, rate in rates.items()}
    return config.model_copy(update={"pace": config.pace.model_copy(update=shared)})
