"""What is taken for a verdict: extraction from text, and the checks that ragas does not make."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.judge.extraction import UnusableVerdict, extract_object
from evalspec.judge.verdicts import find_violation, parse_input

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PLAIN = st.text().filter(lambda text: "{" not in text)


@given(st.dictionaries(st.text(), JSON_VALUES), PLAIN, PLAIN)
def test_the_only_object_is_found_whatever_stands_around_it(value, before, after):
    assert extract_object(f"{before}{json.dumps(value)}{after}") == value


@pytest.mark.parametrize("text", ["", " \n", "none", "[1]", '{"a": 1', '{"a": 1} {"a": 0}', "{" * 20_000, "[" * 20_000])
def test_none_or_several_are_refused(text):
    with pytest.raises(UnusableVerdict):
        extract_object(text)


@given(st.integers(0, 5), st.lists(st.integers(-2, 3), max_size=5))
def test_statement_verdicts_match_the_statements_and_are_0_or_1(sent, verdicts):
    answer = {"statements": [{"statement": "s", "reason": "r", "verdict": verdict} for verdict in verdicts]}
    given_input = {"context": "c", "statements": ["s"] * sent}
    usable = len(verdicts) == sent and set(verdicts) <= {0, 1}
    for kind in ("NLIStatementOutput", "StatementFaithfulnessOutput"):
        assert (find_violation(kind, given_input, answer) is None) is usable


SORTED = {"TP": ["a"], "FP": ["b"], "FN": ["z"]}


@pytest.mark.parametrize(
    ("kind", "answer", "violation"),
    [
        ("StatementGeneratorOutput", {"statements": ["a", " "]}, "blank"),
        ("StatementGeneratorOutput", {"statements": []}, None),
        ("ClaimDecompositionOutput", {"claims": [""]}, "blank"),
        ("ContextRecallOutput", {"classifications": []}, "no statement"),
        ("ContextRecallOutput", {"classifications": [{"attributed": 3}]}, "attributed is 3"),
        ("ContextPrecisionOutput", {"verdict": -1}, "verdict is -1"),
        ("ContextPrecisionOutput", {"verdict": 0}, None),
        ("AnswerRelevanceOutput", {"question": "", "noncommittal": 0}, "question is empty"),
        ("AnswerRelevanceOutput", {"question": "", "noncommittal": 1}, None),
        ("AnswerRelevanceOutput", {"question": "q", "noncommittal": 2}, "noncommittal is 2"),
        ("ClassificationWithReason", SORTED, None),
        ("ClassificationWithReason", SORTED | {"FP": []}, "1 statements in TP and FP"),
        ("ClassificationWithReason", SORTED | {"FN": ["x", "y", "z"]}, "3 statements in FN"),
    ],
)
def test_violations(kind, answer, violation):
    found = find_violation(kind, {"answer": ["a", "b"], "ground_truth": ["y", "z"]}, answer)
    assert (found is None) if violation is None else (violation in found)


def test_a_response_model_without_a_check_is_not_let_through():
    with pytest.raises(KeyError):
        find_violation("SomethingNew", {}, {})


@given(st.dictionaries(st.text(), st.text()))
def test_the_input_is_read_back_from_a_prompt_even_if_it_holds_one(value):
    mark = "Now perform the same with the following input\ninput: "
    value = value | {"answer": f"\n{mark}{{}}\nOutput: "}
    assert parse_input(f"Instruction\n{mark}{{}}\n-----\n\n{mark}{json.dumps(value, indent=4)}\nOutput: ") == value
