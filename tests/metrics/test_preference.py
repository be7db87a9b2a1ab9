"""`preference` over earlier replies: asked in both orders, a disagreement is a tie, and people can correct it."""

import json

import pytest

from evalspec import labels
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.curation.labels.rating import make_form
from evalspec.runs.store.run_store import RunStore
from servers.scripted_judge import ScriptedJudge

EARLIER = {"s0": "good", "s1": "bad", "s2": "bad", "s3": "bad", "s4": "same"}
NOW = {"s0": "bad", "s1": "good", "s2": "odd", "s3": "bad too", "s4": "same", "s5": "good"}


def choose(prompt):
    """A judge that prefers "good", and the first answer where it is "odd"."""
    first, second = (
        prompt.partition(f"{place} answer: ")[2].splitlines()[0].strip('"') for place in ("first", "second")
    )
    if "odd" in (first, second):
        return f"{prompt}\n[grade: first]"
    won = "first" if first == "good" else "second" if second == "good" else "tie"
    return f"{prompt}\n[grade: {won}]"


@pytest.fixture
def compared(project):
    with ScriptedJudge() as judge:
        judge.reads = choose
        project.judge = judge
        project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        project.evaluation["ciGate"] = {"judge": {"controls": False}}
        project.evaluation["thresholds"] = {"preference(over=main.jsonl)": 0.5}
        project.dataset("qa", [{"id": name} for name in NOW], metrics=[{"name": "preference", "over": "main.jsonl"}])
        write(project, "main.jsonl", EARLIER)
        write(project, "now.jsonl", NOW)
        yield project


def write(project, name, replies):
    lines = [json.dumps({"id": id, "response": text}) + "\n" for id, text in replies.items()]
    (project.folder / name).write_text("".join(lines))


def evaluate(compared, *options):
    return compared.evaluate("--responses", "now.jsonl", "--json", *options)


def scores(outcome):
    samples = outcome.document["datasets"][0]["samples"]
    return {one["id"]: one["scores"]["preference(over=main.jsonl)"] for one in samples}


def test_only_a_choice_in_both_orders_counts(compared):
    found = scores(evaluate(compared))
    assert {id: one["value"] for id, one in found.items()} == {
        "s0": 0, "s1": 1, "s2": 0.5, "s3": 0.5, "s4": 0.5, "s5": None
    }  # fmt: skip
    assert found["s5"]["status"] == "failed"
    assert "says first in one order and first in the other" in found["s2"]["reason"]
    assert found["s4"]["reason"] == "both answers are the same"
    assert len(compared.judge.chats) == 2 * 4, "nothing is asked about equal answers"


def test_a_judge_of_the_first_place_prefers_nothing(compared):
    compared.judge.reads = lambda prompt: f"{prompt}\n[grade: first]"
    found = evaluate(compared).document
    (summary,) = found["datasets"][0]["metrics"].values()
    said = "the judge's choice depends on the order of the answers on 4 of 5 replies"
    assert f"qa: preference(over=main.jsonl): {said}" in found["notes"]
    assert (summary["value"], summary["interval"][0] < 0.5 < summary["interval"][1]) == (0.5, True)


def test_its_name_without_brackets_finds_it(compared):
    evaluate(compared)
    refused = compared("label", "latest", "--metric", "preference", "--random", "5", "--as", "ada", "--json")
    assert (refused.code, "did you mean 'preference(over=main.jsonl)'?" in str(refused.document)) == (2, True)


def test_another_file_of_this_name_is_another_metric(compared):
    """The run is not comparable, and no score is reused, although the path is the same."""
    first = evaluate(compared)
    before = len(compared.judge.chats)
    assert compared("rescore", "latest", "agent.yaml", "--json").code == first.code
    assert len(compared.judge.chats) == before
    write(compared, "main.jsonl", EARLIER | {"s1": "good"})
    again = compared("rescore", "latest", "agent.yaml", "--json")
    assert scores(again)["s1"]["value"] == 0.5
    refused = compared("compare", first.document["runId"], again.document["runId"])
    assert (refused.code, "its options" in refused.err) == (2, True)


def test_a_report_of_a_run_is_such_a_file(compared):
    write(compared, "main.jsonl", NOW)
    evaluate(compared)
    assert compared("report", "latest", "-o", "run.jsonl").code == 0
    compared.evaluation["datasets"][0]["metrics"] = [{"name": "preference", "over": "run.jsonl"}]
    compared.evaluation["thresholds"] = {"preference": 0.5}
    (summary,) = evaluate(compared).document["datasets"][0]["metrics"].values()
    assert (summary["value"], summary["scored"]) == (0.5, 6), "all answers are the same"


@pytest.mark.parametrize("content", [None, "{", '{"id": "s0"}\n{"id": "s0"}\n'])
def test_a_file_that_cannot_be_read_is_an_error_before_the_run(compared, content):
    path = compared.folder / "main.jsonl"
    path.unlink() if content is None else path.write_text(content)
    compared.write()
    refused = compared("validate", "agent.yaml")
    assert (refused.code, "main.jsonl" in refused.out) == (2, True), refused.out
    assert (evaluate(compared).code, compared.judge.chats) == (2, [])


def test_the_file_is_no_place_for_a_report(compared):
    compared.write()
    refused = compared("evaluate", "agent.yaml", "--responses", "now.jsonl", "-o", "main.jsonl")
    assert (refused.code, compared.judge.chats) == (2, [])
    assert "bad" in (compared.folder / "main.jsonl").read_text()


def test_people_correct_it_by_the_same_question(compared):
    write(compared, "now.jsonl", {f"s{n}": "good" for n in range(30)})
    write(compared, "main.jsonl", {f"s{n}": "bad" for n in range(30)})
    compared.dataset("qa", [{"id": f"s{n}"} for n in range(30)], metrics=[{"name": "preference", "over": "main.jsonl"}])
    compared.evaluation["datasets"] = compared.evaluation["datasets"][-1:]
    assert evaluate(compared).document["verdict"] == "PASS"
    opened = labels.LabelledRun(RunStore(compared.folder / ".evalspec"), "latest")
    session = DrawnSession(opened, "ada", LabelDesign("preference(over=main.jsonl)", size=30))
    for number in range(30):
        case = session.open()
        assert make_form(case).grades == {"better": 1.0, "neither": 0.5, "worse": 0.0}
        assert make_form(case).rubric == "bad"
        session.record(case, "rated", value=0.0 if number % 10 else 1.0)
    rescored = compared("rescore", "latest", "agent.yaml", "--json")
    (summary,) = rescored.document["datasets"][0]["metrics"].values()
    assert (rescored.document["verdict"], summary["correction"]["value"]) == ("FAIL", pytest.approx(0.1))


def test_earlier_replies_are_of_their_dataset(compared):
    compared.dataset("ra", [{"id": "s0"}], metrics=[{"name": "preference", "over": "main.jsonl"}])
    lines = [{"id": "s0", "dataset": "qa", "response": "good"}, {"id": "s0", "dataset": "ra", "response": "worst"}]
    (compared.folder / "main.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    datasets = evaluate(compared).document["datasets"]
    first, second = (one["samples"][0]["scores"]["preference(over=main.jsonl)"] for one in datasets)
    assert (first["value"], second["reason"]) == (0, "a tie in both orders: by the script")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"input": "Another question?", "response": "good"}, "answers another question"),
        ({"retrieved_contexts": ["A passage."]}, "has no answer"),
        ({"error": "timed out"}, "has no answer to this sample: timed out"),
        (None, "has no reply"),
    ],
)
def test_without_an_earlier_answer_the_preference_is_unknown(compared, line, said):
    write(compared, "main.jsonl", {id: text for id, text in EARLIER.items() if id != "s0"} | {"s5": "bad"})
    with (compared.folder / "main.jsonl").open("a") as file:
        file.write(json.dumps({"id": "s0"} | line) + "\n" if line else "")
    compared.evaluation["thresholds"] = {"preference": 0.6}
    found = evaluate(compared)
    score = scores(found)["s0"]
    assert (score["status"], score["value"], said in score["reason"]) == ("failed", None, True), score
    assert (found.code, found.document["verdict"]) == (3, "INCOMPLETE")


@pytest.mark.parametrize("options", [(), ("--judge-repeat", "3", "--fresh")])
def test_people_see_the_earlier_answer_in_a_rescored_run_too(compared, options):
    evaluate(compared)
    assert compared("rescore", "latest", "agent.yaml", *options, "--json").code in (0, 1, 3)
    command = ("label", "latest", "--metric", "preference(over=main.jsonl)", "--random", "9", "--as", "ada", "--json")
    drawn = compared(*command).document["drawn"]
    assert {one["sample"]: one["rubric"] for one in drawn} == {id: EARLIER[id] for id in ("s0", "s1", "s2", "s3")}
    assert "s4" not in {one["sample"] for one in drawn}, "equal answers are a tie for people too"


def test_equal_answers_need_no_label(compared):
    """Of forty replies, thirty are as before. People prefer the other ten, which are all labelled."""
    now = {f"s{n}": "bad" if n < 30 else "good" for n in range(40)}
    write(compared, "now.jsonl", now)
    write(compared, "main.jsonl", dict.fromkeys(now, "bad"))
    compared.dataset("qa", [{"id": name} for name in now], metrics=[{"name": "preference", "over": "main.jsonl"}])
    compared.evaluation["datasets"] = compared.evaluation["datasets"][-1:]
    evaluate(compared)
    opened = labels.LabelledRun(RunStore(compared.folder / ".evalspec"), "latest")
    session = DrawnSession(opened, "ada", LabelDesign("preference(over=main.jsonl)", size=40))
    while (case := session.open()) is not None:
        session.record(case, "rated", value=1.0)
    (summary,) = compared("rescore", "latest", "agent.yaml", "--json").document["datasets"][0]["metrics"].values()
    found = summary["correction"]
    assert (found["labels"], found["replies"], found["missing"]) == (10, 40, 0)
    assert found["value"] == pytest.approx((30 * 0.5 + 10) / 40)
