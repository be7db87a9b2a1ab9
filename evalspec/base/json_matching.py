"""Compare JSON values with expected ones, in which a matcher may stand for a value.

Values are equal as JSON has them: `1` is neither `"1"` nor `true`, and `1` equals `1.0`. A matcher is an object with
exactly its keys:

| matcher | the value |
|---|---|
| `{any: true}` | any value, also null; not an absent one |
| `{contains: "text"}` | a text with that part, or a list with an item that matches |
| `{matches: "pattern"}` | a text with that regular expression |
| `{near: 3, tolerance: 0.1}` | a number at most so far away |
| `{unordered: [a, b]}` | a list with the same items in any order |
| `{includes: {a: 1}}` | an object with at least these members |
| `{absent: true}` | no value: the object has no such member |
| `{optional: 3}` | this value, or none |
| `{exactly: …}` | the value itself, though it looks like a matcher |
"""

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import UNSET, Struct

from evalspec.base.json_text import change_values, compute_digest
from evalspec.base.patterns import explain_bad_pattern, has_pattern
from evalspec.base.registry import SURELY_MEANT, find_close

Path = tuple[str | int, ...]

_PATTERNS = ("match", "regex", "regexp", "pattern")
"""What other tools call `matches`."""


class JsonDifference(Struct, frozen=True):
    """A place where a value is not the expected one. UNSET: there is no value, or none is expected."""

    path: Path
    expected: Any
    actual: Any


def equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(equal, one, other))
    is_number = isinstance(one, int | float) and isinstance(other, int | float)
    return bool(one == other) and (is_number or type(one) is type(other))


def compute_value_digest(value: Any) -> str:
    """Return a hash that equal JSON values share, also if a number is written as 1 and as 1.0."""
    whole = change_values(value, lambda one: int(one) if isinstance(one, float) and one.is_integer() else one)
    return compute_digest(whole)


def matches(expected: Any, actual: Any) -> bool:
    """Return whether a value is the expected one. UNSET as `actual`: there is none.

    Raises:
        PatternTooSlow: a pattern takes too long.
    """
    found = _find_matcher(expected)
    if found is not None and found.keys != _INCLUDES:  # the usual case: no differences have to be listed
        return found.accepts(expected, actual)
    return next(list_differences(expected, actual), None) is None


def list_differences(expected: Any, actual: Any, path: Path = ()) -> Iterator[JsonDifference]:
    """Yield each place where a value differs from the expected one, the deepest that can be named.

    Raises:
        PatternTooSlow: a pattern takes too long.
    """
    found = _find_matcher(expected)
    if found is not None:
        yield from found.compare(expected, actual, path)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            yield from list_differences(value, actual.get(key, UNSET), (*path, key))
        for key in actual.keys() - expected.keys():
            yield JsonDifference((*path, key), UNSET, actual[key])
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            wanted, found_there = (one[index] if index < len(one) else UNSET for one in (expected, actual))
            yield from list_differences(wanted, found_there, (*path, index))
    elif not equal(expected, actual):
        yield JsonDifference(path, expected, actual)


def list_bad_matchers(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the place and the problem of each invalid matcher in an expected value, with a fix.

    An object whose only key looks like a matcher's is one. At the root, and in `includes`, its keys are names instead.
    """
    found = _find_matcher(value)
    if found is not None:
        message = found.check(value)
        if message:
            yield path, message
        if found.holds_values:
            key = next(iter(found.keys))
            yield from list_bad_matchers(value[key], (*path, key))
    elif isinstance(value, dict):
        if path and path[-1] != "includes" and (meant := _find_meant(value)):
            message = f'"{next(iter(value))}" is no matcher'
            yield path, f'{message}; write "{meant}", or {{"exactly": …}} around a value that has this key'
        for key, item in value.items():
            yield from list_bad_matchers(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from list_bad_matchers(item, (*path, index))


def _find_meant(value: Mapping[str, Any]) -> str | None:
    """Return the matcher that an object seems to be, by its only key; None if it seems to be a value."""
    words = {*_PATTERNS, *(word for matcher in _MATCHERS for word in matcher)}
    close = find_close(next(iter(value)), words, SURELY_MEANT) if len(value) == 1 else None
    return "matches" if close in _PATTERNS else close


def find_matcher(expected: Any) -> str | None:
    """Return the name of the matcher that an expected value is; None if it is none."""
    return next(iter(expected)) if _find_matcher(expected) is not None else None


def has_matchers(value: Any) -> bool:
    """Return whether an expected value has a matcher anywhere."""
    if _find_matcher(value) is not None:
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(has_matchers, items))


_INCLUDES = frozenset({"includes"})


class _Matcher(Struct, frozen=True):
    """`keys`: all that its object has. `fits`: of the object and a value. `check`: returns the problem of the object.

    `holds_values`: whether expected values are within it. `fits_absent`: whether it can match where no value is.
    """

    keys: frozenset[str]
    fits: Callable[[Mapping[str, Any], Any], bool]
    check: Callable[[Mapping[str, Any]], str | None]
    holds_values: bool = False
    fits_absent: bool = False

    def compare(self, expected: Mapping[str, Any], actual: Any, path: Path) -> Iterator[JsonDifference]:
        """Yield the differences of a value."""
        if self.keys == _INCLUDES and isinstance(actual, dict):
            for key, value in expected["includes"].items():
                yield from list_differences(value, actual.get(key, UNSET), (*path, key))
        elif not self.accepts(expected, actual):
            yield JsonDifference(path, expected, actual)

    def accepts(self, expected: Mapping[str, Any], actual: Any) -> bool:
        """Return whether a value, or UNSET for none, is the expected one."""
        return self.fits_absent if actual is UNSET else self.fits(expected, actual)


def _find_matcher(value: Any) -> _Matcher | None:
    return _MATCHERS.get(frozenset(value)) if isinstance(value, dict) and 0 < len(value) <= 2 else None


def _contains(expected: Mapping[str, Any], actual: Any) -> bool:
    part = expected["contains"]
    if isinstance(actual, list):
        return any(matches(part, item) for item in actual)
    return isinstance(actual, str) and isinstance(part, str) and part in actual


def _is_near(expected: Mapping[str, Any], actual: Any) -> bool:
    if not _is_number(actual):
        return False
    value, near, tolerance = map(_read_decimal, (actual, expected["near"], expected["tolerance"]))
    return abs(value - near) <= tolerance


def _read_decimal(number: float) -> Fraction:
    """Return a number as it is written: 3.1 is exactly 0.1 away from 3. No number is too large."""
    return Fraction(number if isinstance(number, int) else repr(number))


def _has_same_items(expected: Mapping[str, Any], actual: Any) -> bool:
    items = expected["unordered"]
    if not isinstance(actual, list) or len(actual) != len(items):
        return False
    from evalspec.base.assignment import pair_up

    return -1 not in pair_up([[matches(item, other) for other in actual] for item in items])


def _is_number(value: Any) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole or (isinstance(value, float) and math.isfinite(value))


def _needs(key: str, kind: type, name: str) -> Callable[[Mapping[str, Any]], str | None]:
    return lambda matcher: None if isinstance(matcher[key], kind) else f"{key} needs {name}"


def _needs_true(key: str) -> Callable[[Mapping[str, Any]], str | None]:
    return lambda matcher: None if matcher[key] is True else f"{key} has only the value true; remove it otherwise"


def _check_pattern(matcher: Mapping[str, Any]) -> str | None:
    pattern = matcher["matches"]
    return explain_bad_pattern(pattern) if isinstance(pattern, str) else "matches needs a regular expression as text"


def _check_part(matcher: Mapping[str, Any]) -> str | None:
    return "an empty text is in every text; write the text to look for" if matcher["contains"] == "" else None


def _check_near(matcher: Mapping[str, Any]) -> str | None:
    if "tolerance" not in matcher:
        return "near needs a tolerance; write {near: 3, tolerance: 0.1}, or only the number if it must be equal"
    near, tolerance = matcher["near"], matcher["tolerance"]
    return None if _is_number(near) and _is_number(tolerance) and tolerance >= 0 else "near and tolerance need numbers"


_MATCHERS = {
    one.keys: one
    for one in (
        _Matcher(frozenset({"any"}), lambda _, __: True, _needs_true("any")),
        _Matcher(frozenset({"contains"}), _contains, _check_part, holds_values=True),
        _Matcher(
            frozenset({"matches"}),
            lambda expected, actual: isinstance(actual, str) and has_pattern(expected["matches"], actual),
            _check_pattern,
        ),
        _Matcher(frozenset({"near", "tolerance"}), _is_near, _check_near),
        _Matcher(frozenset({"near"}), lambda _, __: False, _check_near),
        _Matcher(frozenset({"unordered"}), _has_same_items, _needs("unordered", list, "a list"), holds_values=True),
        _Matcher(
            frozenset({"includes"}), lambda _, __: False, _needs("includes", dict, "an object"), holds_values=True
        ),
        _Matcher(frozenset({"absent"}), lambda _, __: False, _needs_true("absent"), fits_absent=True),
        _Matcher(
            frozenset({"optional"}),
            lambda expected, actual: matches(expected["optional"], actual),
            lambda _: None,
            holds_values=True,
            fits_absent=True,
        ),
        _Matcher(frozenset({"exactly"}), lambda expected, actual: equal(expected["exactly"], actual), lambda _: None),
    )
}
