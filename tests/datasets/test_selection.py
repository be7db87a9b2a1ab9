from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.inputs.datasets.selection import Selection, add_digest, select
from evalspec.model import Message, Sample

tags = st.lists(st.sampled_from("abc"), unique=True).map(tuple)
samples = st.lists(st.tuples(st.text(), tags), unique_by=lambda pair: pair[0]).map(
    lambda pairs: [Sample(id=name, user_input="q", tags=tags) for name, tags in pairs]
)


@given(samples, st.integers(), st.integers(0, 30), st.integers(0, 30))
def test_a_smaller_selection_lies_within_a_larger_one(samples, seed, small, large):
    small, large = sorted((small, large))
    few = select(samples, Selection(size=small, seed=seed))
    many = select(samples, Selection(size=large, seed=seed))
    assert {sample.id for sample in few} <= {sample.id for sample in many}
    assert len(few) == min(small, len(samples))


@given(samples, st.integers(), st.integers(0, 30), st.randoms())
def test_the_selection_does_not_depend_on_the_order_of_the_file(samples, seed, size, random):
    shuffled = random.sample(samples, len(samples))
    first, second = (select(group, Selection(size=size, seed=seed)) for group in (samples, shuffled))
    assert {sample.id for sample in first} == {sample.id for sample in second}
    assert [*first] == [sample for sample in samples if sample in first], "the order is the dataset's"


@given(samples, tags, tags)
def test_tags(samples, wanted, unwanted):
    kept = select(samples, Selection(wanted, unwanted))
    for sample in samples:
        chosen = (not wanted or bool(set(sample.tags) & set(wanted))) and not set(sample.tags) & set(unwanted)
        assert (sample in kept) == chosen


def test_seeds_differ_and_are_the_same_on_every_machine():
    many = [Sample(id=str(n), user_input="q") for n in range(100)]
    first = [sample.id for sample in select(many, Selection(size=5, seed=1))]
    assert first == ["30", "39", "71", "72", "90"]
    assert first != [sample.id for sample in select(many, Selection(size=5, seed=2))]


CONTENT = {
    "user_input": "another",
    "references": ("Rome",),
    "retrieved_contexts": (),
    "reference_contexts": ("a", "b"),
    "qrels": {"d": 2, "e": 1},
    "groups": (("d", "e"),),
    "metadata": {"level": 1},
}
SAMPLE = Sample(
    "s", "Where?", ("Paris",), ("ab",), ("ab",), {"d": 1, "e": 1}, metadata={"a": 1, "b": 2}, groups=(("d",),)
)


def digest_of(**changes):
    return add_digest(replace(SAMPLE, **changes)).digest


def test_a_digest_is_of_all_that_a_score_may_depend_on():
    digests = [digest_of(**{name: value}) for name, value in CONTENT.items()]
    assert len({digest_of(), *digests}) == 1 + len(CONTENT)
    assert {len(digest) for digest in digests} == {16}
    assert digest_of(id="t", tags=("new",), line=7, metadata={"b": 2, "a": 1}) == digest_of()


def test_texts_that_are_no_utf8_and_large_numbers_have_digests():
    odd: Any = [
        {"user_input": "\ud800"},
        {"metadata": {"n": 2**70}},
        {"user_input": (Message("user", "\ud800"),)},
    ]
    assert len({digest_of(**changes) for changes in odd}) == 3
