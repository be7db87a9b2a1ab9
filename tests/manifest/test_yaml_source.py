"""Long texts are read by libyaml: they give the same values and lines, and the same messages."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.inputs.manifest.yaml_source import parse_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
VALUES = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=9,
)
PADDING = f"\n# {'…' * 100_000}\n"


@given(VALUES, st.sampled_from([None, False, True]))
def test_long_texts_are_read_as_short_ones(value, style):
    text = yaml.safe_dump(value, default_flow_style=style, allow_unicode=True)
    short, long = parse_yaml(text, "f"), parse_yaml(text + PADDING, "f")
    assert (repr(long.data), long.lines) == (repr(short.data), short.lines)


@pytest.mark.parametrize(
    "scalar", ["017", "1_000", "+3", "0x1f", "12e3", "08", "-0", "190:20:30", "1.5", "~", "yes", "٣"]
)
@pytest.mark.parametrize("padding", ["", PADDING])
def test_numbers_are_those_of_pyyaml(scalar, padding):
    assert parse_yaml(scalar + padding, "f").data == yaml.safe_load(scalar)


@pytest.mark.parametrize("text", ["a: [1\nb: 2", "a: 1\na: 2", "a: &x [*x]", "!!python/object:os.x {}", "--- a\n--- b"])
def test_messages_do_not_depend_on_the_length(text):
    said = []
    for padding in ("", PADDING):
        with pytest.raises(InvalidInput) as caught:
            parse_yaml(text + padding, "f")
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 50_000 + "]" * 50_000, "the YAML is nested too deeply"),
        ("a: " + "[" * 99_000, "nested too deeply|not valid YAML"),
        (f"[{'3,' * 60_000}]", "it has more than 50,000 values"),
        ("&a [x, x]\n" + PADDING, None),
        (f"- &a [{'x,' * 300}]\n- &b [{'*a,' * 300}]\n- [{'*b,' * 300}]{PADDING}", "aliases expand to 27,"),
    ],
)
def test_what_would_take_too_long_is_refused(text, said):
    if said is None:
        assert parse_yaml(text, "f").data == ["x", "x"]
        return
    with pytest.raises(InvalidInput, match=said):
        parse_yaml(text, "f")


@pytest.mark.parametrize("padding", ["", PADDING])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{question: How long is the trial?}", {"question": "How long is the trial?"}),
        ("[Why? No, a?b, c]", ["Why? No", "a?b", "c"]),
        ("a: {b: [who?, {c: d?\n  e?}]}", {"a": {"b": ["who?", {"c": "d? e?"}]}}),
        ("{? key : value, other: 1}", {"key": "value", "other": 1}),
    ],
)
def test_a_question_mark_within_a_text_in_brackets_is_part_of_it(text, value, padding):
    assert parse_yaml(text + padding, "f").data == value
