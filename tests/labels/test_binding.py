"""Labels of one run and another run: the same reply, another judge, another rubric."""

import pytest

from evalspec import labels
from servers.scripted_judge import ScriptedJudge


@pytest.fixture
def judged(labelled):
    """A run with a judged metric, whose labels the judge gives one after the other."""
    project = labelled.project
    with ScriptedJudge() as judge:
        judge.in_turn = True
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k", "concurrency": 1}
        rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
        project.evaluation["datasets"][0]["metrics"] = ["string_match", rubric]
        project.evaluation["thresholds"] = {"tone": 0.5}
        labelled.rubric = rubric
        labelled.first = labelled.run()
        yield labelled


def measure(run="latest"):
    found = labels.measure_labels(run)
    return sum(found.labellers.values()), found.carried, found.reusable, found.left_out


def test_another_threshold_changes_nothing(judged):
    judged.say("s0", ada="good")
    judged.say("s0", metric="tone", ada="agree")
    judged.project.evaluation["thresholds"] = {"tone": 0.9}
    judged.rescore()
    assert measure() == (2, {judged.first: 2}, {}, {})


def test_labels_on_another_judges_scores_do_not_count(judged):
    judged.say("s0", ada="good")
    judged.say("s0", metric="tone", ada="agree")
    labels.label("latest", "s1", "disagree", by="ada", metric="tone", value=0.0)
    labels.label("latest", "s2", "disagree", by="ada", metric="tone", value=1.0)
    judged.project.evaluation["judge"]["model"] = "another"
    judged.rescore()
    assert measure() == (1, {judged.first: 1}, {judged.first: 3}, {})
    assert measure(judged.first) == (4, {}, {}, {})
    judged.say("s0", metric="tone", ada="agree")
    assert measure()[0] == 2
    assert measure(judged.first)[0] == 4, "the label on the other score counts where it was given"


def test_another_rubric_is_another_metric(judged):
    judged.say("s0", metric="tone", ada="agree")
    judged.rubric["rubric"] = "Is it short?"
    judged.rescore()
    assert measure() == (0, {}, {}, {"the metric, its prompt or its rubric changed": 1})


def test_another_reply_is_another_case(judged):
    judged.say("s0", ada="good")
    judged.say("s1", ada="good")
    judged.replies["s0"] = "Berlin"
    judged.run()
    assert measure() == (1, {judged.first: 1}, {}, {"the reply or the sample changed": 1})


def test_a_metric_that_the_run_lacks(judged):
    judged.say("s0", metric="tone", ada="agree")
    judged.project.evaluation["datasets"][0]["metrics"] = ["string_match"]
    judged.project.evaluation["thresholds"] = {"string_match": 0.5}
    judged.rescore()
    assert measure() == (0, {}, {}, {"the run has no such reply or score": 1})
