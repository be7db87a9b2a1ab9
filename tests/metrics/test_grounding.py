"""grounding_overlap: what it counts, and what it cannot see."""

import pytest

import evalspec
from evalspec.model import AgentReply, Exchange, Sample, ScoreStatus
from evalspec.scoring.metrics.grounding import compute_overlap, list_units

TRIAL = "The free trial of Inkwharf lasts 21 days. Ada Lovelace wrote 1,844 notes."


def score(answer, *contexts):
    return evalspec.scoring.metrics.grounding.grounding_overlap(
        Exchange(Sample("s", "?"), AgentReply(answer, retrieved_contexts=contexts or (TRIAL,)))
    )


@pytest.mark.parametrize(
    ("answer", "units"),
    [
        ("The trial lasts 21 days.", ["the trial", "trial lasts", "lasts 21", "21", "21 days"]),
        ("Yes. It is Ada", ["it is", "is ada", "ada"]),  # a sentence's first word is no name, and no pair spans two
        ("Delhi", ["delhi"]),
        ("no", []),
        ("1,844", ["1844"]),
        ("e-mail", ["e mail"]),
        ("東京です", ["東 京", "京 で", "で す"]),
        ("", []),
    ],
)
def test_what_is_looked_up(answer, units):
    assert [" ".join(unit) for unit in list_units(answer)] == units


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("the free TRIAL of inkwharf", 1.0),
        ("It lasts 90 days", 0.0),  # the number, and each pair with it
        ("Ada Lovelace wrote 1844 notes", 1.0),
        ("Ada Byron", 0.0),
        ("days. Ada", None),  # neither a pair nor a name
        ("lasts 21 weeks", 2 / 3),
    ],
)
def test_the_share_that_occurs_in_the_contexts(answer, value):
    found = score(answer)
    assert found.value == (pytest.approx(value) if value is not None else None)
    assert (found.status is ScoreStatus.NOT_APPLICABLE) is (value is None)


def test_what_is_missing_is_named_once_and_bounded():
    assert score("lasts 90 days or 90 days").reason == (
        "not in the contexts: 'lasts 90', '90', '90 days', 'days or', 'or 90'"
    )
    assert score(" ".join(f"w{n} x" for n in range(9))).reason.endswith("and 12 more")


def test_pairs_are_looked_up_in_one_context_and_none_is_0():
    assert compute_overlap([("a", "b")], ["x a", "b y"])[0] == 0
    assert compute_overlap([("a", "b")], [])[0] == 0


def test_its_limits():
    """A negation keeps nearly every pair, and a paraphrase none: no threshold makes a verdict of it."""
    says = "Members of the team can restore the page within thirty days"
    negated = says.replace("can restore", "can not restore")
    paraphrased = "anyone there gets it back for a month"
    assert score(negated, says).value > 0.8
    assert score(paraphrased, says).value == 0
