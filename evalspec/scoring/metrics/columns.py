"""The columns of reports: one for each metric with its cut-off and its parameters, without those of default value."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from evalspec.base.registry import SURELY_MEANT, find_close, near_miss
from evalspec.inputs.manifest.metric_spec import MetricSpec, parse_metric_spec, split_column
from evalspec.scoring.metrics.base import METRICS, MetricDefinition
from evalspec.scoring.metrics.parameters import RESERVED, Value, render_value
from evalspec.scoring.metrics.retrieval import define_f_beta

Definitions = Mapping[str, MetricDefinition]
"""The metrics that a manifest defines itself, by name."""


class ParameterError(ValueError):
    """A parameter that a metric does not have, or a value that it cannot have. `key`: the parameter."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def find_definition(base: str) -> MetricDefinition | None:
    """Return the metric of evalspec or of a plugin with that name, such as `Recall` or `F0.5`; None if unknown."""
    return METRICS.find(base) or define_f_beta(base)


def read_values(
    definition: MetricDefinition, spec: MetricSpec, written: Mapping[str, Any] | None = None
) -> dict[str, Value]:
    """Return the parameters that a name and the keys of its entry set. Defaults are left out.

    Raises:
        ParameterError: a parameter is unknown, missing, given twice, or has a wrong value.
    """
    settable, named = definition.settable, dict(spec.parameters or ())
    implied = definition.alias_parameters.get(spec.base.casefold(), {})
    twice = [key for key in written or () if key in named] + [key for key in (written or named) if key in implied]
    if twice:
        raise ParameterError(twice[0], f"the name '{spec.base}' sets {twice[0]} already; remove one of them")
    values: dict[str, Value] = dict(implied)
    for key, value in (*named.items(), *(written or {}).items()):
        if key not in settable:
            known = near_miss(key, [*settable, *(RESERVED if written else ())])
            raise ParameterError(key, f"{definition.name} has no parameter '{key}'; {known}")
        try:
            values[key] = settable[key].parse(value) if key in named else settable[key].check(value)
        except ValueError as error:
            raise ParameterError(key, str(error)) from error
    missing = [one for one in definition.parameters if one.default is UNSET and one.name not in values]
    if missing:
        raise ParameterError(missing[0].name, f"{definition.name} needs {missing[0].name}; add it: {missing[0].values}")
    return {key: value for key, value in values.items() if value != settable[key].default}


def name_column(definition: MetricDefinition, spec: MetricSpec, values: Mapping[str, Value]) -> MetricSpec:
    """Return the name of the column of a metric with these values."""
    shown = tuple((key, render_value(values[key])) for key in sorted(values))
    return MetricSpec(definition.name, spec.cutoff, shown)


def find_column(name: str, columns: Iterable[str], own: Definitions | None = None) -> str | None:
    """Return the column that a name means, which may be an alias and differ in case; None if there is none.

    A name without parameters means the only column of its metric. `own`: metrics that are not registered.

    Raises:
        ValueError: it means several columns, or the metric has no such parameter.
    """
    wanted = canonical_spec(split_column(name), own)
    same = [column for column in columns if _without_parameters(split_column(column)) == _without_parameters(wanted)]
    if wanted.parameters is not None:
        return next((column for column in same if (split_column(column).parameters or ()) == wanted.parameters), None)
    if len(same) > 1:
        choices = " or ".join(sorted(column if "(" in column else f"{column}()" for column in same))
        raise ValueError(f"'{name}' may be {' and '.join(sorted(same))}; write {choices}")
    return same[0] if same else None


def canonical_spec(spec: MetricSpec, own: Definitions | None = None) -> MetricSpec:
    """Return a name with its metric's canonical spelling. Without brackets, `parameters` stays None.

    Raises:
        ValueError: the metric has no such parameter or value.
    """
    definition = (own or {}).get(spec.base) or find_definition(spec.base)
    if definition is None:
        return spec
    if spec.parameters is None and spec.base.casefold() not in definition.alias_parameters:
        return replace(spec, base=definition.name)
    return name_column(definition, spec, read_values(definition, spec))


def _without_parameters(spec: MetricSpec) -> tuple[str, int | None]:
    return spec.base.casefold(), spec.cutoff


def name_cutoffs(name: str, computed: Iterable[str]) -> str:
    """Return the fix for a metric that is computed with other cut-offs only; empty if it is not."""
    base = parse_metric_spec(name).base
    others = [one for one in computed if "@" in name + one and parse_metric_spec(one).base == base]
    return f"it is computed as {', '.join(others)}: write {others[0]}" if others else ""


def name_close(name: str, computed: Iterable[str]) -> str:
    """Return the fix for a name that is no metric, but close to one that is computed or free to compute."""
    free = (metric.name for metric in METRICS if metric.implicit)
    close = None if METRICS.find(parse_metric_spec(name).base) else find_close(name, [*computed, *free], SURELY_MEANT)
    return f"did you mean '{close}'?" if close else ""
