"""The summary of a dataset that is read once, compared with one of all samples at once."""

from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.model import Check, ExpectedCall, Need, Sample, Turn
from evalspec.runs.planning.survey import PLACES_SHOWN, Survey, has

CALLS = (ExpectedCall("book"),)
CHECKS = (Check("contains", {"value": "May"}),)
turn = st.builds(
    Turn,
    st.just("q"),
    references=st.sampled_from([(), ("a",)]),
    expected_tools=st.sampled_from([None, CALLS]),
    checks=st.sampled_from([(), CHECKS]),
)
samples = st.builds(
    Sample,
    st.just("s"),
    st.just("q"),
    references=st.sampled_from([(), ("a",)]),
    retrieved_contexts=st.sampled_from([None, (), ("c",)]),
    reference_contexts=st.sampled_from([None, (), ("c",)]),
    qrels=st.sampled_from([None, {}, {"d": 0}, {"d": 1}, {"d": 1, "e": 3}, {"d": 2}]),
    tags=st.sampled_from([(), ("x",), ("y", "z")]),
    metadata=st.sampled_from([{}, {"k": 1}, {"k": 2, "l": 1}]),
    expected_tools=st.sampled_from([None, None, (), CALLS]),
    checks=st.sampled_from([(), (), CHECKS]),
    turns=st.just(()) | st.lists(turn, max_size=2).map(tuple),
)
NEEDS = (Need.EXPECTED, Need.CONTEXT, Need.REFERENCE_CONTEXTS, Need.RELEVANT, Need.EXPECTED_TOOLS, Need.CHECKS)


def lacks(sample, need):
    """Whether neither a sample nor a turn of it has what a metric needs."""
    parts = [
        sample,
        *(Sample("", "", one.references, expected_tools=one.expected_tools, checks=one.checks) for one in sample.turns),
    ]
    return not any(has(part, need) for part in parts)


@given(
    st.lists(samples, max_size=3).flatmap(
        lambda few: st.lists(st.sampled_from(few), max_size=40) if few else st.just([])
    )
)
@example([Sample("s", "q", qrels={}), Sample("s", "q", qrels={"d": 0})])
@example([Sample("s", "q", qrels={"d": 2}, tags=("x",)), Sample("s", "q", qrels={"d": 1}, tags=("y",))])
def test_a_survey_says_what_all_samples_say(given):
    given = [
        Sample(**{name: getattr(one, name) for name in one.__struct_fields__} | {"line": n})
        for n, one in enumerate(given)
    ]
    survey = Survey(frozenset({"x", "y", "absent"}))
    assert [*survey.watch(given)] == given
    assert survey.count == len(given)
    for need in NEEDS:
        lacking = [sample for sample in given if lacks(sample, need)]
        assert survey.count_lacking(need) == len(lacking)
        assert survey.first[need] == lacking[: PLACES_SHOWN + 1]
    best = [max(sample.qrels.values(), default=0) for sample in given if sample.qrels is not None]
    assert survey.lowest_best == min(best, default=None)
    assert survey.has_judgements == any(sample.qrels for sample in given)
    assert survey.tags == {tag for sample in given for tag in sample.tags}
    assert survey.keys == {key for sample in given for key in sample.metadata}
    assert survey.found == survey.tags & {"x", "y"}
