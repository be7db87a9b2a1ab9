"""Rubrics: metrics that the manifest defines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.manifest.metric_schema import MetricEntry
from evalspec.metrics.rubric import check_rubric, define_rubric
from evalspec.model import Direction, Need, ScoreStatus
from metrics.judged_scoring import exchange, score

TONE = {"name": "tone", "rubric": "Is {response} polite?", "labels": {"good": 1, "fair": 0.5, "bad": -1}}


def rubric(text: str, **more) -> dict:
    return TONE | {"rubric": text} | more


def test_the_label_chosen_becomes_its_number(judge):
    good, bad = score(judge, TONE, exchange("Gladly."), exchange("[grade: bad] {response} {0}"))
    assert (good.value, good.reason, good.evidence) == (
        1.0,
        "good: by the script",
        {"label": "good", "reason": "by the script"},
    )
    assert bad.value == -1.0
    assert "Is [grade: bad] {response} {0} polite?" in [request.prompt for request in judge.chats]


def test_a_label_that_was_not_offered_is_no_score(judge):
    judge.script = ["out_of_range"]
    [got] = score(judge, TONE, exchange())
    assert got.status is ScoreStatus.FAILED
    assert "'good', 'fair' or 'bad'" in got.reason


def test_each_placeholder_has_its_text(judge):
    text = "{{}} Q {input} A {response} E {expected} C {contexts}"
    score(judge, rubric(text), exchange("a {x}", contexts=("one", "two"), user_input="q", references=("e", "f")))
    assert judge.chats[-1].prompt == "{} Q q A a {x} E e C [1] one\n[2] two"
    score(judge, rubric("{contexts}"), exchange(contexts=()))
    assert judge.chats[-1].prompt == "(nothing was retrieved)"


def test_a_rubric_without_placeholders_gets_input_and_response(judge):
    score(judge, rubric("Is it polite? Say {{good}}."), exchange("a", user_input="q"))
    expected = "Is it polite? Say {good}.\n\n<message>\nq\n</message>\n\n<response>\na\n</response>"
    assert judge.chats[-1].prompt == expected


def test_what_the_sample_lacks_is_a_failure_not_a_blank(judge):
    before = len(judge.chats)
    [no_answer] = score(judge, rubric("{expected}"), exchange(references=()))
    [no_contexts] = score(judge, rubric("{contexts}"), exchange(contexts=None))
    assert no_answer.status is no_contexts.status is ScoreStatus.FAILED
    assert len(judge.chats) == before


def test_needs_bounds_and_direction_follow_from_the_entry():
    definition = define_rubric(MetricEntry.model_validate(rubric("{expected} {contexts}", direction="lower")))
    assert definition.needs == {Need.JUDGE, Need.EXPECTED, Need.CONTEXT}
    assert (definition.bounds, definition.direction) == ((-1.0, 1.0), Direction.LOWER)
    plain = define_rubric(MetricEntry.model_validate(rubric("polite?")))
    assert (plain.needs, plain.direction, plain.judge_calls(5)) == ({Need.JUDGE}, Direction.HIGHER, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Is {respone} polite?", "'{respone}' in the rubric; did you mean 'response'?"),
        ('Answer {"value": 1}', "write {{ and }} for literal braces"),
        ("Answer {", "unbalanced braces"),
        ("Answer }", "write {{ and }} for literal braces"),
        ("{}", "known: input, response, expected, contexts"),
        ("{response.__class__}", "did you mean 'response'?"),
        ("{response!r}", "use {response}"),
        ("{response:>{width}}", "use {response}"),
    ],
)
def test_problems_are_found_before_a_judge_is_asked(text, problem):
    [found] = check_rubric(text)
    assert problem in found
    with pytest.raises(ValueError, match="rubric"):
        define_rubric(MetricEntry.model_validate(rubric(text)))


@given(st.lists(st.sampled_from(["{response}", "{input}", "{{", "}}", "{", "}", "word", "{x}", "!", ":"]), max_size=8))
def test_a_rubric_without_problems_can_be_filled_in(parts):
    text = "".join(parts)
    if not check_rubric(text):
        text.format(input="i", response="r", expected="e", contexts="c")
