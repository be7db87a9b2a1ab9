"""The texts of failed samples: where they are cut, and what they are compared with."""

from typing import Any

import pytest

from evalspec.model import AgentReply, Exchange, Sample, Score
from evalspec.reports.view.failures import build_answers, explain_score
from evalspec.reports.view.fit import join_items

LONG = "The same long introduction of this answer. " * 12


def shown(answer: str, *references: str, longest: int | None = 100) -> list[str]:
    """The lines, with brackets around what differs."""
    return [
        "".join(
            f"[{word.text}]" if getattr(word, "differs", False) else getattr(word, "text", word)
            for word in list[Any](join_items(line))
        )
        for line in build_answers(answer, references, longest)
    ]


@pytest.mark.parametrize("after", ["", " And more." * 40])
def test_a_long_text_is_cut_around_its_first_difference(after):
    expected, got = shown(f"{LONG}The fee is 90 euros.{after}", f"{LONG}The fee is 10 euros.{after}")
    assert expected.startswith("expected: …") and "is [10] euros." in expected
    assert got.startswith("got: …") and "is [90] euros." in got
    assert expected.endswith("…") is got.endswith("…") is bool(after)
    assert len(got) <= len("got: []") + 100


def test_a_text_without_the_words_of_the_other_is_cut_at_the_same_place():
    _, got = shown(f"{LONG}The fee is due. {LONG}", f"{LONG}The fee of 10 euros is due. {LONG}")
    assert "The fee is due" in got


def test_a_long_text_that_differs_early_is_cut_at_its_end():
    expected, got = shown(f"no {LONG}", f"yes {LONG}")
    assert expected.startswith("expected: [yes] The same") and got.endswith("…")


def test_an_answer_is_compared_with_the_nearest_expected_one():
    assert shown("gamma delte", "alpha beta", "gamma delta") == [
        "expected: gamma [delta] and 1 more",
        "got: gamma [delte]",
    ]
    assert shown("gamma delte", "alpha beta", "gamma delta", longest=None) == [
        "expected: alpha beta",
        "or: gamma [delta]",
        "got: gamma [delte]",
    ]


@pytest.mark.parametrize(
    ("metric", "value", "references", "why"),
    [
        ("string_match", 0.0, ("yes",), "does not contain 'yes'"),
        ("string_match(match=substring)", 0.0, ("yes", "sure"), "does not contain 'yes' (+1 more)"),
        ("exact_match", 0.0, ("a\n b" * 30,), f"differs from '{('a b' * 30)[:47]}…'"),
        ("string_match", 1.0, ("yes",), None),
        ("rouge", 0.0, ("yes",), None),
    ],
)
def test_a_reason_that_only_quotes_the_answer_says_what_the_answer_lacks(metric, value, references, why):
    exchange = Exchange(Sample("s", "q", references=references), AgentReply(response="no"))
    assert explain_score(metric, Score.scored(value, exchange.answered), exchange) == why
    assert explain_score(metric, Score.scored(value, "other"), exchange) == "other"
