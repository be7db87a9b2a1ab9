"""Several judges score each reply: how their scores become one, what follows if one is down, and how far they agree."""

import json
from contextlib import ExitStack
from functools import partial

import pytest

from evalspec.model import Score
from evalspec.scoring.judge.panel import Panel
from servers.scripted_judge import ScriptedJudge, status

LABELS = {"bad": 0, "fair": 0.4, "good": 1}
GRADES = {"s0": ("good", "good", "good"), "s1": ("bad", "fair", "good"), "s2": ("bad", "bad", "good")}
"""What each of three judges says about a reply."""


@pytest.fixture
def judges():
    with ExitStack() as stack:
        found = [stack.enter_context(ScriptedJudge()) for _ in range(3)]
        for number, judge in enumerate(found):
            judge.reads = partial(say, number)
        yield found


def say(number, prompt):
    grade = next((grades[number] for name, grades in GRADES.items() if f"Reply {name}" in prompt), "good")
    return f"{prompt}\n[grade: {grade}]"


@pytest.fixture
def evaluate(project, judges):
    project.dataset("qa", [{"id": name, "response": f"Reply {name}."} for name in GRADES],
                    metrics=[{"name": "tone", "rubric": "Is it kind?", "labels": LABELS}])  # fmt: skip
    project.evaluation["ciGate"] = {"enabled": False, "judge": {"controls": False}}

    def run(*options, **panel):
        first, *others = (
            {"model": name, "baseUrl": judge.url, "apiKey": f"key-{name}", "maxRetries": 0}
            for name, judge in zip("abc", judges, strict=True)
        )
        members = [{key: one[key] for key in ("model", "baseUrl", "apiKey")} for one in others]
        project.evaluation["judge"] = {**first, "panel": members, **panel}
        return project.evaluate("--responses", "same", "--json", *options)

    return run


def values(outcome):
    samples = outcome.document["datasets"][0]["samples"]
    return [one["scores"]["tone"]["value"] for one in samples]


@pytest.mark.parametrize(
    ("combine", "expected"),
    [("mean", [1, 1.4 / 3, 1 / 3]), ("median", [1, 0.4, 0]), ("majority", [1, None, 0])],
)
def test_the_scores_become_one(evaluate, judges, combine, expected):
    found = evaluate(combine=combine)
    assert values(found) == [value if value is None else pytest.approx(value) for value in expected]
    assert [len(judge.chats) for judge in judges] == [3, 3, 3]
    assert {judge.chats[0].headers["authorization"] for judge in judges} == {
        "Bearer key-a", "Bearer key-b", "Bearer key-c"
    }  # fmt: skip
    scores = [one["scores"]["tone"] for one in found.document["datasets"][0]["samples"]]
    assert scores[0]["repeats"] == [1, 1, 1]
    if combine == "majority":
        assert (scores[1]["status"], scores[1]["reason"]) == ("failed", "no value has a majority: 0, 0.4, 1")


def test_the_agreement_and_each_judge_are_shown(project, evaluate):
    found = evaluate()
    alpha = 1 - (9 - 1) * ((0.16 + 1 + 0.36 + 1 + 0 + 1) / 2 * 1) / sum(
        (one - other) ** 2 for at, one in enumerate(ALL) for other in ALL[:at]
    )
    (note,) = [one for one in found.document["notes"] if "agreement of the 3 judges" in one]
    assert note.endswith(f"{alpha:.2f}")
    assert found.document["fingerprint"]["judge"]["panel"][1]["model"] == "c"
    shown = project("show", "latest", "s1")
    assert all(word in shown.out for word in ("mean of 3 judges: 0, 0.4, 1", "judge"))


ALL = [LABELS[grade] for grades in GRADES.values() for grade in grades]
OF_TWO = [LABELS[grade] for grades in GRADES.values() for grade in grades[:2]]


def test_one_that_is_down_is_handled_as_declared(evaluate, judges):
    judges[2].mode = status(500)
    found = evaluate()
    assert values(found) == [None] * 3
    assert found.document["datasets"][0]["samples"][0]["scores"]["tone"]["reason"].startswith("c: ")
    found = evaluate(missing="ignore")
    assert values(found) == [pytest.approx(one) for one in (1, 0.2, 0)]
    (note,) = [one for one in found.document["notes"] if "agreement of the judges that answered" in one]
    assert note.endswith("; no score from c on 3 of 3 replies")
    judges[1].mode = status(500)
    assert values(evaluate("--fresh", missing="ignore")) == [None] * 3, "one of three is not most of them"
    judges[1].mode = status(401)
    refused = evaluate("--fresh")
    assert "check spec.evaluation.judge.panel[0].apiKey" in str(refused.document) + refused.err, refused


def test_a_second_run_asks_nobody_and_a_further_judge_only_itself(project, evaluate, judges, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    first = evaluate()
    again = evaluate()
    assert (values(again), [len(judge.chats) for judge in judges]) == (values(first), [3, 3, 3])
    project.evaluation["judge"]["panel"].append({"model": "d", "baseUrl": judges[0].url})
    project.evaluate("--responses", "same", "--json")
    assert [len(judge.chats) for judge in judges] == [6, 3, 3]
    refused = project("compare", again.document["runId"], "latest")
    assert (refused.code, "the judge" in refused.err) == (2, True)


def test_another_address_does_not_get_the_key_of_the_judge(project, evaluate, judges):
    evaluate()
    project.evaluation["judge"]["panel"] = [{"model": "b", "baseUrl": judges[1].url}]
    project.evaluate("--responses", "same", "--json")
    assert "authorization" not in judges[1].chats[-1].headers


def test_the_plan_and_the_budget_count_every_judge(project, evaluate, judges):
    stopped = evaluate("--max-judge-calls", "4")
    assert sum(len(judge.chats) for judge in judges) == 4
    assert stopped.code == 3
    document = project("plan", "agent.yaml", "--json").document
    assert document["judgeCalls"] == 9


@pytest.mark.parametrize(
    ("options", "panel", "said"),
    [
        (("--judge-repeat", "2"), {}, "each judge of a panel grades a reply once"),
        ((), {"panel": [{"model": "b"}], "combine": "majority"}, "of two judges, none is in the majority"),
        ((), {"panel": [{"model": "b", "parameters": {"stream": True}}]}, "'stream' cannot be a parameter"),
        ((), {"panel": [{"model": "b", "wire": "morse"}]}, "unknown judge wire 'morse'"),
        (
            (),
            {"panel": [{"model": "b", "wire": "anthropic"}]},
            "the judge's address is for wire chat",
        ),
        ((), {"panel": [{"model": "b"}, {"model": "b", "apiKey": "k"}]}, "two judges of the panel are the same"),
        ((), {"panel": [{"model": "a"}]}, "two judges of the panel are the same"),
        (
            ("--max-tokens", "9000"),
            {"panel": [{"model": "b", "parameters": {"max_tokens": None}}]},
            "panel[0].parameters.max_tokens",
        ),
    ],
)
def test_what_cannot_be_is_an_error(evaluate, judges, options, panel, said):
    refused = evaluate(*options, **panel)
    assert (refused.code, said in str(refused.document["errors"])) == (2, True), refused
    assert not any(judge.chats for judge in judges)


def test_a_majority_is_of_all_judges(evaluate, judges):
    """Of four, one is down, and two agree on s1 and s2."""
    judges[1].mode = status(500)
    others = [{"model": name, "baseUrl": judges[at].url} for name, at in (("b", 1), ("c", 2), ("d", 2))]
    found = evaluate(combine="majority", missing="ignore", panel=others)
    assert values(found) == [1, None, None]
    scores = [one["scores"]["tone"] for one in found.document["datasets"][0]["samples"]]
    assert (scores[1]["status"], scores[1]["reason"]) == ("failed", "no value has a majority: 0, 1, 1; without b")


def test_judges_that_disagree_count_in_their_agreement(evaluate, judges):
    """Two of the three answer: they agree on s0 and s2, and on s1 no value has a majority, in either order."""
    judges[2].mode = status(500)
    found = evaluate(combine="majority", missing="ignore")
    alpha = 1 - (6 - 1) * 0.16 / sum((one - other) ** 2 for at, one in enumerate(OF_TWO) for other in OF_TWO[:at])
    (note,) = [one for one in found.document["notes"] if "agreement of the judges that answered" in one]
    assert note.endswith(f": {alpha:.2f}; no score from c on 3 of 3 replies")
    panel = Panel(("a", "b"), "majority", may_miss=False)
    orders = [[Score.scored(0), Score.scored(1)], [Score.scored(1), Score.scored(0)]]
    assert {panel.join(one).reason for one in orders} == {"no value has a majority: 0, 1"}, "one note, not two"


def test_what_one_judge_finds_undefined_and_another_scores_is_unknown(project, evaluate, judges):
    """It would leave the mean, as if nobody had scored it."""
    project.evaluation["datasets"][0]["metrics"] = ["faithfulness"]
    lines = [{"id": name, "response": f"Paris has {name}.", "retrieved_contexts": ["Paris has s0."]} for name in GRADES]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def find(*silent):
        for judge in judges:
            judge.mode = "no_statements" if judge in silent else "ok"
        outcome = evaluate("--fresh", "--responses", "replies.jsonl")
        return outcome.document["datasets"][0]["samples"][0]["scores"]["faithfulness"]

    one = find(judges[1])
    assert (one["status"], one["reason"]) == ("failed", "b: the judge found no statement in the response")
    assert find(*judges)["status"] == "not_applicable"


def test_what_missing_judges_mean_is_part_of_the_fingerprint(project, evaluate):
    first, again = evaluate(), evaluate(missing="ignore")
    assert again.document["fingerprint"]["judge"]["missing"] == "ignore"
    refused = project("compare", first.document["runId"], again.document["runId"])
    assert (refused.code, "the judge" in refused.err) == (2, True)


def test_stability_needs_grades_of_one_judge(project, evaluate):
    evaluate()
    refused = project("judge", "stability")
    assert (refused.code, "are of several judges" in refused.err) == (2, True)
