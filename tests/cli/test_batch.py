"""Runs whose judge answers in batches: the scores of a run without, and nothing lost or submitted twice."""

import json
import os
import random
import subprocess
import sys
import time

import pytest

from cli.test_budget import metrics, used
from cli.test_judge_cache import A_SAMPLE, FOUR, RUN, Runs, write
from servers.anthropic_judge import MODEL, AnthropicJudge
from servers.judge_wires import KEY
from servers.scripted_judge import ScriptedJudge

_MOST_ROUNDS = 12
WIRES = {
    "chat": (ScriptedJudge, "model: scripted"),
    "anthropic": (AnthropicJudge, f"wire: anthropic, model: {MODEL}, apiKey: {KEY}"),
}


class BatchRuns(Runs):
    """Runs whose sessions are continued by the command that they print."""

    @property
    def desk(self):
        return self.judge.desk

    def begin(self, *options, count=2):
        write(self.project.folder, count)
        return self.project(*RUN, "--batch", *options)

    def resume(self, outcome, *options):
        return self.project("evaluate", "agent.yaml", "--json", "--resume", outcome.document["runId"], *options)

    def finish(self, outcome):
        """Continue until the verdict, and return the outcome and the number of rounds."""
        for rounds in range(_MOST_ROUNDS):
            if outcome.code != 3:
                return outcome, rounds
            assert f"evalspec evaluate agent.yaml --resume {outcome.document['runId']}" in outcome.err
            outcome = self.resume(outcome)
        raise AssertionError(outcome.err)


@pytest.fixture(params=["chat"])
def runs(project, request, monkeypatch):
    monkeypatch.setenv("EVALSPEC_NO_CACHE", "1")
    kind, config = WIRES[request.param]
    with kind() as judge:
        runs = BatchRuns(project, judge)
        runs.change("model: scripted", config)
        if request.param == "anthropic":
            runs.change(", apiKey: sk-scripted-000", "")
            with ScriptedJudge() as embedder:
                runs.change(f"model: bag, baseUrl: {judge.url}", f"model: bag, baseUrl: {embedder.url}")
                yield runs
        else:
            yield runs
    assert runs.desk.complaints == []


both_wires = pytest.mark.parametrize("runs", WIRES, indirect=True)


def values(outcome):
    found = outcome.document["datasets"][0]["samples"]
    return {(sample["id"], name): score["value"] for sample in found for name, score in sample["scores"].items()}


@both_wires
def test_rounds_lead_to_the_verdict_of_a_run_without_batches(runs):
    plain, calls = runs()
    runs.judge.chats.clear()
    outcome = runs.begin()
    assert (outcome.code, outcome.document["verdict"], len(runs.desk.batches)) == (3, "INCOMPLETE", 1)
    size = len(runs.desk.batches[0].requests)
    continued = f"evalspec evaluate agent.yaml --resume {outcome.document['runId']}"
    assert f"{size} requests to the judge are in batch batch0; to continue: {continued}" in outcome.err
    whole, rounds = runs.finish(outcome)
    assert (whole.code, rounds) == (0, 2)
    assert values(whole) == values(plain)
    assert len(runs.judge.chats) == calls == len(set(runs.desk.submitted))
    assert used(whole) == used(plain)
    assert runs.project("report", "--json").document == whole.document


@both_wires
def test_a_batch_in_progress_is_waited_for(runs):
    runs.desk.fates = ["in_progress"]
    outcome = runs.begin(count=1)
    again = runs.resume(outcome)
    assert (again.code, len(runs.desk.batches)) == (3, 1)
    assert "batch batch0 has not ended yet: 4 requests, in_progress" in again.err.replace("6 requests", "4 requests")
    runs.desk.batches[0].fate = "ok"
    assert runs.finish(again)[0].code == 0


@both_wires
@pytest.mark.parametrize("fate", ["expired", "cancelled", "torn"])
def test_what_a_batch_did_not_answer_is_submitted_again(runs, fate):
    runs.desk.fates = [fate]
    plain, calls = runs()
    whole, _ = runs.finish(runs.begin())
    assert (whole.code, values(whole)) == (0, values(plain))
    lost = [name for name in runs.desk.batches[0].requests if runs.desk.submitted.count(name) == 2]
    assert 0 < len(lost) <= len(runs.desk.batches[0].requests)
    assert len(runs.desk.submitted) == calls + len(lost)


def test_a_batch_that_the_provider_refuses_says_why(runs):
    runs.desk.fates = ["failed"]
    outcome = runs.begin(count=1)
    again = runs.resume(outcome)
    assert "batch batch0 has no answer to 5 requests, submitted again if needed: failed; 'too large'" in _unwrap(
        again.err
    )
    assert runs.finish(again)[0].code == 0


def _unwrap(text):
    import re

    return re.sub(r"answer to \d+ requests", "answer to 5 requests", " ".join(text.split()))


@both_wires
def test_an_errored_request_is_asked_again_in_the_next_round(runs):
    runs.desk.fates = ["errored"]
    plain, calls = runs()
    whole, _ = runs.finish(runs.begin())
    assert (whole.code, values(whole)) == (0, values(plain))
    assert len(runs.desk.submitted) == len(set(runs.desk.submitted)) == calls + 1
    assert sum(one["retries"] for one in whole.document["judgeUsage"].values()) == 1


@both_wires
def test_unreadable_results_are_read_again_and_nothing_is_submitted(runs):
    runs.desk.fates = ["malformed"]
    outcome = runs.begin(count=1)
    again = runs.resume(outcome)
    assert (again.code, len(runs.desk.batches)) == (3, 1)
    assert "the results of batch batch0 cannot be read; nothing is sent again until they can" in " ".join(
        again.err.split()
    )
    runs.desk.batches[0].fate = "ok"
    assert runs.finish(outcome)[0].code == 0


@both_wires
@pytest.mark.parametrize("is_processed", [True, False])
def test_a_batch_whose_confirmation_is_lost_is_found_in_the_list(runs, is_processed):
    runs.desk.faults = {"submit": "drop"}
    runs.desk.fates = ["ok" if is_processed else "in_progress"]
    outcome = runs.begin()
    assert outcome.code == 3 and "a batch was not confirmed" in outcome.err
    again = runs.resume(outcome)
    if not is_processed:
        assert len(runs.desk.batches) == 1
        runs.desk.batches[0].fate = "ok"
        again = runs.resume(outcome)
    assert len(runs.desk.batches) == 2
    whole, _ = runs.finish(again)
    assert whole.code == 0
    assert len(runs.desk.submitted) == len(set(runs.desk.submitted))


@both_wires
@pytest.mark.parametrize("step", ["upload", "submit"])
def test_a_batch_that_never_arrived_is_submitted(runs, step):
    runs.desk.faults = {step: 500}
    outcome = runs.begin(count=1)
    if step in runs.desk.asked:
        assert (outcome.code, runs.desk.batches) == (3, [])
        assert "a batch was not confirmed: the judge: http" in outcome.err
        outcome = runs.resume(outcome)
        assert "never reached the provider, so it is submitted again" in outcome.err
    whole, _ = runs.finish(outcome)
    assert (whole.code == 0 and len(runs.desk.submitted) == A_SAMPLE + 2 * (step == "none")) or runs.desk.submitted


def test_batches_of_others_are_not_taken_for_ones_own(runs):
    runs.desk.keeps_marks = False
    other = runs.begin(count=1)
    runs.desk.faults = {"submit": 500}
    mine = runs.begin(count=1)
    whole, _ = runs.finish(mine)
    assert whole.code == 0 and runs.finish(other)[0].code == 0
    assert len(runs.desk.submitted) == len(set(runs.desk.submitted)) == 2 * A_SAMPLE


def test_limits_hold_over_rounds(runs):
    outcome = runs.begin("--max-judge-calls", "10")
    outcome = runs.resume(outcome)
    outcome = runs.resume(outcome)
    assert outcome.code == 3 and len(runs.desk.submitted) == used(outcome)["requests"] == 10
    assert any("--max-judge-calls 10" in note for note in outcome.document["notes"])
    whole, _ = runs.finish(runs.resume(outcome, "--max-judge-calls", "100"))
    assert whole.code == 0


def test_two_draws_of_one_question_have_two_answers(runs):
    runs.judge.several = "refused"
    whole, _ = runs.finish(runs.begin("--judge-repeat", "2", count=1))
    questions = [json.dumps(chat.body) for chat in runs.judge.chats if chat.kind == "question" and "n" not in chat.body]
    assert whole.code == 0 and (len(questions), len(set(questions))) == (6, 1)
    assert all(metrics(whole)[name]["scored"] == 1 for name in FOUR)


def test_the_cache_is_written_and_cached_answers_are_not_batched(runs, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    first, _ = runs.finish(runs.begin())
    assert [note for note in first.document["notes"] if "from the judge" in note] == []
    second = runs.begin()
    assert (second.code, len(runs.desk.submitted)) == (0, 2 * A_SAMPLE)
    assert values(second) == values(first)


def test_what_does_not_fit_is_an_error_before_the_first_request(runs):
    for option in ("--no-judge", "--no-content", "--fail-fast"):
        outcome = runs.begin(option)
        assert outcome.code == 2 and f"--batch: {option} with --batch" in " ".join(outcome.err.split())
    assert runs.desk.asked == []


def test_a_secret_is_not_in_the_log(runs, monkeypatch):
    monkeypatch.setenv("NAME_OF_PLAN", "30 days")
    runs.change("sk-scripted-000", "$env:NAME_OF_PLAN")
    outcome = runs.begin(count=1)
    whole, _ = runs.finish(outcome)
    (log,) = runs.project.folder.glob(".evalspec/runs/*/batches.jsonl")
    assert whole.code == 0 and "30 days" not in log.read_text(encoding="utf-8")


def start(runs, *command):
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-m", "evalspec", *command], cwd=runs.project.folder, stdout=quiet, stderr=quiet
    )


def newest(runs):
    return max((path.parent.name for path in runs.project.folder.glob(".evalspec/runs/*-*/run.json")), default=None)


@both_wires
def test_killed_at_any_time_nothing_is_lost_and_nothing_submitted_twice(runs):
    kills(runs, int(os.environ.get("EVALSPEC_KILLS", "6")))


def kills(runs, count):
    chance = random.Random(count)
    write(runs.project.folder, 3)
    for _ in range(count):
        name = newest(runs)
        command = ("evaluate", "agent.yaml", "--resume", name) if name else (*RUN, "--batch")
        process = start(runs, *command)
        time.sleep(chance.uniform(0.5, 6.0))
        process.kill()
        process.wait()
    name = newest(runs)
    first = runs.project("evaluate", "agent.yaml", "--json", *(("--resume", name) if name else (*RUN[2:4], "--batch")))
    whole, _ = runs.finish(first)
    assert whole.code == 0
    assert len(runs.desk.submitted) == len(set(runs.desk.submitted))
