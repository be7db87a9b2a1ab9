"""Parameters of metrics: every value has one text, which is read back."""

import re
from math import inf, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.inputs.manifest.metric_spec import MetricSpec, parse_metric_spec
from evalspec.scoring.metrics.base import MetricDefinition
from evalspec.scoring.metrics.columns import canonical_spec, find_column, name_column, read_values
from evalspec.scoring.metrics.parameters import Parameter

PARAMETERS = (
    Parameter("style", str, ("strict", "lax"), "lax"),
    Parameter("text", str, (), ""),
    Parameter("share", float, (), 0.5),
    Parameter("top", int, (), 3),
    Parameter("quiet", bool, (), False),
    Parameter("level", int, (1, 2), 1),
    Parameter("values", list, (), ["a"]),
    Parameter("at", float, (), None),
)
METRIC = MetricDefinition("m", "", "", parameters=PARAMETERS, takes_cutoff=True, bounds=(0.0, 10.0))
OWN = {"m": METRIC}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "style": st.sampled_from(["strict", "lax"]),
            "text": st.text(),
            "share": st.floats(allow_nan=False, allow_infinity=False),
            "top": st.integers(),
            "quiet": st.booleans(),
            "level": st.sampled_from([1, 2]),
            "range": st.just([0, 0.5]),
            "values": st.lists(st.text(), min_size=1, max_size=2),
            "at": st.floats(allow_nan=False, allow_infinity=False),
        },
    ),
    st.none() | st.integers(1, 99),
)
@example({"style": "strict", "at": -0.0}, None)
def test_a_column_says_all_values_and_only_those(written, cutoff):
    values = read_values(METRIC, MetricSpec("m"), written)
    column = str(name_column(METRIC, MetricSpec("m", cutoff), values))
    assert read_values(METRIC, parse_metric_spec(column)) == values
    assert str(canonical_spec(parse_metric_spec(column), OWN)) == column
    assert all(values.get(one.name, one.default) == written.get(one.name, one.default) for one in PARAMETERS)


def test_the_order_and_written_defaults_do_not_matter():
    for written in ("m(top=4, style=strict)", "m( style = strict,top=4 )", "m(quiet=false, top=4, style=strict)"):
        assert str(canonical_spec(parse_metric_spec(written), OWN)) == "m(style=strict, top=4)"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"style": "Strict"}, "'Strict' is no value of style; write strict | lax"),
        ({"style": ["lax"]}, "['lax'] is no value of style"),
        ({"top": True}, "True is no value of top; write whole number"),
        ({"top": 3.0}, "3.0 is no value of top"),
        ({"level": True}, "True is no value of level; write 1 | 2"),
        ({"share": nan}, "nan is no value of share; write number"),
        ({"share": inf}, "inf is no value of share"),
        ({"quiet": 0}, "0 is no value of quiet; write true or false"),
        ({"text": None}, "None is no value of text"),
        ({"values": []}, "[] is no value of values; write list of texts"),
        ({"values": ["a", 1]}, "['a', 1] is no value of values"),
        ({"values": "a"}, "'a' is no value of values"),
        ({"range": [1, 1]}, "range must be"),
        ({"styl": "lax"}, "m has no parameter 'styl'; did you mean 'style'?"),
    ],
)
def test_other_values_are_refused(written, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_values(METRIC, MetricSpec("m"), written)


@given(st.dictionaries(st.text(), st.text() | st.integers(), max_size=2) | st.text(min_size=1).map("$file:{}".format))
def test_a_column_has_a_mark_of_a_json_object_or_its_file(schema):
    metric = MetricDefinition("m", "", "", parameters=(Parameter("schema", dict, is_file=True),))
    values = read_values(metric, MetricSpec("m"), {"schema": schema})
    column = str(name_column(metric, MetricSpec("m"), values))
    assert str(canonical_spec(parse_metric_spec(column), {"m": metric})) == column
    assert column.startswith("m(schema=json-") == isinstance(schema, dict)


def test_a_value_is_set_once():
    with pytest.raises(ValueError, match="the name 'm' sets top already"):
        read_values(METRIC, parse_metric_spec("m(top=4)"), {"top": 4})


def test_a_required_parameter_is_asked_for():
    definition = MetricDefinition("m", "", "", parameters=(Parameter("style", str, ("strict", "lax")),))
    with pytest.raises(ValueError, match=r"m needs style; add it: strict \\| lax"):
        read_values(definition, MetricSpec("m"))


@pytest.mark.parametrize(
    "text", ["m(", "m()x", "m(a)", "m(a=)", "m(a=1,)", "m(a=1 b=2)", "m(a=1, a=1)", "(a=1)", "m n(a=1)"]
)
def test_other_text_is_no_name(text):
    with pytest.raises(ValueError, match=re.escape(text)):
        parse_metric_spec(text)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("m()", "m"),
        ("m(top=3)", "m"),
        ("M(top=4)", "m(top=4)"),
        ("m(top=5)", None),
        ("other", "other(a=1)"),
        ("other(a=1)", "other(a=1)"),
        ("Recall@5", "Recall@5"),
        ("recall_5", "Recall@5"),
        ("Recall", None),
        ("p95 of another system", "p95 of another system"),
    ],
)
def test_a_name_means_a_column(name, found):
    columns = ["m", "m(top=4)", "other(a=1)", "Recall@5", "p95 of another system"]
    assert find_column(name, columns, OWN) == found
