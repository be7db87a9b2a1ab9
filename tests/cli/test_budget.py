"""Limits of a run: nothing is spent beyond them, what is missing has a cause, and a higher limit continues."""

import json
import sys
from types import SimpleNamespace

import pytest

from cli.test_judge_cache import A_SAMPLE, FOUR, UNGATED, Runs, write
from servers.scripted_judge import ScriptedJudge, status, throttled, unauthorized

PRICE = "price: {input: 2, output: 10, cached: 0.5}, "
MAX_TOKENS = 200
"""Few enough for limits below to leave room for several requests."""


@pytest.fixture
def runs(project):
    with ScriptedJudge() as judge:
        runs = Runs(project, judge)
        runs.change("model: scripted,", f"model: scripted, maxTokens: {MAX_TOKENS},")
        yield runs


def used(outcome):
    usages = outcome.document["judgeUsage"].values()
    return {name: sum(usage[name] for usage in usages) for name in ("calls", "requests", "inputTokens", "outputTokens")}


def metrics(outcome):
    (dataset,) = outcome.document["datasets"]
    return dataset["metrics"]


def reasons(outcome):
    (dataset,) = outcome.document["datasets"]
    scores = [score for sample in dataset["samples"] for score in sample["scores"].values()]
    return {score["reason"] for score in scores if score["cause"] == "stopped"}


def gate(runs, *limits, **rules):
    told = json.dumps({"enabled": True, "judge": {"controls": False}, **rules})
    runs.change(UNGATED, f"thresholds: {{{', '.join(limits)}}}\n    ciGate: {told}")


def resume(runs, outcome, *options):
    before = len(runs.judge.chats)
    again = runs.project("evaluate", "agent.yaml", "--resume", outcome.document["runId"], "--json", *options)
    return again, len(runs.judge.chats) - before


def test_a_run_stops_at_its_calls_and_a_higher_limit_continues_it(runs):
    runs.judge.several = "refused"  # a refusal counts as a call
    outcome, calls = runs("--max-judge-calls", "12")
    assert (outcome.code, calls, used(outcome)["requests"]) == (3, 12, 12)
    (reason,) = reasons(outcome)
    assert reason == (
        "the run stopped at --max-judge-calls 12: 12 used (to continue, resume it with a higher --max-judge-calls)"
    )
    assert sum(metric["failed"] for metric in metrics(outcome).values()) > 0
    assert f"--resume {outcome.document['runId']} --max-judge-calls NUMBER" in outcome.err
    assert runs.project("report", "--json").document == outcome.document
    same, calls = resume(runs, outcome)
    assert (same.code, calls) == (3, 0), "it has the limit that it was started with"
    whole, _ = resume(runs, outcome, "--max-judge-calls", "100")
    assert (whole.code, reasons(whole)) == (0, set())
    assert all(metric["scored"] == 2 for metric in metrics(whole).values())
    assert used(whole)["requests"] == len(runs.judge.chats), "what was used before counts too"


def test_a_stopped_run_is_incomplete_even_if_its_limits_are_met(runs):
    gate(runs, "string_match: 0")
    outcome, calls = runs("--max-judge-calls", "1")
    assert (outcome.code, outcome.document["verdict"], calls) == (3, "INCOMPLETE", 1)
    assert outcome.document["reasons"] == [*reasons(outcome)]
    outcome, _ = resume(runs, outcome, "--max-judge-calls", "100")
    assert (outcome.code, outcome.document["verdict"]) == (0, "PASS")


def test_tokens_and_cost_are_never_exceeded(runs):
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    outcome, calls = runs("--max-tokens", "15000", count=9)
    total = used(outcome)
    assert (outcome.code, 0 < calls < 9 * A_SAMPLE) == (3, True)
    assert 15_000 - 9000 < total["inputTokens"] + total["outputTokens"] <= 15_000
    assert "the run stopped at --max-tokens 15,000: " in next(iter(reasons(outcome)))
    outcome, calls = runs("--max-cost", "0.03", count=9)
    assert (outcome.code, calls > 0) == (3, True)
    costs, total = outcome.document["judgeCosts"], used(outcome)
    assert sum(costs.values()) == pytest.approx(total["inputTokens"] * 2e-6 + total["outputTokens"] * 1e-5)
    assert 0.005 < sum(costs.values()) <= 0.03


def test_what_is_not_counted_counts_as_reserved(runs):
    runs.judge.states = {"usage": None}
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    outcome, calls = runs("--max-tokens", "15000", count=9)
    usages = outcome.document["judgeUsage"].values()
    reserved = sum(usage["reservedInputTokens"] + usage["reservedOutputTokens"] for usage in usages)
    largest = max(len(json.dumps(chat.body)) for chat in runs.judge.chats) + 3 * MAX_TOKENS
    assert calls == sum(usage["uncounted"] for usage in usages) > 0
    assert 15_000 - largest < reserved <= 15_000
    assert set(outcome.document["judgeCosts"].values()) == {None}
    assert "cost unknown" in runs.project("report").out


def test_a_throttled_judge_uses_calls_and_no_tokens(runs):
    runs.judge.script = [throttled(0)] * 3
    outcome, calls = runs("--max-judge-calls", "5", "--max-tokens", "100000")
    assert (outcome.code, calls) == (3, 5)
    assert sum(usage["reservedOutputTokens"] for usage in outcome.document["judgeUsage"].values()) == 0


def test_a_request_with_a_renewed_key_is_a_further_call(runs):
    print_key = "import time; print(f'key-{time.time_ns()}')"
    runs.change("apiKey: sk-scripted-000", f"auth: {json.dumps({'command': [sys.executable, '-c', print_key]})}")
    runs.judge.script = [unauthorized("k")]
    outcome, calls = runs("--max-judge-calls", "12", count=9)
    assert (outcome.code, calls, used(outcome)["requests"]) == (3, 12, 12)
    assert sum(usage["reservedOutputTokens"] for usage in outcome.document["judgeUsage"].values()) == 0
    runs.judge.script = [unauthorized("k")]
    outcome, calls = runs("--max-judge-calls", "1", "--fresh")
    assert (outcome.code, calls, used(outcome)["requests"]) == (3, 1, 1)
    (reason,) = reasons(outcome)
    assert reason.startswith("the run stopped at --max-judge-calls 1: 1 used")


def test_the_time_of_a_run_covers_the_agent_and_earlier_sessions(runs, project, agent, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("evalspec.scoring.judge.budget.time", SimpleNamespace(monotonic=lambda: now[0]))

    def reply(_body):
        now[0] += 0.3
        return {"response": "Refunds are paid within 30 days."}

    agent.reply = reply
    runs.change("    framework", "    limits: {maxTime: 0.8}\n    framework")
    runs.change("spec:\n", f"spec:\n  api: {{url: {agent.url}}}\n")
    write(project.folder, 9)
    outcome = project("evaluate", "agent.yaml", "--json", "-j", "1")
    asked = len(agent.requests)
    assert (outcome.code, asked) == (3, 3)
    assert any("the run stopped at its time limit of 0.8 s" in reason for reason in reasons(outcome))
    assert "--max-time NUMBER" in outcome.err
    same, calls = resume(runs, outcome)
    assert (same.code, calls, len(agent.requests)) == (3, 0, asked)
    whole, _ = resume(runs, outcome, "--max-time", "600")
    assert (whole.code, len(agent.requests)) == (0, 9)


def test_a_price_is_needed_to_limit_the_cost(runs):
    outcome, calls = runs("--max-cost", "1")
    assert (outcome.code, calls) == (2, 0)
    assert "--max-cost: the cost of the judge is limited, but the price of scripted is unknown. add your" in outcome.err
    runs.change("    framework", "    limits: {maxCost: 1}\n    framework")
    outcome, calls = runs()
    assert (outcome.code, calls) == (2, 0)
    assert "agent.yaml:8: spec.evaluation.limits.maxCost: the cost of the judge is limited" in outcome.err


def test_an_answer_without_a_token_limit_has_no_price_to_reserve(runs):
    runs.change("model: scripted,", f"model: scripted, {PRICE} parameters: {{max_tokens: null}},")
    for option in ("--max-cost", "--max-tokens"):
        outcome, calls = runs(option, "100000")
        assert (outcome.code, calls) == (2, 0)
        assert "agent.yaml:9: spec.evaluation.judge.parameters.max_tokens: without it an answer may have" in outcome.err
        assert f"{option} cannot be kept" in outcome.err and "remove it, and set maxTokens" in outcome.err
    runs.change("    framework", "    limits: {maxTokens: 1}\n    framework")
    outcome, _ = runs()
    assert (outcome.code, "so spec.evaluation.limits.maxTokens cannot be kept" in outcome.err) == (2, True)


def test_price_and_limits_change_no_measurement(runs):
    runs.change("    framework", "    limits: {maxJudgeCalls: 3}\n    framework")
    outcome, calls = runs()
    assert (outcome.code, calls) == (3, 3)
    runs.change("maxJudgeCalls: 3", "maxJudgeCalls: 300")
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    whole, _ = resume(runs, outcome)
    assert (whole.code, whole.document["judgeCosts"].keys()) == (0, {*FOUR})


def test_the_line_of_a_quiet_run_has_the_cause_of_a_failed_judge(runs, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    runs.judge.mode = status(500)
    runs.change("model: scripted,", "model: scripted, maxRetries: 0,")
    write(runs.project.folder, 2)
    gate(runs, "faithfulness: 0.5")
    quiet = runs.project("evaluate", "agent.yaml", "--responses", "same", "-q")
    assert quiet.code == 3 and quiet.out.startswith("INCOMPLETE"), quiet
    assert ": rag: faithfulness failed: the judge: " in quiet.out and "…" not in quiet.out, "a log has room"


def test_a_limit_of_the_manifest_is_named_as_such(runs):
    runs.change("    framework", "    limits: {maxJudgeCalls: 3}\n    framework")
    outcome, _ = runs()
    (reason,) = reasons(outcome)
    assert reason.startswith("the run stopped at spec.evaluation.limits.maxJudgeCalls 3: 3 used")
    assert "--max-judge-calls NUMBER" in outcome.err
    outcome, _ = runs("--max-judge-calls", "2", "--fresh")
    assert next(iter(reasons(outcome))).startswith("the run stopped at --max-judge-calls 2: 2 used")


def test_rescoring_has_limits_too(runs, agent):
    agent.reply = {"response": "Refunds are paid within 30 days."}
    runs.change("spec:\n", f"spec:\n  api: {{url: {agent.url}}}\n")
    write(runs.project.folder, 2)
    runs.project("evaluate", "agent.yaml", "--no-judge")
    outcome = runs.project("rescore", "latest", "agent.yaml", "--json", "--max-judge-calls", "4")
    assert (outcome.code, len(runs.judge.chats)) == (3, 4)
    whole, _ = resume(runs, outcome, "--max-judge-calls", "40")
    assert (whole.code, reasons(whole), len(agent.requests)) == (0, set(), 2)


def test_every_report_says_what_each_metric_cost(runs):
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    outcome, _ = runs("-o", "r.html", "-o", "r.md")
    costs = outcome.document["judgeCosts"]
    read = [(runs.project.folder / name).read_text(encoding="utf-8") for name in ("r.html", "r.md")]
    for text in (*read, " ".join(runs.project("report").out.split())):
        assert all(f"cost {cost:.2g}" in text for cost in costs.values()), text


def test_fail_fast_asks_no_judge_if_free_metrics_decide(runs):
    gate(runs, "string_match: 1", "faithfulness: 0.1")
    outcome, calls = runs("--fail-fast", changed=0)
    assert (outcome.code, outcome.document["verdict"], calls) == (1, "FAIL", 0)
    assert {metrics(outcome)[name]["skipped"] for name in ("faithfulness", "answer_relevancy")} == {2}
    (reason,) = reasons(outcome)
    assert reason == "--fail-fast: the verdict is FAIL whatever other scores are: string_match: 0.5 is below 1"
    assert any(f"{reason} (8 scores not computed)" in note for note in outcome.document["notes"])
    promoted = runs.project("runs", "promote", "latest", "--as", "main")
    assert promoted.code == 2
    assert "stopped before all scores, so it cannot become a baseline" in promoted.err
    whole, _ = resume(runs, outcome)
    assert (whole.code, reasons(whole)) == (1, set())


def test_fail_fast_stops_as_soon_as_the_verdict_is_certain(runs):
    runs.change("maxTokens", "concurrency: 1, maxTokens")
    gate(runs, "faithfulness: 0.4")
    outcome, calls = runs("--fail-fast", count=10)  # the replies to 5 of 10 are supported
    assert (outcome.code, outcome.document["verdict"]) == (0, "PASS")
    summary = metrics(outcome)["faithfulness"]
    assert (4 <= summary["scored"] < 10, summary["interval"]) == (True, None)
    assert summary["noInterval"] == "the run stopped before all scores"
    assert metrics(outcome)["answer_relevancy"]["scored"] == 0, "what has no limit is asked last"
    assert calls < 20
    whole, _ = runs(count=10)
    assert whole.document["verdict"] == "PASS"


def test_fail_fast_needs_a_gate(runs):
    outcome, calls = runs("--fail-fast")
    assert (outcome.code, calls) == (2, 0)
    assert "--fail-fast: ciGate is off, so no score can change the verdict" in outcome.err


def test_a_plan_contains_what_the_run_then_uses(runs, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    write(runs.project.folder, 4)

    def plan():
        return {
            one["metric"]: one for one in runs.project("plan", "agent.yaml", "--json").document["datasets"][0]["judge"]
        }

    guessed = plan()
    assert {one["secondsReason"] for one in guessed.values()} == {
        "no stored run of this manifest has asked this judge for it"
    }
    outcome, _ = runs(count=4)
    for name, usage in outcome.document["judgeUsage"].items():
        one = next(one for metric, one in guessed.items() if metric.startswith(name))
        for key, value in (("calls", usage["calls"]), ("inputTokens", usage["inputTokens"])):
            assert one[key][0] <= value <= one[key][1], (name, key)
        cost = outcome.document["judgeCosts"][name]
        assert one["cost"][0] <= cost <= one["cost"][1], name
    known = plan()
    assert [(one["cached"], one["calls"][0], one["source"]) for one in known.values()] == [(4, 0, "measured")] * 4
    assert all(one["seconds"][1] > 0 for one in known.values())
    runs.change("maxTokens", "temperature: 0.1, maxTokens")
    text = runs.project("plan", "agent.yaml").out
    assert max(map(len, text.splitlines())) <= 120
    assert "judged metric" in text


def test_a_plan_from_one_run_has_room_for_longer_replies(runs, monkeypatch):
    runs.change("model: scripted,", f"model: scripted, {PRICE}")
    runs(count=2)
    planned = runs.project("plan", "agent.yaml", "--json").document["datasets"][0]["judge"]
    assert {one["source"] for one in planned} == {"measured"}
    lines = (runs.project.folder / "rag.jsonl").read_text(encoding="utf-8")
    longer = 'days. We pay them to the account of the order. Ask us if not.", "retrieved'
    (runs.project.folder / "rag.jsonl").write_text(lines.replace('days.", "retrieved', longer), encoding="utf-8")
    document = runs.project("evaluate", "agent.yaml", "--responses", "same", "--json", "--fresh").document
    for one in planned:
        name = one["metric"].partition("(")[0]
        used, cost = document["judgeUsage"][name], document["judgeCosts"][name]
        assert one["inputTokens"][0] <= used["inputTokens"] <= one["inputTokens"][1], one
        assert one["outputTokens"][0] <= used["outputTokens"] <= one["outputTokens"][1], one
        assert one["cost"][0] <= cost <= one["cost"][1], one


def test_the_time_limit_holds_for_requests_that_wait_for_their_turn(runs):
    runs.judge.delay = 0.3
    runs.change("apiKey: sk", "concurrency: 1, apiKey: sk")
    outcome, calls = runs("--max-time", "1.5", "--judge-repeat", "4")
    assert (outcome.code, calls <= 1.5 / 0.3 + 1) == (3, True), "of 72"


def test_tokens_that_are_written_to_a_cache_have_their_price(runs):
    runs.judge.states = {"usage": {"prompt_tokens": 10, "completion_tokens": 0, "cache_creation_input_tokens": 4.0}}
    runs.change("apiKey: sk", "price: {input: 1, cacheWrite: 2, output: 1}, apiKey: sk")
    outcome, calls = runs(count=1)
    assert sum(outcome.document["judgeCosts"].values()) == pytest.approx(calls * (6 * 1 + 4 * 2) / 1e6)


def test_a_stopped_run_is_no_side_of_a_comparison(runs):
    whole, _ = runs(count=3)
    stopped, _ = runs("--fresh", "--max-judge-calls", "12", count=3)
    compared = runs.project("compare", stopped.document["runId"], whole.document["runId"])
    assert (compared.code, "the baseline stopped before all scores" in compared.err) == (2, True)
    report = f".evalspec/runs/{stopped.document['runId']}/report.json"
    gate(runs, "string_match: 0", baseline=report)
    gated, _ = runs(count=3)
    assert (gated.code, gated.document["verdict"]) == (3, "INCOMPLETE")
    assert any("stopped before all scores" in reason for reason in gated.document["reasons"])


def test_a_request_that_was_answered_with_no_such_model_is_counted(runs):
    runs.judge.mode = status(404, message="The model `scripted` does not exist")
    outcome, calls = runs(count=1)
    assert (calls, used(outcome)["requests"]) == (1, 1)


@pytest.mark.parametrize("kind", ["cached", "cacheWrite"])
def test_tokens_of_a_cache_that_costs_more_are_reserved_at_its_price(runs, kind):
    runs.change("apiKey: sk", f"price: {{input: 1, {kind}: 100, output: 1}}, apiKey: sk")
    outcome, calls = runs("--max-cost", "0.02", count=1)
    assert (outcome.code, calls) == (3, 0)
