"""Control cases: whether a judge distinguishes good from bad is tested in each judged run."""

from contextlib import closing

import pytest

from evalspec.api.erasure import erase
from evalspec.runs.store.run_store import RunStore
from evalspec.scoring.judge.cache_file import CONTROL_ID, CacheFile
from servers import scripted_judge
from servers.scripted_judge import status

ANSWERS = {
    "visa": "Travellers from Norway need no visa for ninety days.",
    "bread": "Knead the dough until it stretches without tearing.",
    "tides": "The moon pulls the ocean, which causes two tides daily.",
    "chess": "A bishop moves diagonally across any number of squares.",
    "loans": "Repayment begins six months after graduation.",
    "bees": "Worker insects gather nectar and store honey in combs.",
    "rail": "Reservations open sixty-one weeks ahead of departure.",
}
METRICS = ["faithfulness", "hallucination", "answer_correctness", "claim_entailment", "context_recall"]
pytestmark = pytest.mark.usefixtures("with_controls")


@pytest.fixture
def judged(project, judge):
    """A project whose judge scores right answers to seven questions without a common word."""
    samples = [
        {"id": name, "input": f"What about {name}?", "expected": text, "context": [text], "reference_contexts": [text]}
        for name, text in ANSWERS.items()
    ]
    answers = {one["input"]: one["expected"] for one in samples}
    (project.folder / "bot.py").write_text(f"def answer(question):\n    return {answers!r}[question]\n")
    project.api = {"python": "bot:answer"}
    project.evaluation["judge"] = {"model": "scripted", "baseUrl": judge.url, "apiKey": "none"}
    project.evaluation["ciGate"] = True
    project.evaluation["thresholds"] = {name: 0.5 for name in METRICS if name != "hallucination"}
    project.dataset("qa", samples, metrics=METRICS)
    return project


@pytest.fixture
def lenient(monkeypatch):
    """The judge finds everything supported, right and useful."""
    monkeypatch.setattr(scripted_judge, "bears_out", lambda _text, _statement: True)


def find_controls(found):
    return {one["metric"]: one for one in found.document["controls"]}


def list_statuses(found):
    return {limit["status"] for limit in found.document["datasets"][0]["thresholds"]}


def test_a_judge_that_distinguishes_good_from_bad_passes(judged):
    found = judged.evaluate("--json")
    assert (found.code, found.document["verdict"]) == (0, "PASS")
    controls = find_controls(found)
    assert list(controls) == METRICS
    assert all(one["distinguishes"] and one["pValue"] == pytest.approx(1 / 252) for one in controls.values())
    assert (controls["faithfulness"]["good"], controls["faithfulness"]["bad"]) == ([1] * 5, [0.5] * 5)
    assert controls["hallucination"]["bad"] == [0.5] * 5
    assert any(
        note.startswith("qa: the judge distinguishes known-good from known-bad") for note in found.document["notes"]
    )
    again = judged("report", found.document["runId"], "--json")
    assert again.document["controls"] == found.document["controls"]


@pytest.mark.usefixtures("lenient")
def test_a_judge_to_which_all_is_good_makes_limits_incomplete(judged):
    found = judged.evaluate("--json")
    assert (found.code, found.document["verdict"]) == (3, "INCOMPLETE")
    assert list_statuses(found) == {"INCOMPLETE"}
    controls = find_controls(found)
    assert not any(one["distinguishes"] for one in controls.values())
    assert len(controls["faithfulness"]["good"]) == 7  # a second round with all samples
    assert found.document["reasons"][0].startswith(
        "qa: faithfulness: the judge cannot distinguish good from bad: 7 cases known to be good score 1.00 on average, "
        "7 known to be bad 1.00. Use another judge"
    )
    again = judged("report", found.document["runId"], "--json")
    assert (again.document["verdict"], again.document["reasons"]) == ("INCOMPLETE", found.document["reasons"])


def test_a_judge_to_which_all_is_bad_makes_limits_incomplete(judged, monkeypatch):
    monkeypatch.setattr(scripted_judge, "bears_out", lambda _text, _statement: False)
    found = judged.evaluate("--json")
    assert (found.code, list_statuses(found)) == (3, {"INCOMPLETE"})


@pytest.mark.usefixtures("lenient")
def test_controls_can_be_turned_off(judged, judge):
    judged.evaluation["ciGate"] = {"judge": {"controls": False}}
    found = judged.evaluate("--json")
    assert (found.code, found.document["controls"]) == (0, [])
    assert len(judge.chats) == 7 * 6


def test_an_unchanged_run_asks_nothing_again(judged, judge, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    first = judged.evaluate("--json")
    asked = len(judge.chats)
    again = judged.evaluate("--json")
    assert len(judge.chats) == asked
    assert again.document["controls"] == first.document["controls"]
    rescored = judged("rescore", first.document["runId"], "agent.yaml", "--json", "--no-cache")
    assert len(judge.chats) == asked
    assert rescored.document["controls"] == first.document["controls"]


def test_erasing_a_sample_erases_the_control_cases_of_its_dataset(judged, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    judged.evaluate("--json")
    with closing(CacheFile(RunStore(judged.folder / ".evalspec").cache)) as cache:
        assert CONTROL_ID in cache.count_scores("qa")["faithfulness"]
        erase(judged.folder, (), [("qa", "visa")])
        assert {"bread"} < cache.count_scores("qa")["faithfulness"].keys() < {*ANSWERS}


def test_no_judge_no_controls(judged, judge):
    found = judged.evaluate("--json", "--no-judge")
    assert (found.document["controls"], judge.chats) == ([], [])


def test_a_judge_that_is_down_is_not_tested(judged, judge):
    judge.mode = status(401)
    found = judged.evaluate("--json")
    assert (found.code, found.document["controls"]) == (3, [])
    assert len(judge.chats) < 20


def test_metrics_and_datasets_without_controls_say_so(judged):
    (dataset,) = judged.evaluation["datasets"]
    dataset["metrics"] = ["faithfulness", "toxicity", "bias"]
    judged.evaluation["thresholds"] = {"toxicity": 0.5}
    found = judged.evaluate("--json", "--sample-size", "2")
    assert found.code == 0
    assert [note for note in found.document["notes"] if "no control cases" in note] == [
        "qa: no control cases for faithfulness: they need 3 samples with an expected answer, and for each of them "
        "another sample whose answer and passages have fewer than half of their words in common with it",
        "qa: no control cases for toxicity, bias: none can be made from the data",
    ]


@pytest.mark.usefixtures("lenient")
def test_fail_fast_gives_the_same_verdict(judged):
    judged.evaluation["thresholds"] = {"claim_entailment": 0.1}
    (dataset,) = judged.evaluation["datasets"]
    dataset["metrics"] = ["claim_entailment"]
    assert judged.evaluate("--json", "--fail-fast").document["verdict"] == "INCOMPLETE"


def test_controls_count_towards_the_budget_and_are_resumed(judged, judge):
    found = judged.evaluate("--json", "--max-judge-calls", "60")
    assert (found.code, len(judge.chats)) == (3, 60)
    assert not any(one["metric"] == "context_recall" for one in found.document["controls"])
    resumed = judged(
        "evaluate", "agent.yaml", "--resume", found.document["runId"], "--max-judge-calls", "900", "--json"
    )
    assert (resumed.code, len(find_controls(resumed))) == (0, 5)
    assert resumed.document["judgeUsage"]["context_recall"]["calls"] == 17


def test_the_plan_has_a_line_for_them(judged, judge):
    judged.write()
    planned = judged("plan", "agent.yaml", "--json").document
    (dataset,) = planned["datasets"]
    assert [(one["metric"], one["calls"]) for one in dataset["controls"]] == [
        ("faithfulness", [20, 28]),
        ("answer_correctness", [30, 42]),
        ("claim_entailment", [20, 28]),
        ("context_recall", [10, 14]),
    ]
    assert planned["judgeCalls"] == sum(dataset["judgeCalls"].values()) + 80
    (line,) = [line for line in judged("plan", "agent.yaml").out.splitlines() if "tests of the judge" in line]
    assert "80–112" in line
    judged.evaluation["ciGate"] = {"judge": {"controls": False}}
    judged.write()
    assert judged("plan", "agent.yaml", "--json").document["datasets"][0]["controls"] == []


@pytest.mark.usefixtures("lenient")
def test_a_comparison_by_a_judge_that_distinguishes_nothing_is_incomplete(judged):
    first = judged.evaluate("--json")
    judged("runs", "promote", first.document["runId"], "--as", "main")
    judged.evaluation["ciGate"] = {"baseline": "main"}
    del judged.evaluation["thresholds"]
    found = judged.evaluate("--json")
    assert (found.code, {one["status"] for one in found.document["regressions"]}) == (3, {"INCOMPLETE"})
    assert "cannot distinguish good from bad" in found.document["regressions"][0]["reason"]
