"""JSON Schemas that users write, draft 2020-12: of the inputs of a retriever, of answers, of the arguments of tools.

A schema is complete in itself: references to other documents are errors, and nothing is ever fetched.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalspec.base.patterns import CannotCheck, has_pattern
from evalspec.base.registry import SURELY_MEANT, find_close
from evalspec.base.text import one_line

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LONGEST = 200

Place = tuple[str | int, ...]

Found = tuple[Place, str]
"""A place in a schema or an input, and what is wrong there."""

Matcher = Callable[[Mapping[str, Any]], Found | None]
"""Returns why an input does not match, None if it does.

It raises CannotCheck if a pattern takes too long, a number is too large, or the schema refers to itself without end.
"""


def find_schema_problems(schema: Mapping[str, Any] | None) -> list[Found]:
    """Return the problems of a schema, each with its place in it."""
    if schema is None:
        return []
    try:
        json.dumps(schema, allow_nan=False)
        invalid = _explain_invalid(schema)
        return [invalid] if invalid else list(dict.fromkeys(_find_bad_references(schema)))
    except ValueError:
        return [((), "a number in the schema is not finite; write a finite one")]
    except RecursionError:
        return [((), "the schema is nested too deeply; simplify it")]


def build_matcher(schema: Mapping[str, Any]) -> Matcher:
    """Return the check of a valid schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import extend
    from referencing import Registry

    validator = extend(Draft202012Validator, _TIMED)(schema, registry=Registry())

    def find_mismatch(value: Mapping[str, Any]) -> Found | None:
        try:
            error = best_match(validator.iter_errors(value))
        except RecursionError as error:
            raise CannotCheck("the schema refers to itself without end") from error
        except OverflowError as error:
            raise CannotCheck("a number is too large for the schema's multipleOf") from error
        return None if error is None else (tuple(error.absolute_path), _shorten(error.message))

    return find_mismatch


def _match_in_time(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
    """Check the keyword `pattern`.

    Raises:
        PatternTooSlow: The pattern takes too long. A mismatch would satisfy `not`.
    """
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not has_pattern(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_named(validator: Any, patterns: Mapping[str, Any], value: Any, _schema: Any) -> Iterator[Any]:
    """Check the keyword `patternProperties`."""
    if validator.is_type(value, "object"):
        for pattern, inner in patterns.items():
            for name in (name for name in value if has_pattern(pattern, name)):
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _check_others(validator: Any, inner: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Check the keyword `additionalProperties`."""
    if validator.is_type(value, "object"):
        known = schema.get("properties", {}).keys() | _list_named(schema, value)
        yield from _check_members(validator, inner, value, [name for name in value if name not in known])


def _check_unevaluated(validator: Any, inner: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Check the keyword `unevaluatedProperties`."""
    if validator.is_type(value, "object"):
        rest = {key: part for key, part in schema.items() if key != "unevaluatedProperties"}
        known = _list_evaluated(validator, value, rest)
        yield from _check_members(validator, inner, value, [name for name in value if name not in known])


def _check_members(validator: Any, inner: Any, value: Mapping[str, Any], names: list[str]) -> Iterator[Any]:
    """Check members that no other keyword names."""
    from jsonschema.exceptions import ValidationError

    if inner is False and names:
        yield ValidationError(f"these members are not allowed: {', '.join(map(repr, names))}")
        return
    for name in names:
        yield from validator.descend(value[name], inner, path=name)


def _list_named(schema: Mapping[str, Any], value: Mapping[str, Any]) -> set[str]:
    patterns = schema.get("patternProperties", {})
    return {name for name in value if any(has_pattern(pattern, name) for pattern in patterns)}


def _list_evaluated(validator: Any, value: Mapping[str, Any], schema: Any) -> set[str]:
    """Return the members that a schema says something about, if the value is valid by it.

    jsonschema has this too, with patterns that may take any time.
    """
    if not isinstance(schema, Mapping):
        return set()
    if not schema.keys().isdisjoint(("additionalProperties", "unevaluatedProperties")):
        return set(value)
    found: set[str] = _list_named(schema, value) | (value.keys() & schema.get("properties", {}).keys())
    for key in ("$ref", "$dynamicRef"):
        if key in schema:
            there = validator._resolver.lookup(schema[key])
            inside = validator.evolve(schema=there.contents, _resolver=there.resolver)
            found |= _list_evaluated(inside, value, there.contents)
    for part in _list_applied(validator, value, schema):
        found |= _list_evaluated(validator, value, part)
    return found


def _list_applied(validator: Any, value: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas within a schema that apply to the same value and accept it."""

    def accepts(part: Any) -> bool:
        return bool(validator.evolve(schema=part).is_valid(value))

    yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in value)
    for key in ("allOf", "anyOf", "oneOf"):
        yield from filter(accepts, schema.get(key, ()))
    if "if" in schema:
        holds = accepts(schema["if"])
        yield from [schema["if"]] if holds else []
        yield schema.get("then" if holds else "else", True)


_TIMED = {
    "pattern": _match_in_time,
    "patternProperties": _check_named,
    "additionalProperties": _check_others,
    "unevaluatedProperties": _check_unevaluated,
}
"""The keywords with patterns, or that depend on them, under the time limit."""


def _explain_invalid(schema: Any) -> Found | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return tuple(error.absolute_path), f"it is not a JSON Schema: {_shorten(error.message)}"
    return None


def _find_bad_references(schema: Mapping[str, Any]) -> Iterator[Found]:
    """Yield a problem for each other dialect, and for each reference to anything but a schema in this one."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    registry: Any = Registry()
    root = DRAFT202012.create_resource(schema)
    waiting, seen = [(schema, registry.resolver_with_root(root))], set()
    while waiting:
        part, resolver = waiting.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        if part.get("$schema", _DIALECT).rstrip("#") != _DIALECT:
            yield _locate(schema, part, "$schema"), f"only draft 2020-12 is supported; write {_DIALECT}, or remove it"
            continue
        for key, meant in _list_misspelled(part):
            yield _locate(schema, part, key), f"'{_shorten(key)}' is no keyword and checks nothing; write {meant}"
        waiting += [
            (inner, resolver.in_subresource(DRAFT202012.create_resource(inner)))
            for inner in DRAFT202012.subresources_of(part)
        ]
        for key in ("$ref", "$dynamicRef"):
            if key not in part:
                continue
            try:
                found = resolver.lookup(part[key])
            except (Unresolvable, ValueError, TypeError, AttributeError, LookupError):
                message = f"{_shorten(repr(part[key]))} is not in this schema, and evalspec fetches no others"
                yield _locate(schema, part, key), f"{message}; copy it to $defs"
                continue
            invalid = _explain_invalid(found.contents)
            if invalid is not None:
                yield _locate(schema, part, key), f"{_shorten(repr(part[key]))} is not a schema; refer to one"
            else:
                waiting.append((found.contents, found.resolver))


def _list_misspelled(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key that looks like a keyword, and that keyword. Other keys are annotations."""
    from jsonschema import Draft202012Validator

    words = Draft202012Validator.VALIDATORS
    for key in part.keys() - words.keys():
        meant = find_close(str(key), words, SURELY_MEANT)
        if meant is not None and not str(key).startswith("x-"):
            yield str(key), meant


def _locate(value: Any, part: Mapping[str, Any], key: str) -> Place:
    """Return the place of a key of one mapping in a schema."""
    places: list[tuple[Place, Any]] = [((), value)]
    while places:
        place, inner = places.pop()
        if inner is part:
            return (*place, key)
        if isinstance(inner, Mapping):
            places += [((*place, name), item) for name, item in inner.items()]
        elif isinstance(inner, list):
            places += [((*place, index), item) for index, item in enumerate(inner)]
    return ()


def _shorten(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
