"""checks and checks_all: whether a reply passes the checks of its sample, each a metric without a judge."""

import json
from collections.abc import Awaitable, Mapping
from importlib import import_module
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import MetricError
from evalspec.base.patterns import CannotCheck
from evalspec.base.registry import near_miss
from evalspec.inputs.checks import render_check
from evalspec.inputs.manifest.metric_spec import MetricSpec
from evalspec.model import Cause, Check, Direction, Exchange, Need, Score
from evalspec.scoring.metrics.base import METRICS, BuildContext, MetricDefinition, Scorer
from evalspec.scoring.metrics.columns import ParameterError, name_column, read_values

_CHECKED = frozenset({Need.EXPECTED, Need.CONTEXT, Need.REFERENCE_CONTEXTS, Need.EXPECTED_TOOLS})
"""What a metric may need to be a check."""
_SHOWN = 3
_BELOW_ONE = 1 - 2**-53
"""The value of a wrong check whose weight is negligible."""


class BuiltCheck(Struct, frozen=True):
    """A check that can be run. `name`: with its parameters, as a column has it. `threshold`: its own, or the best."""

    name: str
    definition: MetricDefinition
    needs: frozenset[Need]
    scorer: Scorer
    check: Check
    threshold: float

    def run(self, exchange: Exchange) -> tuple[Score, bool]:
        """Return the score of the metric, and whether the check is right, which is false without a value."""
        try:
            score = self.scorer(exchange)
        except (MetricError, CannotCheck) as error:
            score = Score.failed(str(error), Cause.DATASET if isinstance(error, CannotCheck) else Cause.OTHER)
        if isinstance(score, Awaitable):
            raise TypeError(f"{self.name} is asynchronous, which no check can be")
        if score.value is None:
            return score, False
        is_cost = self.definition.direction is Direction.LOWER
        holds = score.value <= self.threshold if is_cost else score.value >= self.threshold
        return score, holds != self.check.negate


def build_check(check: Check, context: BuildContext) -> BuiltCheck:
    """Return the check of a sample.

    Raises:
        ParameterError: the name, a parameter or the threshold is wrong or missing.
        InvalidInput: the metric cannot be built.
    """
    definition = METRICS.find(check.name)
    build = definition.build if definition is not None and is_checkable(definition) else None
    if definition is None or build is None:
        known = near_miss(check.name, [one.name for one in METRICS if is_checkable(one)])
        raise ParameterError("name", f"'{check.name}' is no metric that can be a check; {known}")
    spec, settable = MetricSpec(check.name), {one.name: one for one in definition.parameters}
    for key, value in check.parameters.items():
        if key not in settable:
            known = near_miss(key, [*settable, "weight", "threshold", "negate"])
            raise ParameterError(key, f"the check {definition.name} has no '{key}'; {known}")
        if settable[key].is_file and isinstance(value, str):
            raise ParameterError(key, "a sample cannot name a file; write the value itself")
    values = read_values(definition, spec, check.parameters)
    best, worst = definition.bounds if definition.direction is Direction.LOWER else definition.bounds[::-1]
    threshold = best if check.threshold is None else check.threshold
    if threshold is None or (check.threshold is None and definition.name in _UNLIMITED):
        raise ParameterError("threshold", f"no reply has the best {definition.name}; add the most that is right")
    if worst is not None and (threshold - worst) * (-1 if definition.direction is Direction.LOWER else 1) <= 0:
        raise ParameterError("threshold", f"every reply reaches {threshold:g}; write a stricter one, or none")
    with METRICS.attribute_errors(definition.name):
        scorer = build(replace(context, parameters=values))
    for module in definition.imports:  # before latency is measured
        import_module(module)
    needs = definition.needs_of(values) if definition.needs_of else definition.needs
    return BuiltCheck(str(name_column(definition, spec, values)), definition, needs, scorer, check, threshold)


def is_checkable(definition: MetricDefinition) -> bool:
    """Return whether a metric can be a check: it scores one reply, without a judge, at once."""
    return (
        definition.build is not None
        and definition.needs <= _CHECKED
        and definition.statistic == "mean"
        and not (definition.takes_cutoff or definition.scores_failures or definition.is_staged)
        and not (definition.reads_environment or METRICS.origin(definition.name))
    )


def _build(context: BuildContext) -> Scorer:
    built: dict[str, BuiltCheck] = {}

    def find(check: Check) -> BuiltCheck:
        key = json.dumps(render_check(check), sort_keys=True)
        if key not in built:
            built[key] = build_check(check, context)
        return built[key]

    def score(exchange: Exchange) -> Score:
        if not exchange.sample.checks:
            return Score.not_applicable("the sample has no checks", Cause.DATASET)
        return _score([find(check) for check in exchange.sample.checks], exchange)

    return score


def _score(checks: list[BuiltCheck], exchange: Exchange) -> Score:
    verdicts, wrong, right, total = [], [], 0.0, 0.0
    for one in checks:
        found, is_right = one.run(exchange)
        name = f"not {one.name}" if one.check.negate else one.name
        if found.value is None:
            reason = f"the check {name} could not run: {found.reason}"
            return Score.failed(reason, found.cause or Cause.OTHER)
        verdicts.append(_describe(name, one, found, is_right))
        total += one.check.weight
        right += one.check.weight * is_right
        if one.check.weight and not is_right:
            wrong.append(
                f"{one.name} holds" if one.check.negate else f"{one.name}: {found.reason or f'{found.value:g}'}"
            )
    if not total:
        return Score.not_applicable("all checks of the sample have the weight 0", Cause.DATASET)
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    value = min(right / total, _BELOW_ONE) if wrong else 1.0
    return Score.scored(value, "; ".join(wrong[:_SHOWN]) + more or None, {"checks": verdicts})


def _describe(name: str, one: BuiltCheck, found: Score, is_right: bool) -> Mapping[str, Any]:
    said = {"text": name, "verdict": int(is_right), "value": found.value, "reason": found.reason}
    said |= {"threshold": one.check.threshold, "weight": one.check.weight if one.check.weight != 1 else None}
    return {key: value for key, value in said.items() if value is not None}


def _are_all_right(score: Score) -> Score:
    return score if score.value is None else replace(score, value=float(score.value == 1))


_UNLIMITED = frozenset({"latency", "tokens_mean", "cost", "steps"})
"""Metrics whose best value, 0, no reply has."""

CHECKS = MetricDefinition(
    name="checks",
    summary="Share of the checks of the sample that are right, by their weights.",
    engine="evalspec",
    build=_build,
    needs=frozenset({Need.CHECKS}),
    reads_tools=True,
    reads_price=True,
)
CHECKS_ALL = MetricDefinition(
    name="checks_all",
    summary="1 if all checks of the sample are right.",
    engine="evalspec",
    needs=CHECKS.needs,
    base=CHECKS.name,
    derive=_are_all_right,
    is_binary=True,
    reads_tools=True,
    reads_price=True,
)
