"""A verdict belongs to what was asked: what judges do to lists of statements, and what becomes of the score."""

import pytest

from evalspec.model import ScoreStatus
from metrics.judged_scoring import REFUNDS, exchange, score

LISTING = ("faithfulness", "hallucination", "factual_correctness", "noise_sensitivity", "answer_correctness")
"""Metrics whose judge gives verdicts on statements that it was sent."""
BROKEN_DOWN = {"factual_correctness": 2, "noise_sensitivity": 2, "answer_correctness": 2}
"""How many texts are broken down before the first verdicts; one for the others."""
SAMPLE = exchange(
    "Annual plans can be refunded during the first month. Coins are never accepted. Cards are always accepted.",
    contexts=(REFUNDS,),
    references=("Refunds are paid within 30 days. Coins are never accepted. Cards are always accepted.",),
)


def scored(judge, name, mode, sample=SAMPLE, **config):
    judge.mode = mode
    judge.chats.clear()
    [got] = score(judge, name, sample, **config)
    return got


@pytest.mark.parametrize("mode", ["reversed", "restyled", "reasoned", "parts"])
@pytest.mark.parametrize("name", [*LISTING, "context_recall"])
def test_order_clothes_and_reasoning_change_nothing(judge, name, mode):
    expected = scored(judge, name, "ok")
    assert expected.status is ScoreStatus.SCORED
    got = scored(judge, name, mode)
    if name == "context_recall":  # its statements are the judge's own
        assert got.value == expected.value
    else:
        assert got == expected


def test_the_order_of_one_answer_among_many_changes_nothing(judge):
    """ragas pairs the verdicts of several requests by their position."""
    expected = scored(judge, "noise_sensitivity", "ok")
    assert expected.value == pytest.approx(1 / 3)
    for at in range(2, 5):
        judge.script = ["ok"] * at + ["reversed"]
        assert scored(judge, "noise_sensitivity", "ok") == expected


@pytest.mark.parametrize(
    ("mode", "why"),
    {
        "foreign": "'Albert Einstein was born in Ulm.' was not sent",
        "repeated": "was not sent, or is repeated; give each one once",
        "unfinished": "its reasoning is not closed: </think> is missing",
        "parrot": "the judge's answer is unusable: ",
    }.items(),
)
@pytest.mark.parametrize("name", LISTING)
def test_verdicts_on_anything_else_are_repaired_or_fail(judge, name, mode, why):
    first = 0 if mode == "unfinished" else BROKEN_DOWN.get(name, 1)
    judge.script = ["ok"] * first
    got = scored(judge, name, mode)
    assert (got.status, got.value) == (ScoreStatus.FAILED, None)
    assert why in got.reason
    assert len(judge.chats) > first

    expected = scored(judge, name, "ok")
    judge.script = ["ok"] * first + [mode]
    assert scored(judge, name, "ok", max_retries=1) == expected
    [complaint] = [request for request in judge.chats if len(request.body["messages"]) > 2]
    assert complaint.body["messages"][-1]["content"].startswith("That answer cannot be used: ")


@pytest.mark.parametrize("name", [*LISTING, "context_recall"])
def test_statements_out_of_the_prompts_example_fail(judge, name):
    got = scored(judge, name, "parrot")
    assert got.status is ScoreStatus.FAILED
    why = "of the reference's words" if name == "context_recall" else "which has no word in common with the text"
    assert why in got.reason
    assert "\n" not in got.reason
    assert len(judge.chats) == BROKEN_DOWN.get(name, 1)


FOUR = "Refunds are paid within 30 days. Coins are never accepted. Owls see well at night. Wolves live in packs."


@pytest.mark.parametrize("name", [*LISTING, "claim_entailment"])
def test_three_of_four_sentences_left_out_are_asked_for_again_or_fail(judge, name):
    """ragas would score the first statement alone: a faithfulness of 1 instead of 1/4."""
    sample = exchange(FOUR, references=(FOUR,))
    expected = scored(judge, name, "ok", sample)
    got = scored(judge, name, "hasty", sample)
    assert (got.status, got.value) == (ScoreStatus.FAILED, None)
    assert "of the text's words, but need at least 50 %; break down every sentence" in got.reason
    judge.script = ["hasty"]
    assert scored(judge, name, "ok", sample, max_retries=1) == expected


@pytest.mark.parametrize("mode", ["foreign", "repeated", "unfinished"])
def test_recall_of_other_statements_fails(judge, mode):
    sample = exchange(reference_contexts=("Refunds are paid within 30 days. Annual plans end in May.",))
    expected = scored(judge, "context_recall", "ok", sample)
    assert expected.status is ScoreStatus.SCORED
    assert scored(judge, "context_recall", mode, sample).status is ScoreStatus.FAILED
    judge.script = [mode]
    assert scored(judge, "context_recall", "ok", sample, max_retries=1) == expected


def test_a_draft_that_was_not_meant_is_no_score(judge):
    """The draft of the scripted judge says the opposite of its answer."""
    assert scored(judge, "faithfulness", "reasoned").value == pytest.approx(1 / 3)
    got = scored(judge, "faithfulness", "unfinished")
    assert (got.status, got.value) == (ScoreStatus.FAILED, None)


@pytest.mark.parametrize("mode", ["foreign", "repeated", "unfinished"])
def test_a_run_on_verdicts_about_anything_else_does_not_pass(judge, project, agent, mode):
    """Every verdict is 1 here, so that ragas' own score would be 1.0."""
    judge.mode = mode
    judge.script = ["ok"]
    agent.reply = lambda _body: {"response": REFUNDS}
    project.api = {"url": agent.url}
    project.dataset("qa", [{"input": "When are refunds paid?", "context": [REFUNDS]}], metrics=["faithfulness"])
    project.evaluation |= {"thresholds": {"faithfulness": 0.5}, "ciGate": True}
    project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "maxRetries": 0}
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    judge.mode = "ok"
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (0, "PASS")
