"""The expected state of the world, as a line of a dataset has it: values by JSONPath query, and rules for the rest."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.json_matching import list_bad_matchers
from evalspec.base.json_path import explain_bad_query
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.environment_schema import read_duration
from evalspec.inputs.manifest.yaml_source import render_path
from evalspec.model import ExpectedState

_RULES = ("nothing_else", "ignore", "within")


def read_expected_state(given: Mapping[str, Any]) -> ExpectedState:
    """Return the state that a line expects.

    Raises:
        ValueError: a key is neither a query nor a rule, or a value is no value of it.
    """
    values = {key: value for key, value in given.items() if key.startswith("$")}
    odd = next((key for key in given if key not in values and key not in _RULES), None)
    if odd is not None:
        raise ValueError(f"'{odd}' is no JSONPath query, which begins with $, and no rule; {near_miss(odd, _RULES)}")
    if not values and given.get("nothing_else") is not True:
        raise ValueError('it names no value; write a query, as in {"$.bookings[0].city": "Paris"}')
    ignored = given.get("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(one, str) for one in ignored):
        raise ValueError("ignore is a list of JSONPath queries")
    for query in (*values, *ignored):
        reason = explain_bad_query(query)
        if reason is not None:
            raise ValueError(reason)
    for query, value in values.items():
        for place, message in list_bad_matchers(value):
            raise ValueError(f"{query}{render_path(place)}: {message}")
    only, within = given.get("nothing_else"), read_duration(given.get("within"))
    if only not in (None, True, False):
        raise ValueError("nothing_else is true or false")
    if within is not None and (isinstance(within, bool) or not isinstance(within, int | float) or within < 0):
        raise ValueError("within is a time, such as 5s")
    return ExpectedState(values, only, tuple(ignored), None if within is None else float(within))


def render_expected_state(state: ExpectedState) -> dict[str, Any]:
    """Return the state as a line has it."""
    rules = {"nothing_else": state.nothing_else, "ignore": list(state.ignore) or None, "within": state.within}
    return {**state.values, **{key: value for key, value in rules.items() if value is not None}}
