"""Whether an agent left the world as it should: the state itself is asked, not the agent."""

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from evalspec.base.json_matching import JsonDifference, Path, equal, list_differences
from evalspec.base.json_path import locate_values, render_location, select_values
from evalspec.base.patterns import sharing_limit
from evalspec.model import Cause, Exchange, ExpectedState, Need, Score, World
from evalspec.scoring.metrics.base import BuildContext
from evalspec.scoring.metrics.functions import metric

if TYPE_CHECKING:
    from evalspec.inputs.manifest.environment_schema import EnvironmentConfig

_SHOWN = 3
_LONGEST = 80


@metric(needs={Need.EXPECTED_STATE}, is_binary=True, scores_answers=False, is_of_whole=True, reads_environment=True)
def end_state(exchange: Exchange, context: BuildContext) -> Score:
    """1 if the world is as the sample expects after the attempt."""
    expected, world = exchange.sample.expected_state, exchange.reply.world if exchange.reply else None
    if expected is None:
        return Score.not_applicable("the sample expects no state", Cause.DATASET)
    if world is None:
        return Score.not_applicable("nobody looked at the world after the attempt", Cause.REPLY)
    with sharing_limit():
        found = list(list_state_differences(expected, world, context.environment))
    shown = [_describe(one) for one in found]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Score.scored(not found, "; ".join(shown[:_SHOWN]) + more or None, {"differences": shown})


def list_state_differences(
    expected: ExpectedState, world: World, environment: "EnvironmentConfig | None"
) -> Iterator[JsonDifference]:
    """Yield each place of the world that is not as expected, and then what changed although nobody named it."""
    yield from _compare_state(expected, world.after)
    yield from _list_side_effects(expected, world, environment)


def _compare_state(expected: ExpectedState, after: Any) -> Iterator[JsonDifference]:
    """Yield each place of the world that is not as expected. A query with several matches gives a list of them."""
    for query, wanted in expected.values.items():
        values = select_values(query, after)
        value = UNSET if not values else values[0] if len(values) == 1 else values
        for one in list_differences(wanted, value):
            yield JsonDifference((query, *one.path), one.expected, one.actual)


def _list_side_effects(
    expected: ExpectedState, world: World, environment: "EnvironmentConfig | None"
) -> Iterator[JsonDifference]:
    """Yield what changed although nobody named it, if nothing else may change."""
    only = environment is not None and environment.nothing_else
    if not (only if expected.nothing_else is None else expected.nothing_else):
        return
    queries = [*expected.values, *expected.ignore, *(environment.ignore if environment else ())]
    named = [
        {place for query in queries for place in locate_values(query, state)} for state in (world.before, world.after)
    ]
    yield from _list_changes(world.before, world.after, (named[0], named[1]), (), ())


def _list_changes(
    before: Any, after: Any, named: tuple[Collection[Path], Collection[Path]], old: Path, new: Path
) -> Iterator[JsonDifference]:
    """Yield the changes between two states outside of the named places. `old`, `new`: the places of the values.

    Named items of a list are left out before the rest is compared in order, so that one more item moves no other.
    """
    if old in named[0] or new in named[1]:
        return
    if before is UNSET and isinstance(after, dict | list) and _is_within(named[1], new):
        before = type(after)()
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            pair = before.get(key, UNSET), after.get(key, UNSET)
            yield from _list_changes(*pair, named, (*old, key), (*new, key))
    elif isinstance(before, list) and isinstance(after, list):
        rests = [
            [(place, item) for place, item in enumerate(items) if (*path, place) not in known]
            for items, path, known in ((before, old, named[0]), (after, new, named[1]))
        ]
        for number in range(max(map(len, rests))):
            (at, one), (to, other) = (rest[number] if number < len(rest) else (-1, UNSET) for rest in rests)
            yield from _list_changes(one, other, named, (*old, at), (*new, to))
    elif not equal(before, after):
        yield JsonDifference(("nothing else", render_location(new if after is not UNSET else old)), before, after)


def _is_within(named: Collection[Path], place: Path) -> bool:
    return any(one[: len(place)] == place for one in named)


def _describe(one: JsonDifference) -> str:
    place = ".".join(map(str, one.path[1:])) if one.path[0] == "nothing else" else ".".join(map(str, one.path))
    if one.path[0] == "nothing else":
        return f"{place} changed: it was {_show(one.expected)} and is {_show(one.actual)}"
    return f"{place}: expected {_show(one.expected)}, found {_show(one.actual)}"


def _show(value: Any) -> str:
    text = "nothing" if value is UNSET else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
