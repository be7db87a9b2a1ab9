"""Expected JSON values, with matchers in place of values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from evalspec.base import patterns
from evalspec.base.json_matching import (
    compute_value_digest,
    equal,
    has_matchers,
    list_bad_matchers,
    list_differences,
    matches,
)

LITERALS = [None, True, False, 0, 1, 1.5, "", "1", "true", [], [1], [True], {}, {"a": 1}, {"a": "1"}, {"a": 1, "b": 2}]


def test_only_the_same_json_value_is_equal():
    for place, one in enumerate(LITERALS):
        assert [equal(one, other) for other in LITERALS] == [place == other for other in range(len(LITERALS))], one
    assert equal(1, 1.0) and equal({"a": 1, "b": 2}, {"b": 2, "a": 1})


@pytest.mark.parametrize(
    "expected, good, bad",
    [
        ({"any": True}, [None, 0, "x", {}], []),
        ({"contains": "ari"}, ["Paris", ["ari", "x"]], ["PARIS", 3, None, ["Paris"]]),
        ({"contains": {"id": 1}}, [[{"id": 1}]], [{"id": 1}, [{"id": 2}], "id"]),
        ({"matches": r"^\d+$"}, ["12"], ["a12", 12, None]),
        ({"near": 3, "tolerance": 0.5}, [3, 3.5, 2.5], [3.6, "3", True, None, 10**400]),
        ({"near": 3, "tolerance": 0.1}, [3.1, 2.9], [3.11]),
        ({"near": 10**400, "tolerance": 0}, [10**400], [3, 1e300]),
        ({"unordered": [1, {"any": True}, 2]}, [[2, 1, "x"], [1, 1, 2]], [[1, 2], [1, 3, 4], {"1": 1}]),
        ({"includes": {"a": 1}}, [{"a": 1}, {"a": 1, "b": 2}], [{"a": 2}, {}, [], None]),
        ({"exactly": {"any": True}}, [{"any": True}], [{"any": 1}, None]),
        ({"a": {"absent": True}, "b": 1}, [{"b": 1}], [{"a": None, "b": 1}]),
        ({"optional": {"near": 3, "tolerance": 1}}, [4, UNSET], [5, None]),
        ({"a": {"optional": 1}, "b": 1}, [{"b": 1}, {"a": 1, "b": 1}], [{"a": 2, "b": 1}, {"a": None, "b": 1}]),
        ({"any": True, "city": "Paris"}, [{"any": True, "city": "Paris"}], [{"city": "Paris"}]),
    ],
)
def test_a_matcher_stands_for_a_value(expected, good, bad):
    assert all(matches(expected, value) for value in good)
    assert not any(matches(expected, value) for value in bad)
    assert list(list_bad_matchers(expected)) == []


def test_each_difference_has_its_place():
    found = list_differences(
        {"a": [1, {"near": 2, "tolerance": 1}], "b": "x", "d": 1}, {"a": [1, 5, 6], "b": 1, "c": 0}
    )
    assert sorted((".".join(map(str, one.path)), one.actual) for one in found if one.path != ("d",)) == [
        ("a.1", 5),
        ("a.2", 6),
        ("b", 1),
        ("c", 0),
    ]


@pytest.mark.parametrize(
    "value, message",
    [
        ({"any": False}, "any has only the value true"),
        ({"x": [{"near": 3}]}, "near needs a tolerance"),
        ({"near": "3", "tolerance": 1}, "near and tolerance need numbers"),
        ({"near": 3, "tolerance": -1}, "near and tolerance need numbers"),
        ({"matches": "("}, "is no regular expression"),
        ({"matches": ""}, "an empty pattern is in every text"),
        ({"contains": ""}, "an empty text is in every text"),
        ({"matches": 3}, "matches needs a regular expression"),
        ({"unordered": {"includes": []}}, "unordered needs a list"),
        ({"includes": {"a": {"absent": "yes"}}}, "absent has only the value true"),
        ({"a": {"regex": "^AF"}}, '"regex" is no matcher; write "matches", or {"exactly": …}'),
        ({"a": [{"contain": "AF"}]}, 'write "contains"'),
        ({"includes": {"a": {"Match": "^AF"}}}, 'write "matches"'),
    ],
)
def test_a_bad_matcher_is_named(value, message):
    assert any(message in said for _, said in list_bad_matchers(value))


@pytest.mark.parametrize(
    "value",
    [
        {"pattern": "^AF"},
        {"includes": {"pattern": "^AF"}},
        {"a": {"exactly": {"regex": "^AF"}}},
        *({"a": {key: 1}} for key in ("year", "content", "company", "options", "include_all")),
        {"a": {"match": 1, "day": 2}},
    ],
)
def test_names_are_no_matchers(value):
    assert not list(list_bad_matchers(value))


def test_a_slow_pattern_is_no_mismatch(monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.01)
    with pytest.raises(patterns.PatternTooSlow, match=r"takes longer than 0.01 s on a text; write one without nested"):
        matches({"matches": "(a|aa)+$"}, "a" * 60 + "b")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_without_matchers_a_match_is_equality(one, other):
    assert not has_matchers(one)
    assert matches(one, other) == equal(one, other) == equal(other, one)
    assert (compute_value_digest(one) == compute_value_digest(other)) == equal(one, other)
    assert matches(one, one) and matches({"exactly": one}, one)


def test_patterns_of_a_comparison_share_one_time_limit(monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.2)
    slow, texts = {"contains": {"matches": "^(a|aa)+$"}}, ["a" * 24 + "b"] * 1_000
    with patterns.sharing_limit(), pytest.raises(patterns.PatternTooSlow):
        matches(slow, texts)
    with patterns.sharing_limit():
        assert not matches(slow, texts[:1])
    assert patterns.has_pattern("b$", texts[0])
