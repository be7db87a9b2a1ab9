"""Conditions on samples, and draws that keep the shares of strata."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.inputs.datasets.filters import find_stratum, parse_condition
from evalspec.inputs.datasets.selection import Selection, parse_selection, select
from evalspec.model import Sample

SAMPLES = [
    Sample("a", "q", metadata={"level": 1, "domain": "tax", "provenance": {"licence": "CC0"}}, tags=("smoke", "eu")),
    Sample("b", "q", metadata={"level": 2.0, "domain": "law", "flag": True, "provenance.licence": "MIT"}),
    Sample("c", "q", metadata={"domain": "a=b", "flag": None, "people": ["ada", "ben"]}, tags=("eu",)),
]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("domain=tax", "a"),
        ("domain != tax", "bc"),
        ("domain in tax, law", "ab"),
        ("domain=a=b", "c"),
        ("level=1", "a"),
        ("level=2", "b"),
        ("level!=1", "bc"),
        ("flag=true", "b"),
        ("flag=null", "c"),
        ("people=ben", "c"),
        ("people!=ben", "ab"),
        ("tags=eu", "ac"),
        ("tags!=smoke", "bc"),
        ("id in a,c,z", "ac"),
        ("provenance.licence=CC0", "a"),
        ("provenance.licence=MIT", "b"),
        ("domain=nothing", ""),
    ],
)
def test_conditions(condition, expected):
    kept = select(SAMPLES, parse_selection(where=[condition]))
    assert "".join(sample.id for sample in kept) == expected


def test_several_conditions_all_apply():
    kept = select(SAMPLES, parse_selection(where=["tags=eu", "level!=1"]))
    assert [sample.id for sample in kept] == ["c"]


@pytest.mark.parametrize("text", ["", "domain", "=x", "domain in ", "domain in ,", "in a,b"])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InvalidInput, match="--where"):
        parse_condition(text)


def test_a_key_that_no_sample_has_is_probably_misspelled():
    selection = parse_selection(where=["domian=tax", "id=a"], size=1, stratify=["levle"])
    with pytest.raises(InvalidInput, match=r"no sample has the key 'domian'\. did you mean 'domain'"):
        selection.check_keys(lambda: SAMPLES)
    nested = parse_selection(where=["provenance.license=x"])
    with pytest.raises(InvalidInput, match=r"did you mean 'provenance\.licence'"):
        nested.check_keys(lambda: SAMPLES)
    parse_selection(where=["flag=x", "tags=none", "id=none"]).check_keys(lambda: SAMPLES)


def test_strata_need_a_size():
    with pytest.raises(InvalidInput, match="--sample-size"):
        parse_selection(stratify=["domain"])


values = st.fixed_dictionaries({}, optional={"domain": st.sampled_from("xyz"), "hard": st.booleans()})
samples = st.lists(st.tuples(st.text(), values), unique_by=lambda pair: pair[0], max_size=40).map(
    lambda pairs: [Sample(id=name, user_input="q", metadata=metadata) for name, metadata in pairs]
)
KEYS = ("domain", "hard")


def draw(group, size, seed):
    return {sample.id for sample in select(group, Selection(size=size, seed=seed, stratify=KEYS))}


@given(samples, st.integers(1, 45), st.integers())
def test_each_stratum_has_its_share(group, size, seed):
    drawn = draw(group, size, seed)
    assert len(drawn) == min(size, len(group))
    sizes = Counter(find_stratum(sample, KEYS) for sample in group)
    counts = Counter(find_stratum(sample, KEYS) for sample in group if sample.id in drawn)
    for stratum, count in sizes.items():
        assert abs(counts[stratum] - Fraction(len(drawn) * count, len(group))) < 1


@given(samples, st.integers(1, 45), st.integers(1, 45), st.integers(), st.randoms())
def test_draws_are_nested_and_do_not_depend_on_the_order_of_the_file(group, one, other, seed, random):
    shuffled = random.sample(group, len(group))
    assert draw(shuffled, min(one, other), seed) <= draw(group, max(one, other), seed)


@given(samples, st.integers(1, 45), st.integers())
def test_a_key_with_one_value_changes_no_draw(group, size, seed):
    plain = [sample.id for sample in select(group, Selection(size=size, seed=seed))]
    assert [one.id for one in select(group, Selection(size=size, seed=seed, stratify=("none",)))] == plain
