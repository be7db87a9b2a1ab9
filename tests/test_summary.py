"""Slices: their names in reports and in limits mean the same samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.model import SampleResult, SampleStatus
from evalspec.verdict.summary import group_by_slice, in_slice


def sample(number, metadata, tags=()) -> SampleResult:
    return SampleResult(id=f"s{number}", status=SampleStatus.ANSWERED, tags=tuple(tags), metadata=metadata)


@pytest.mark.parametrize(
    ("value", "names", "others"),
    [
        (True, ["true", "True", "TRUE"], ["1", "yes", "tru", ""]),
        (False, ["false", "False"], ["0", "true"]),
        (None, ["null", "None"], ["", "none at all"]),
        (1, ["1", "1.0"], ["true", "01", "10"]),
        (1.0, ["1", "1.0"], ["True"]),
        (2.5, ["2.5"], ["2"]),
        (10**400, [str(10**400), f"{10**400}.0"], ["inf", "1e+400"]),
        (float("inf"), ["inf"], ["Infinity"]),
        ("1.0", ["1.0"], ["1"]),
        ("true", ["true"], ["True"]),
        ("a=b", ["a=b"], ["a"]),
    ],
)
def test_values_are_named_as_in_json_and_by_other_usual_spellings(value, names, others):
    one = sample(0, {"key": value})
    assert [name for name in names if not in_slice(one, f"key={name}")] == []
    assert [name for name in others if in_slice(one, f"key={name}")] == []
    assert list(group_by_slice([one], ["key"])) == [f"key={names[0]}"]


VALUES = st.sampled_from(
    [True, False, None, 0, 1, 1.0, 2.5, "1", "1.0", "true", "True", "None", "null", "x", ["x"], ""]
)
SAMPLES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["flag", "a", "a=b"]), VALUES),
        st.lists(st.sampled_from(["hard", "flag=true", "a=1"]), unique=True),
    ),
    max_size=8,
)


@given(SAMPLES, st.none() | st.lists(st.sampled_from(["flag", "a", "a=b", "tags"]), unique=True))
def test_a_slice_of_a_report_holds_what_a_limit_on_its_name_is_about(given_samples, keys):
    samples = [sample(number, *given) for number, given in enumerate(given_samples)]
    for name, members in group_by_slice(samples, keys).items():
        assert members == [one for one in samples if in_slice(one, name)]
        assert members
