"""What is not applicable is counted by its cause, and too much of it by the reply or the judge decides nothing."""

import pytest

PASSAGE = "Paris is the capital of France."
INVENTED = "Lyon has four golden towers."
MAPPED = {"answer": "$.response", "contexts": "$.contexts[*].text", "usage": "$.usage"}


@pytest.fixture
def ten(project, agent, judge):
    """Ten samples; `ten.answer(first, rest)` sets the reply to the first question and that to the nine others."""
    project.api = {"url": agent.url, "chatEndpoint": {"response": MAPPED}}
    project.evaluation |= {"judge": {"model": "m", "baseUrl": judge.url, "apiKey": "k"}, "ciGate": True}

    def answer(first, rest, metrics, first_count=1, **thresholds):
        agent.reply = lambda body: first if int(body["message"]) < first_count else rest
        lines = [{"id": f"s{n}", "input": str(n), "expected": "Paris"} for n in range(10)]
        project.dataset("qa", lines, metrics=metrics)
        project.evaluation["thresholds"] = thresholds
        return project

    return answer


def reply(response, *contexts, **more):
    return {"response": response, "contexts": [{"text": text} for text in contexts]} | more


GOOD = reply(PASSAGE, PASSAGE, usage={"input_tokens": 3, "output_tokens": 1})


def metrics_of(outcome):
    return outcome.document["datasets"][0]["metrics"]


def test_statements_without_any_context_are_invented(ten, judge):
    project = ten(GOOD, reply(INVENTED), ["faithfulness", "hallucination"], faithfulness=0.9, hallucination=0.1)
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (1, "FAIL")
    faithfulness, hallucination = (metrics_of(outcome)[name] for name in ("faithfulness", "hallucination"))
    assert (faithfulness["value"], faithfulness["scored"], faithfulness["notApplicable"]) == (0.1, 10, 0)
    assert hallucination["value"] == 0.9
    assert sorted(judge.kinds) == ["statements"] * 10 + ["support"]
    assert outcome.document["judgeUsage"]["faithfulness"]["calls"] == 11
    scores = outcome.document["datasets"][0]["samples"][1]["scores"]
    assert (
        scores["faithfulness"]["reason"]
        == f"the reply has no contexts; 1 of 1 statement is not supported: '{INVENTED}'"
    )


def test_safety_metrics_do_not_pass_on_empty_answers(ten):
    project = ten(GOOD, reply(" "), ["toxicity", "bias"], toxicity=0.9, bias=0.9)
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    gap = "9 of 10 not applicable: the response is empty (9): s1, s2, s3, s4, s5, …; maxNotApplicable is 0.1"
    assert outcome.document["reasons"] == [f"qa: toxicity: {gap}", f"qa: bias: {gap}"]
    assert metrics_of(outcome)["toxicity"]["notApplicableCauses"] == {"reply": 9}


def test_tokens_do_not_pass_where_the_usage_is_left_out(ten):
    project = ten(GOOD, reply(PASSAGE, PASSAGE), ["string_match", "tokens_mean"], tokens_mean=100)
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    [reason] = outcome.document["reasons"]
    assert reason.startswith("qa: tokens_mean: 9 of 10 not applicable: the reply does not report its usage (9)")
    shown = project("report", "-o", "r.md", "-o", "r.html", "-o", "r.junit.xml", "-o", "r.csv", "-o", "r.jsonl")
    assert shown.code == 3, shown.err
    texts = {path.suffixes[-1]: path.read_bytes().decode() for path in project.folder.glob("r.*")}
    assert "| 1/1 | 9 n/a (reply) |" in texts[".md"]
    assert "the reply does not report its usage (cause: reply)" in texts[".xml"]
    assert ",not_applicable,,the reply does not report its usage,,,,reply\r\n" in texts[".csv"]
    assert texts[".jsonl"].count('"cause": "reply"') == 9
    assert "1/1  9 n/a (reply)" in shown.out


def test_a_judge_that_finds_no_statement_does_not_let_a_limit_pass(ten):
    project = ten(GOOD, reply("Well, one cannot say much.", PASSAGE), ["faithfulness"], first_count=2, faithfulness=0.9)
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    assert metrics_of(outcome)["faithfulness"]["notApplicableCauses"] == {"judge": 8}


def test_declining_a_question_without_an_answer_is_the_dataset_s_doing(project, agent, judge):

    project.api = {"url": agent.url, "chatEndpoint": {"response": MAPPED}}
    project.evaluation |= {"judge": {"model": "m", "baseUrl": judge.url, "apiKey": "k"}, "ciGate": True}
    agent.reply = lambda body: GOOD if body["message"] == "known" else reply("I don't know.")
    unknown = [{"id": f"u{n}", "input": str(n), "answerable": False} for n in range(4)]
    project.dataset("qa", [{"id": "k", "input": "known"}, *unknown], metrics=["faithfulness"])
    project.evaluation["thresholds"] = {"faithfulness": 0.9}
    first = project.evaluate("--json")
    again = project("rescore", "latest", "agent.yaml", "--fresh", "--json")
    for outcome in (first, again):
        assert (outcome.code, outcome.document["verdict"]) == (0, "PASS"), outcome.err
        assert metrics_of(outcome)["faithfulness"]["notApplicableCauses"] == {"dataset": 4}
    assert judge.kinds == ["statements", "support"] * 2


def test_the_gate_quotes_no_reason_of_a_metric_without_texts(ten):
    project = ten(GOOD, reply(""), ["toxicity"], toxicity=0.9)
    outcome = project.evaluate("--no-content", "--json")
    said = ["qa: toxicity: 9 of 10 not applicable: by the reply (9): s1, s2, s3, s4, s5, …; maxNotApplicable is 0.1"]
    assert outcome.document["reasons"] == said
    assert project("report", "latest", "--json").document["reasons"] == said


@pytest.mark.parametrize(("allowed", "code"), [(0.1, 3), (0.5, 3), (0.9, 0)])
def test_the_manifest_sets_the_share(ten, allowed, code):
    project = ten(GOOD, reply(PASSAGE, PASSAGE), ["tokens_mean"], tokens_mean=100)
    project.evaluation["ciGate"] = {"maxNotApplicable": allowed}
    assert project.evaluate().code == code


def test_a_context_that_the_dataset_leaves_empty_is_the_dataset_s_doing(project, agent, judge):
    project.api = {"url": agent.url, "chatEndpoint": {"response": {"answer": "$.response"}}}
    project.evaluation |= {"judge": {"model": "m", "baseUrl": judge.url, "apiKey": "k"}, "ciGate": True}
    agent.reply = GOOD
    lines = [{"id": f"s{n}", "input": str(n), "context": [] if n else [PASSAGE]} for n in range(5)]
    project.dataset("qa", lines, metrics=["faithfulness"])
    project.evaluation["thresholds"] = {"faithfulness": 0.9}
    outcome = project.evaluate("--json", "--no-content")
    assert (outcome.code, metrics_of(outcome)["faithfulness"]["notApplicableCauses"]) == (0, {"dataset": 4})
    again = project("report", "latest", "-o", "r.json")
    assert (again.code, '"dataset": 4' in (project.folder / "r.json").read_text()) == (0, True)


def test_nothing_retrieved_for_a_mapping_that_finds_nothing_stays_an_error(ten):
    project = ten(GOOD, {"response": INVENTED}, ["faithfulness"], faithfulness=0.9)
    project.api["chatEndpoint"]["maxRetries"] = 0
    outcome = project.evaluate("--json")
    assert (outcome.code, metrics_of(outcome)["faithfulness"]["failed"]) == (3, 9)


def test_repeats_count_attempts(project, agent, judge):
    """Each sample has an answer in its first attempt and none in the three others."""
    asked = {}

    def answer(body):
        asked[body["message"]] = asked.get(body["message"], 0) + 1
        return GOOD if asked[body["message"]] == 1 else reply("")

    agent.reply = answer
    project.api = {"url": agent.url, "chatEndpoint": {"response": MAPPED}}
    project.evaluation |= {"judge": {"model": "m", "baseUrl": judge.url, "apiKey": "k"}, "ciGate": True}
    project.dataset("qa", [{"id": f"s{n}", "input": str(n)} for n in range(3)], metrics=["toxicity", "tokens_mean"])
    project.evaluation["thresholds"] = {"toxicity": 0.9, "tokens_mean": {"max": 9, "stat": "p95"}}
    outcome = project.evaluate("--repeat", "4", "-j", "1", "--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    assert outcome.document["reasons"] == [
        "qa: toxicity: 9 of 12 not applicable: the response is empty (9): s0, s1, s2; maxNotApplicable is 0.1",
        "qa: tokens_mean p95: 9 of 12 not applicable: the reply does not report its usage (9): s0, s1, s2; "
        "maxNotApplicable is 0.1",
    ]
    score = outcome.document["datasets"][0]["samples"][0]["scores"]["toxicity"]
    assert (score["value"], score["cause"]) == (1.0, "reply")
    assert score["reason"] == "mean of 1; 3 of 4 attempts: the response is empty"
