"""Retrieval metrics by stage: `retrieved.NAME` is NAME before reranking, `gain.NAME` is the gain from reranking.

Both are derived from the plain metric, so its rules, cutoff and formulas apply to both rankings.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs
from msgspec.structs import replace

from evalspec.base.errors import MetricError
from evalspec.model import Exchange, Need, Score
from evalspec.scoring.metrics.base import Bounds, BuildContext, MetricDefinition, RelevanceRules

Compute = Callable[[Exchange], Score]
Build = Callable[[BuildContext], Compute]


def _measure_retrieved(compute: Compute) -> Compute:
    return lambda exchange: compute(_before_reranking(exchange))


def _measure_gain(compute: Compute) -> Compute:
    measure_retrieved = _measure_retrieved(compute)

    def score(exchange: Exchange) -> Score:
        retrieved, reranked = measure_retrieved(exchange), compute(exchange)
        if retrieved.value is None:
            return retrieved
        if reranked.value is None:
            return reranked
        evidence = {"retrieved": retrieved.value, "reranked": reranked.value}
        return Score.scored(reranked.value - retrieved.value, evidence=evidence)

    return score


def _before_reranking(exchange: Exchange) -> Exchange:
    if exchange.reply is None or exchange.candidates is None:
        raise MetricError("nothing was reranked, so there is only one ranking")
    return structs.replace(exchange, reply=structs.replace(exchange.reply, retrieved_context_ids=exchange.candidates))


def _bound_retrieved(bounds: Bounds) -> Bounds:
    return bounds


def _bound_gain(bounds: Bounds) -> Bounds:
    """Return the bounds of the difference between two values within `bounds`."""
    low, high = bounds
    return (None, None) if low is None or high is None else (low - high, high - low)


class _Stage(Struct, frozen=True):
    """How a stage metric is derived from the plain one: its summary, scorer and bounds."""

    summary: str
    measure: Callable[[Compute], Compute]
    bound: Callable[[Bounds], Bounds]


_STAGES: Mapping[str, _Stage] = {
    "retrieved.": _Stage("{name} before reranking.", _measure_retrieved, _bound_retrieved),
    "gain.": _Stage(
        "The gain in {name} from reranking: its value after minus that before.", _measure_gain, _bound_gain
    ),
}


def define_stages(plain: MetricDefinition, build: Build) -> dict[str, MetricDefinition]:
    """Return the stage metrics of a plain metric, by prefix. `build`: the plain metric's build function."""
    return {prefix: _define(prefix, stage, plain, build) for prefix, stage in _STAGES.items()}


def split_stage(name: str) -> tuple[str, str]:
    """Split `gain.F0.5` into prefix and plain name, `gain.` and `F0.5`. The prefix may be empty."""
    prefix = next((prefix for prefix in _STAGES if name.casefold().startswith(prefix)), "")
    return prefix, name[len(prefix) :]


def _define(prefix: str, stage: _Stage, plain: MetricDefinition, build: Build) -> MetricDefinition:
    return replace(
        plain,
        name=f"{prefix}{plain.name}",
        summary=stage.summary.format(name=plain.name),
        build=lambda context: stage.measure(build(context)),
        needs=plain.needs | {Need.CANDIDATE_IDS},
        bounds=stage.bound(plain.bounds),
        aliases=tuple(f"{prefix}{alias}" for alias in plain.aliases),
        bounds_of=_bound_by_rules(stage, plain.bounds_of),
        is_binary=plain.is_binary and stage.bound is _bound_retrieved,
    )


def _bound_by_rules(
    stage: _Stage, bounds_of: Callable[[RelevanceRules], Bounds] | None
) -> Callable[[RelevanceRules], Bounds] | None:
    return None if bounds_of is None else lambda rules: stage.bound(bounds_of(rules))
