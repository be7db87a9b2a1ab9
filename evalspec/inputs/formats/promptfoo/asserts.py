"""promptfoo's asserts: which of them are checks, which say what the right answer is, and the metric that each has.

Checks keep promptfoo's defaults: case counts unless the name has an `i`, nothing is trimmed but the parts of a text
with commas, `not-` turns a check round, and a set of asserts counts as one.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from evalspec.base.json_schema import find_schema_problems
from evalspec.base.patterns import explain_bad_pattern

_ANSWERS = {
    "equals": "exact_match",
    "factuality": "factual_correctness",
    "model-graded-factuality": "factual_correctness",
    "similar": "answer_similarity",
    "context-recall": "context_recall",
    "contains-any": "string_match",
    "icontains-any": "string_match",
    "contains": "string_match",
    "icontains": "string_match",
    "rouge-n": "rouge",
    "bleu": "bleu",
    "levenshtein": "answer_similarity",
}
"""Asserts whose value is a right answer, the clearest first, each with the metric that checks it."""

_METRICS = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-relevance": "context_precision",
}
"""Asserts that need no answer, with their counterpart."""

_ALTERNATIVES = ("contains-any", "icontains-any")
_IN_CELL = re.compile(r"\s*([a-z][a-z-]*)(?:\(([\d.]*)[^)]*\))?\s*(?::\s*(.*))?", re.DOTALL)
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_TEMPLATE = ("{{", "{%", "{#", "file://")


class Verdicts(Struct, frozen=True):
    """The right answers and the checks of a test.

    `kind`: the assert that gave the answers. `checked`: the types of the asserts that are checks. `others`: of those
    that are neither. `tools`: which tools the checks expect and forbid, by field of a sample.
    """

    answers: tuple[str, ...] = ()
    kind: str = ""
    others: tuple[str, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    checked: tuple[str, ...] = ()
    tools: Mapping[str, Any] = {}


class _Assert(Struct, frozen=True):
    """An assert outside of its set. `weight`: None if it cannot count alone, because the set has a threshold."""

    kind: str
    fields: Mapping[str, Any] = {}
    weight: float | None = 1.0

    @property
    def value(self) -> Any:
        return self.fields.get("value")


def find_counterpart(kind: str) -> str:
    """Return the metric that does what an assert does, empty if there is none."""
    return _ANSWERS.get(kind) or _METRICS.get(kind, "")


def has_answer(kind: Any) -> bool:
    """Return whether the value of an assert of this type is a right answer."""
    return isinstance(kind, str) and kind in _ANSWERS


def choose_answers(asserts: Iterable[Any], variables: Mapping[str, Any]) -> Verdicts:
    """Return the right answers and the checks of a test.

    Several asserts must all hold, but evalspec's right answers are alternatives. So one assert gives the answers. Those
    that are neither an answer nor a check are reported.
    """
    flat = list(_flatten(asserts))
    tools: dict[str, Any] = {}
    checks = [(one.kind, _take_tools(find_check(one, variables), tools)) for one in flat]
    order = list(_ANSWERS)
    given = [(one.kind, answers) for one in flat if (answers := _find_answers(one.kind, one.value, variables))]
    kind, answers = min(given, key=lambda one: order.index(one[0])) if given else ("", ())
    others = [
        one.kind
        for one, (_, check) in zip(flat, checks, strict=True)
        if check is None and not (answers and _find_answers(one.kind, one.value, variables) == answers)
    ]
    found = [(kind, check) for kind, check in checks if check is not None]
    return Verdicts(
        answers, kind, tuple(others), tuple(one for _, one in found), tuple(kind for kind, _ in found), tools
    )


def _take_tools(check: dict[str, Any] | None, tools: dict[str, Any]) -> dict[str, Any] | None:
    """Return a check without the tools that its sample has to name; None if another check of the sample names some."""
    field = next((field for field in _OF_TOOLS if check and field in check), None)
    if check is None or field is None:
        return check
    if field in tools:
        return None
    tools[field] = check[field]
    return {key: value for key, value in check.items() if key != field}


def _flatten(asserts: Iterable[Any], share: float | None = 1.0) -> Iterator[_Assert]:
    """Yield the asserts, also those of sets. `share`: the weight of each unit of their own weights."""
    for one in asserts:
        if not isinstance(one, Mapping):
            yield _Assert("an assert that is no mapping")
            continue
        weight = _find_weight(one)
        counted = None if share is None or weight is None else share * weight
        if isinstance(one.get("assert"), list):
            inner = [_find_weight(part) for part in one["assert"] if isinstance(part, Mapping)]
            total = sum(part or 0 for part in inner)
            counts = counted is not None and total and one.get("threshold") is None
            yield from _flatten(one["assert"], counted / total if counts and counted is not None else None)
        else:
            yield _Assert(str(one.get("type", "an assert without a type")), one, counted)


def _find_weight(one: Mapping[str, Any]) -> float | None:
    """Return the weight of an assert; None if it is no weight. One that is only a metric counts nothing."""
    weight = 0 if one.get("metricOnly") else one.get("weight", 1)
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    return float(weight) if is_number and 0 <= weight < float("inf") else None


def _find_answers(kind: str, value: Any, variables: Mapping[str, Any]) -> tuple[str, ...]:
    if kind not in _ANSWERS:
        return ()
    if kind in _ALTERNATIVES and isinstance(value, str):
        value = _split_text(value)
    values = value if isinstance(value, list) and (kind in _ALTERNATIVES or len(value) == 1) else [value]
    texts = [fill_in(one, variables) for one in values if isinstance(one, str | int | float)]
    complete = [text for text in texts if text is not None and text.strip()]
    return tuple(complete) if len(complete) == len(values) else ()


def find_check(one: _Assert, variables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the check that an assert is, as a line of a dataset spells it; None if there is none."""
    kind = one.kind.removeprefix("not-")
    convert = _CHECKS.get(one.kind) or _CHECKS.get(kind)
    if convert is None or one.weight is None or any(one.fields.get(key) for key in _OWN_CODE):
        return None
    found = convert(kind, one.fields, variables)
    if found is None:
        return None
    others = {"weight": one.weight} if one.weight != 1 else {}
    return found | others | ({"negate": True} if one.kind not in _CHECKS else {})


_OWN_CODE = ("transform", "contextTransform", "normalizeUnicode")
"""Keys that change the answer before an assert sees it."""
_OTHER_DIALECT = re.compile(r'"(?:format|dependencies|additionalItems|\$recursiveRef|\$id)":')
"""Keywords that promptfoo's JSON Schemas check, and that mean something else or nothing here."""

_Convert = Callable[[str, Mapping[str, Any], Mapping[str, Any]], dict[str, Any] | None]


def _find_text(fields: Mapping[str, Any], variables: Mapping[str, Any]) -> str | None:
    value = fields.get("value")
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return (fill_in(value, variables) or None) if is_text else None


def _to_text(kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    text = _find_text(fields, variables)
    name = "starts_with" if kind == "starts-with" else "contains"
    return None if text is None else {"name": name, "value": text} | _find_case(kind)


def _to_contains_several(kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    value = fields.get("value")
    values = _split_text(value) if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        return None
    texts = [_find_text({"value": one}, variables) for one in values]
    if None in texts:
        return None
    name = "contains_any" if kind.endswith("any") else "contains_all"
    return {"name": name, "values": texts} | _find_case(kind)


def _find_case(kind: str) -> dict[str, Any]:
    return {"ignore_case": True} if kind.startswith("i") else {}


def _split_text(text: str) -> list[str]:
    """Return the parts between commas, which quotes may protect."""
    (parts,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True)
    return [part.strip() for part in parts if part.strip()]


def _to_matches(_kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    pattern = _find_text(fields, variables)
    return None if pattern is None or explain_bad_pattern(pattern) else {"name": "matches", "pattern": pattern}


def _to_equals(_kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    value = fields.get("value")
    if isinstance(value, dict | list):
        return {"name": "json_schema", "schema": {"const": value}}
    text = _find_text(fields, variables)
    if text is None:
        return None
    literal = re.escape(text).replace("\\ ", " ")
    return {"name": "matches", "pattern": rf"\A{literal}\Z"}


def _to_json(kind: str, fields: Mapping[str, Any], _variables: Mapping[str, Any]) -> dict[str, Any] | None:
    within = {"within": "text"} if kind == "contains-json" else {}
    schema = fields.get("value")
    if isinstance(schema, str) and schema and not any(mark in schema for mark in _TEMPLATE):
        try:
            schema = yaml.safe_load(schema)
        except yaml.YAMLError:
            return None
    if schema is None or schema == "" or schema is True:
        return {"name": "valid_json"} | within
    if not isinstance(schema, dict):
        return None
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if find_schema_problems(plain) or _OTHER_DIALECT.search(json.dumps(plain)):
        return None
    return {"name": "json_schema", "schema": plain} | within


def _to_limit(kind: str, fields: Mapping[str, Any], _variables: Mapping[str, Any]) -> dict[str, Any] | None:
    limit = fields.get("threshold")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool) and abs(limit) < float("inf")
    return {"name": kind, "threshold": limit} if is_number else None


def _to_tools_used(_kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    calls = [{"name": name} for name in _find_names(fields.get("value"), variables)]
    return {"name": "tool_calls_any_order", "expected_tools": calls} if calls else None


def _to_tools_unused(_kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    names = _find_names(fields.get("value"), variables)
    return {"name": "forbidden_tool_calls", "forbidden_tools": names} if names else None


def _find_names(value: Any, variables: Mapping[str, Any]) -> list[str]:
    """Return the names of tools in an assert; none if one is a pattern, or has a limit of its own."""
    if isinstance(value, Mapping):
        value = value.get("name") if value.keys() == {"name"} else None
    names = [_find_text({"value": one}, variables) for one in (value if isinstance(value, list) else [value])]
    plain = [name for name in dict.fromkeys(names) if name and not _GLOB.search(name)]
    return plain if len(plain) == len(set(names)) else []


def _to_called_with(_kind: str, fields: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any] | None:
    value = fields.get("value")
    if not isinstance(value, Mapping) or any(mark in json.dumps(value, default=str) for mark in _TEMPLATE):
        return None
    names = _find_names({"name": value.get("name", value.get("pattern"))}, variables)
    arguments = _find_arguments(value)
    if not names or arguments is None:
        return None
    return {"name": "tool_calls_any_order", "expected_tools": [{"name": names[0], "arguments": arguments}]}


def _find_arguments(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a call with matchers that say the same; None if there are none.

    An argument that has to have its default fails always in promptfoo, which takes it away first.
    """
    given, defaults = value.get("args", value.get("arguments")), value.get("defaults", {})
    listed, mode = value.get("ignore", []), value.get("mode", "partial")
    ignored = [listed] if isinstance(listed, str) else listed
    if not (isinstance(given, dict) and isinstance(defaults, dict) and isinstance(ignored, list)):
        return None
    is_plain = all(isinstance(key, str) and not _GLOB.search(key) for key in ignored)
    if mode not in ("partial", "exact") or defaults.keys() & given.keys() or not is_plain:
        return None
    wanted = {key: one for key, one in given.items() if key not in ignored}
    if mode == "partial":
        return {"includes": {key: _make_partial(one) for key, one in wanted.items()}}
    optional = {key: {"exactly": one} for key, one in defaults.items()} | {key: {"any": True} for key in ignored}
    exact = {key: {"exactly": one} for key, one in wanted.items()}
    return {**exact, **{key: {"optional": one} for key, one in optional.items()}} if optional else {"exactly": wanted}


def _make_partial(value: Any) -> Any:
    """Return an expected value whose objects may have further members, at any depth."""
    if isinstance(value, dict):
        return {"includes": {key: _make_partial(one) for key, one in value.items()}}
    return [_make_partial(one) for one in value] if isinstance(value, list) else value


_OF_TOOLS = ("expected_tools", "forbidden_tools")
"""Fields of a sample that its checks of tools read."""
_GLOB = re.compile(r"[*?]")
_CHECKS: Mapping[str, _Convert] = {
    **dict.fromkeys(("contains", "icontains", "starts-with"), _to_text),
    **dict.fromkeys(("contains-any", "icontains-any", "contains-all", "icontains-all"), _to_contains_several),
    "regex": _to_matches,
    "equals": _to_equals,
    **dict.fromkeys(("is-json", "contains-json"), _to_json),
    **dict.fromkeys(("latency", "cost"), _to_limit),
    "trajectory:tool-used": _to_tools_used,
    "not-trajectory:tool-used": _to_tools_unused,
    "trajectory:tool-args-match": _to_called_with,
}

_JUDGED = ("grade", "llm-rubric", "g-eval", "model-graded-closedqa", "perplexity", "moderation")
_OWN = ("javascript", "python", "fn", "eval", "webhook")
_OF_CELLS = frozenset((*_ANSWERS, *_METRICS, *_CHECKS, *_JUDGED, *_OWN))
"""The asserts that a cell may spell."""


def fill_in(value: Any, variables: Mapping[str, Any]) -> str | None:
    """Return a text with its plain `{{name}}` replaced by variables. None if it needs a template engine or a file."""
    text = value if isinstance(value, str) else str(value)
    filled = substitute(text, variables)
    return None if any(mark in filled for mark in _TEMPLATE) else filled


def substitute(text: str, variables: Mapping[str, Any]) -> str:
    """Return a text with each plain `{{name}}` of a variable replaced, once."""
    return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), text)


def parse_cell_assert(cell: str) -> dict[str, Any]:
    """Return the assert that a cell of the column `__expected` spells; a text without a type has to be equal."""
    typed = _IN_CELL.fullmatch(cell)
    if typed is None or typed[1].removeprefix("not-") not in _OF_CELLS:
        return {"type": "equals", "value": cell}
    value = {} if typed[3] is None else {"value": typed[3].strip()}
    return {"type": typed[1]} | value | ({"threshold": float(typed[2])} if _is_number(typed[2]) else {})


def _is_number(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"\d+(\.\d+)?", text) is not None
