"""Parameters of metrics: the keyword-only arguments of the function that scores.

`def my_metric(exchange, *, style: Literal["strict", "lax"] = "lax")` has the parameter `style`. A manifest sets it by
`{name: my_metric, style: strict}`, and the column is `my_metric(style=strict)`.
"""

import json
import re
from collections.abc import Callable, Mapping
from inspect import Parameter as Argument
from inspect import Signature, signature, unwrap
from math import isfinite
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import UNSET, Struct, UnsetType

from evalspec.base.json_text import compute_digest

Value = str | int | float | bool | tuple[float | None, float | None] | list[str] | dict[str, Any] | None
"""What a parameter may be set to. Lists of texts and JSON objects are for metrics of evalspec and of plug-ins."""

RANGE = "range"
"""The parameter of every metric: [lowest, highest] value."""

TURNS = "turns"
"""The parameter of every metric: how the scores of a conversation's turns are combined."""

RESERVED = frozenset({"name", "rubric", "labels", "scorer", "direction", RANGE, TURNS})
"""Keys of an entry that no parameter of a function can have."""

_FILE = "$file:"
_TYPES: Mapping[type, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_KINDS: Mapping[type, tuple[str, Mapping[str, Any]]] = {
    **{one: (_TYPES[one], {"type": name}) for one, name in ((str, "string"), (int, "integer"), (float, "number"))},
    bool: (_TYPES[bool], {"type": "boolean"}),
    list: ("list of texts", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    dict: ("JSON object", {"type": "object"}),
}
"""The description and the JSON Schema of the values of a type."""
_MARK_LENGTH = 8
_PLAIN = re.compile(r"[\w.+-]+")
POSITIONAL = (Argument.POSITIONAL_ONLY, Argument.POSITIONAL_OR_KEYWORD)
_DECLARABLE = "str, int, float, bool or Literal"


class Parameter(Struct, frozen=True):
    """A parameter of a metric. `choices`: its only values, any if empty. `default`: UNSET if it must be given.

    `is_file`: whether its value is the path of a file, relative to the manifest, on whose content the scores depend. A
    JSON object may then be given itself or as `$file:PATH`. `explain`: returns what is wrong with a value, and a fix.
    """

    name: str
    type: type
    choices: tuple[Value, ...] = ()
    default: Value | UnsetType = UNSET
    is_file: bool = False
    explain: Callable[[Any], str | None] | None = None

    @property
    def values(self) -> str:
        """Return a description of its values."""
        own = _KINDS[self.type][0] if self.type in _KINDS else "[lowest, highest]"
        may_be_file = f" or {_FILE}PATH" if self.type is dict and self.is_file else ""
        return " | ".join(map(render_value, self.choices)) or own + may_be_file

    def describe(self) -> str:
        """Return the values, and the default if there is one."""
        default = "required" if self.default is UNSET else f"default {render_value(self.default)}"
        default = "optional" if self.default is None else default
        return f"{self.values}, {default}"

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its values, with the default and a description."""
        values = {"enum": list(self.choices)} if self.choices else dict(_KINDS[self.type][1])
        if self.type is dict and self.is_file:
            values = {"anyOf": [values, {"type": "string", "pattern": rf"^\{_FILE}"}]}
        default = {} if self.default is UNSET or self.default is None else {"default": self.default}
        return {**values, **default, "description": self.describe()}

    def check(self, value: Any) -> Value:
        """Return a value from a manifest.

        Raises:
            ValueError: it is no value of the parameter.
        """
        if self.type is tuple:
            return _check_range(value)
        if self.type is float and type(value) is int:
            value = float(value)
        if self.type is dict and self.is_file and isinstance(value, str) and value.startswith(_FILE):
            return value.removeprefix(_FILE)
        known = [type(one) is type(value) and one == value for one in self.choices]
        fits = any(known) if known else type(value) is self.type
        if self.type is list:
            fits = fits and bool(value) and all(isinstance(one, str) for one in value)
        if not fits or (isinstance(value, float) and not isfinite(value)):
            raise ValueError(f"{value!r} is no value of {self.name}; write {self.values}")
        problem = self.explain(value) if self.explain else None
        if problem:
            raise ValueError(problem)
        checked: Value = value
        return checked

    def parse(self, text: str) -> Value:
        """Return the value that a column name or a key of thresholds has for this parameter.

        Of a JSON object it has only a mark or the file, so that text stands for the value.

        Raises:
            ValueError: it is no value of the parameter.
        """
        by_text = {render_value(one): one for one in self.choices}
        if text in by_text:
            return by_text[text]
        is_bare_text = self.type is str and not text.startswith('"')
        try:
            if self.type is dict:
                return str(json.loads(text)) if text.startswith('"') else text
            return self.check(text if is_bare_text else json.loads(text))
        except json.JSONDecodeError:
            raise ValueError(f"{text} is no value of {self.name}; write {self.values}") from None


def _check_range(value: Any) -> tuple[float, float]:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or not all(type(end) in (int, float) and isfinite(end) for end in value) or value[0] >= value[1]:
        raise ValueError("range must be [lowest, highest], such as [0, 10]")
    return float(value[0]), float(value[1])


def render_value(value: Value) -> str:
    """Return a value as a column name has it. Equal values have the same text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value)
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, dict):
        return f"json-{compute_digest(value)[:_MARK_LENGTH]}"
    if isinstance(value, tuple):
        return f"[{', '.join('…' if end is None else render_value(end) for end in value)}]"
    return repr(value or 0).removesuffix(".0")  # -0.0 is 0


def read_parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a function that takes an exchange and may take a BuildContext.

    Raises:
        TypeError: its signature does not fit. The message has one that does.
    """
    found = signature(function)
    names = {name: one.annotation for name, one in found.parameters.items() if one.kind is Argument.KEYWORD_ONLY}
    try:
        types = get_type_hints(SimpleNamespace(__annotations__=names), getattr(unwrap(function), "__globals__", {}))
    except NameError:  # an annotation as text that names what only type checkers import
        types = names
    typed = [one.replace(annotation=types.get(name, one.annotation)) for name, one in found.parameters.items()]
    return list_parameters(function.__name__, found.replace(parameters=typed), positional=2)


def list_parameters(name: str, found: Signature, positional: int = 1) -> tuple[Parameter, ...]:
    """Return the parameters of a function. `positional`: how many arguments it gets by position.

    Raises:
        TypeError: the function cannot be called so, or an argument has a type that no manifest can write.
    """
    given = list(found.parameters.values())
    by_position = [one for one in given if one.kind in POSITIONAL]
    required = [one for one in by_position if one.default is Argument.empty]
    takes_any = any(one.kind is Argument.VAR_POSITIONAL for one in given)
    is_context_optional = positional > 1 and len(by_position) > 1 and len(required) < 2
    if not (by_position or takes_any) or len(required) > positional or is_context_optional:
        raise TypeError(f"{name}{found} does not fit: it gets an exchange; write {_suggest(name, found, positional)}")
    return tuple(_read_argument(name, found, one) for one in given if one.kind is Argument.KEYWORD_ONLY)


def _read_argument(function: str, found: Signature, argument: Argument) -> Parameter:
    annotation, default = argument.annotation, argument.default
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    kinds = {type(choice) for choice in choices} or {annotation}
    usable = argument.name not in RESERVED and kinds <= _TYPES.keys()
    parameter = Parameter(argument.name, next(iter(kinds)) if usable else str, choices)
    try:
        if usable and default is not Argument.empty:
            return Parameter(argument.name, parameter.type, choices, parameter.check(default))
    except ValueError:
        usable = False
    if usable:
        return parameter
    taken = f"{argument.name} is a key of every metric" if argument.name in RESERVED else f"it takes {_DECLARABLE}"
    fix = f"write {_suggest(function, found, 2)}"
    raise TypeError(f"the argument '{argument}' of {function} is no parameter: {taken}; {fix}")


def _suggest(name: str, found: Signature, positional: int) -> str:
    """Return the nearest signature that fits: an exchange by position, and the rest as typed keyword arguments."""
    arguments = [one for one in found.parameters.values() if one.kind in (*POSITIONAL, Argument.KEYWORD_ONLY)]
    by_position = [one for one in arguments if one.kind in POSITIONAL]
    first = [one.replace(annotation=Argument.empty, default=Argument.empty) for one in by_position[:1]]
    second = [one for one in by_position[1:2] if positional > 1 and one.name == "context"]
    kept = {one.name for one in (*first, *second)}
    rest = [f"{_rename(one)}{_suggest_type(one)}" for one in arguments if one.name not in kept]
    shown = ", ".join([*(one.name for one in first or [_EXCHANGE]), *(one.name for one in second)])
    return f"def {name}({', '.join([shown, *(['*', *rest] if rest else [])])})"


_EXCHANGE = Argument("exchange", Argument.POSITIONAL_ONLY)


def _rename(argument: Argument) -> str:
    return f"own_{argument.name}" if argument.name in RESERVED else argument.name


def _suggest_type(argument: Argument) -> str:
    """Return the annotation and default of an argument: its own if a manifest can write them, else text."""
    default, annotation = argument.default, argument.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    own = annotation if annotation in _TYPES else type(default) if type(default) in _TYPES else str
    shown = f"Literal{list(choices)}" if choices else own.__name__
    keeps_default = default in choices if choices else type(default) is own
    return f": {shown} = {default!r}" if keeps_default else f": {shown}"
