"""Checks of answers that are JSON: valid_json, json_schema and json_fields.

JSON is read as RFC 8259 has it, in UTF-8: NaN, Infinity and duplicate keys are errors. `within` says where it may be.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from evalspec.base.errors import InvalidInput, MetricError, Problem
from evalspec.base.json_matching import find_matcher, list_bad_matchers, matches
from evalspec.base.json_schema import Place, build_matcher, find_schema_problems
from evalspec.base.jsonl import MAX_DEPTH, parse_json_prefix, parse_shallow_json
from evalspec.base.patterns import sharing_limit
from evalspec.base.trust import Act, explain
from evalspec.model import Cause, Exchange, Need, Sample, Score
from evalspec.scoring.metrics.base import LONG_TEXTS, BuildContext, MetricDefinition, Scorer
from evalspec.scoring.metrics.functions import metric, read_needed, refuse_long
from evalspec.scoring.metrics.parameters import Parameter
from evalspec.scoring.metrics.text import shorten

Within = Literal["answer", "fence", "text"]

_WITHIN = Parameter("within", str, ("answer", "fence", "text"), "answer")
_FENCE = "```"
_SHOWN = 3
_WIDER: Mapping[str, tuple[str, ...]] = {"answer": ("fence", "text"), "fence": ("text",), "text": ()}


def _find_json(answer: str, within: str) -> list[Any]:
    """Return the JSON of an answer: all of it, or of a Markdown fence around all of it, or each object in its text.

    Raises:
        ValueError: there is none.
        RecursionError: it is nested too deeply.
    """
    if within == "text":
        found = list(_list_values(answer))
        if not found:
            raise ValueError("it has no JSON object")
        return found
    return [parse_shallow_json(_unfence(answer) if within == "fence" else answer)]


def _unfence(answer: str) -> str:
    """Return what is within a fence around the whole answer; without one, the answer."""
    text = answer.strip()
    language, _, inside = text.removeprefix(_FENCE).removesuffix(_FENCE).partition("\n")
    is_fenced = text.startswith(_FENCE) and text.endswith(_FENCE) and language.strip().casefold() in ("", "json")
    return inside if is_fenced else answer


def _list_values(text: str) -> Iterator[Any]:
    """Yield the JSON objects in a text, without those within them."""
    place = text.find("{")
    while place >= 0:
        end = place + 1
        try:
            value, end = parse_json_prefix(text, place)
            yield value
        except ValueError:
            pass
        place = text.find("{", end)


def _judge(exchange: Exchange, within: str, judge: Callable[[list[Any]], Score]) -> Score:
    try:
        values = _find_json(exchange.response, within)
    except RecursionError:
        return Score.failed(f"the JSON is nested more than {MAX_DEPTH} levels deep", Cause.REPLY)
    except ValueError as error:
        return Score.scored(0, f"no valid JSON: {error}{_suggest(exchange.response, within)}; {exchange.answered}")
    return judge(values)


def _suggest(answer: str, within: str) -> str:
    """Return which value of `within` would find JSON in an answer; empty if none would."""
    for wider in _WIDER[within]:
        with suppress(ValueError, RecursionError):
            _find_json(answer, wider)
            return f", but with within: {wider}"
    return ""


@metric(parameters=(_WITHIN,), is_binary=True, reads_at_most=LONG_TEXTS)
def valid_json(exchange: Exchange, *, within: Within = "answer") -> Score:
    """1 if the answer is JSON. A Markdown fence around it counts only with `within: fence`."""
    return _judge(exchange, within, lambda _: Score.scored(1))


def _explain_schema(schema: Mapping[str, Any]) -> str | None:
    found = next(iter(find_schema_problems(schema)), None)
    return _say(*found) if found else None


def _name(place: Place) -> str:
    from evalspec.inputs.manifest.yaml_source import render_path

    return render_path(place)


def _say(place: Place, message: str) -> str:
    return ": ".join(filter(None, (_name(place), message)))


def _build_json_schema(context: BuildContext) -> Scorer:
    """Return the scorer of `json_schema`.

    Raises:
        InvalidInput: the file with the schema cannot be read, or has none.
    """
    given: Any = context.parameters["schema"]
    schema = _read_schema(context.folder, given) if isinstance(given, str) else given
    find_mismatch, within = build_matcher(schema), str(context.parameters.get("within", "answer"))

    def judge(values: list[Any]) -> Score:
        mismatches = [find_mismatch(value) for value in values]
        first = mismatches[0]
        if first is None or None in mismatches:
            return Score.scored(1)
        return Score.scored(0, _say(*first))

    def score(exchange: Exchange) -> Score:
        if exchange.reply is None:
            raise MetricError("the agent gave no reply")
        return refuse_long(JSON_SCHEMA, exchange) or _judge(exchange, within, judge)

    return score


def _read_schema(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    refused = explain(Act.READ_FILE, str(path))
    if refused is not None:
        raise InvalidInput(*refused)
    try:
        schema = parse_shallow_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"the schema {name} cannot be read: {error.strerror}", "check the path") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(Problem(f"it is not JSON: {error}", file=name)) from error
    if not isinstance(schema, dict):
        raise InvalidInput(Problem("it is no JSON Schema", 'write an object such as {"type": "object"}', name))
    found = find_schema_problems(schema)
    if found:
        raise InvalidInput([Problem(message, file=name, field=_name(place)) for place, message in found])
    return schema


JSON_SCHEMA = MetricDefinition(
    name="json_schema",
    summary="1 if the answer is JSON that is valid by a JSON Schema (draft 2020-12).",
    engine="evalspec",
    build=_build_json_schema,
    parameters=(Parameter("schema", dict, is_file=True, explain=_explain_schema), _WITHIN),
    is_binary=True,
    reads_at_most=LONG_TEXTS,
    imports=("jsonschema",),
)


def explain_no_fields(sample: Sample) -> str | None:
    """Return why json_fields cannot compare with the expected answers of a sample, and a fix."""
    for text in sample.references:
        try:
            value = parse_shallow_json(text)
        except (ValueError, RecursionError) as error:
            return f"json_fields needs JSON, and '{shorten(text)}' is none: {error}; write JSON as text"
        bad = next(list_bad_matchers(value), None)
        if bad is not None:
            return _say(*bad)
    return None


@metric(needs={Need.EXPECTED}, parameters=(_WITHIN,), reads_at_most=LONG_TEXTS, explain_expected=explain_no_fields)
def json_fields(exchange: Exchange, *, within: Within = "answer") -> Score:
    """Share of the fields of the expected JSON that are right in the answer's; others do not count."""
    references, problem = read_needed(exchange, Need.EXPECTED), explain_no_fields(exchange.sample)
    if problem is not None:
        return Score.failed(problem, Cause.DATASET)
    expected = [parse_shallow_json(text) for text in references]
    return _judge(exchange, within, lambda found: _score_best([(one, value) for one in expected for value in found]))


def _score_best(pairs: list[tuple[Any, Any]]) -> Score:
    """Return the best score of pairs of an expected and an actual value."""
    with sharing_limit():
        compared = [list(_compare(*pair)) for pair in pairs]
    fields = max(compared, key=lambda one: sum(is_right for _, is_right in one) / len(one))
    wrong = [_name(path) or "the value" for path, is_right in fields if not is_right]
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    evidence = {"fields": [{"text": _name(path), "verdict": int(is_right)} for path, is_right in fields]}
    reason = f"wrong: {', '.join(wrong[:_SHOWN])}{more}" if wrong else None
    return Score.scored(1 - len(wrong) / len(fields), reason, evidence)


def _compare(expected: Any, actual: Any, path: Place = ()) -> Iterator[tuple[Place, bool]]:
    """Yield each field of the expected value, and whether it is right. A matcher is one field, except `includes`."""
    kind = find_matcher(expected)
    members = expected["includes"] if kind == "includes" else expected if kind is None else None
    if isinstance(members, dict) and members:
        for key, value in members.items():
            yield from _compare(value, actual.get(key, UNSET) if isinstance(actual, dict) else UNSET, (*path, key))
    elif isinstance(members, list) and members:
        items = actual if isinstance(actual, list) else []
        for index, value in enumerate(members):
            yield from _compare(value, items[index] if index < len(items) else UNSET, (*path, index))
    else:
        yield path, matches(expected, actual)
