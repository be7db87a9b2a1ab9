"""JSON Schemas of users: patterns have a time limit in every keyword, and all else is as jsonschema has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalspec.base import patterns
from evalspec.base.json_schema import build_matcher

SLOW = "(a|aa)+$"
NAME = "a" * 60 + "b"


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {SLOW: {}}},
        {"patternProperties": {SLOW: {}}, "additionalProperties": False},
        {"not": {"patternProperties": {SLOW: {}}, "unevaluatedProperties": False}},
        {"allOf": [{"$ref": "#/$defs/a"}], "unevaluatedProperties": False,
         "$defs": {"a": {"patternProperties": {SLOW: True}}}},
        {"propertyNames": {"pattern": SLOW}},
    ],
)  # fmt: skip
def test_no_pattern_of_a_schema_takes_longer_than_the_limit(schema, monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.01)
    with pytest.raises(patterns.PatternTooSlow, match=r"takes longer than 0.01 s on a text; write one without nested"):
        build_matcher(schema)({NAME: 1})


NAMES = ["a", "b", "ab"]
leaves = st.sampled_from([True, False, {}, {"type": "integer"}, {"const": 1}])
members = st.dictionaries(st.sampled_from(NAMES), leaves, max_size=2)


def extend(inner):
    keywords = {
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "c$"]), inner, max_size=2),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": st.just("#/$defs/one"),
        "required": st.just(["a"]),
    }
    return st.fixed_dictionaries({}, optional=keywords)


schemas = st.recursive(leaves, extend, max_leaves=8).filter(lambda one: isinstance(one, dict))
definitions = st.fixed_dictionaries({}, optional={"properties": members, "patternProperties": members})


@given(schemas, definitions, st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, "x"])))
def test_a_value_is_valid_exactly_if_jsonschema_says_so(schema, one, value):
    whole = schema | {"$defs": {"one": one}}
    assert (build_matcher(whole)(value) is None) == Draft202012Validator(whole).is_valid(value)
