"""Runs whose judge answers in batches: the scores of a run without, and nothing lost or submitted twice."""

import json
import os
import random
import re
import subprocess
import sys
import time

import pytest

from cli.test_budget import gate, metrics, used
from cli.test_judge_cache import A_SAMPLE, FOUR, RUN, Runs, write
from evalspec.api.erasure import erase
from evalspec.runs.store.batch_log import BatchLog
from servers.anthropic_judge import MODEL, AnthropicJudge
from servers.judge_wires import KEY
from servers.scripted_judge import ScriptedJudge

KILLS = int(os.environ.get("JUDGE_KILLS", "6"))
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

    def finish(self, outcome, ends=lambda outcome: outcome.code != 3):
        """Continue until the verdict, and return the outcome and the number of further sessions."""
        for sessions in range(_MOST_ROUNDS):
            if ends(outcome):
                return outcome, sessions
            assert f"evalspec evaluate agent.yaml --resume {outcome.document['runId']}" in outcome.err
            outcome = self.resume(outcome)
        raise AssertionError(outcome.err)

    def is_never_twice(self):
        return len(self.desk.submitted) == len(set(self.desk.submitted))

    def find_log(self, outcome):
        return self.project.folder / ".evalspec" / "runs" / outcome.document["runId"] / "batches.jsonl"


@pytest.fixture(params=["chat"])
def runs(project, request, monkeypatch):
    monkeypatch.setenv("EVALSPEC_NO_CACHE", "1")
    kind, config = WIRES[request.param]
    with kind() as judge, ScriptedJudge() as embedder:
        runs = BatchRuns(project, judge)
        runs.change(f"model: bag, baseUrl: {judge.url}", f"model: bag, baseUrl: {embedder.url}")
        runs.change("model: scripted", config)
        if request.param == "anthropic":
            runs.change(", apiKey: sk-scripted-000", "")
        yield runs
    assert runs.desk.complaints == []


both_wires = pytest.mark.parametrize("runs", WIRES, indirect=True)


def values(outcome):
    samples = outcome.document["datasets"][0]["samples"]
    return {(sample["id"], name): score["value"] for sample in samples for name, score in sample["scores"].items()}


def said(outcome):
    return " ".join(outcome.err.split())


@both_wires
def test_rounds_lead_to_the_verdict_of_a_run_without_batches(runs):
    gate(runs, "faithfulness: 0.5")
    plain, calls = runs()
    runs.judge.chats.clear()
    outcome = runs.begin()
    assert (outcome.code, outcome.document["verdict"], len(runs.desk.batches)) == (3, "INCOMPLETE", 1)
    size = len(runs.desk.batches[0].requests)
    continued = f"evalspec evaluate agent.yaml --resume {outcome.document['runId']}"
    assert f"{size} requests to the judge are in batch batch0; to continue: {continued}" in outcome.err
    whole, sessions = runs.finish(outcome)
    assert (whole.code, whole.document["verdict"], sessions, len(runs.desk.batches)) == (0, "PASS", 2, 2)
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
    assert f"batch batch0 has not ended yet: {len(runs.desk.submitted)} requests, in_progress" in said(again)
    runs.desk.batches[0].fate = "ok"
    assert runs.finish(again)[0].code == 0


@both_wires
@pytest.mark.parametrize("fate", ["expired", "cancelled", "torn"])
def test_what_a_batch_did_not_answer_is_submitted_again(runs, fate):
    plain, calls = runs()
    runs.desk.fates = [fate]
    outcome = runs.begin()
    again = runs.resume(outcome)
    lost = [name for name in runs.desk.batches[0].requests if runs.desk.submitted.count(name) == 2]
    count = {"cancelled": len(runs.desk.batches[0].requests), "torn": 1}.get(fate, len(lost))
    assert 0 < len(lost) == count
    assert re.search(rf"batch0 has no answer to {count} requests?, submitted again if needed: ", said(again))
    whole, _ = runs.finish(again)
    assert (whole.code, values(whole)) == (0, values(plain))
    assert len(runs.desk.submitted) == calls + count


def test_a_batch_that_the_provider_refuses_says_why(runs):
    runs.desk.fates = ["failed"]
    again = runs.resume(runs.begin(count=1))
    assert re.search(
        r"batch0 has no answer to \d requests, submitted again if needed: failed; 'too large'", said(again)
    )
    assert runs.finish(again)[0].code == 0


@both_wires
def test_an_errored_request_is_asked_again_in_the_next_round(runs):
    plain, calls = runs()
    runs.desk.fates = ["errored"]
    whole, _ = runs.finish(runs.begin())
    assert (whole.code, values(whole)) == (0, values(plain))
    assert (len(runs.desk.submitted), runs.is_never_twice()) == (calls + 1, True)
    assert sum(one["retries"] for one in whole.document["judgeUsage"].values()) == 1


@both_wires
def test_unreadable_results_are_read_again_and_nothing_is_submitted(runs):
    runs.desk.fates = ["malformed"]
    outcome = runs.begin(count=1)
    failed = runs.resume(outcome)
    assert (failed.code, len(runs.desk.batches)) == (3, 1)
    assert "the results of batch batch0 cannot be read; nothing is sent again until they can" in said(failed)
    assert f"to resume: evalspec evaluate agent.yaml --resume {outcome.document['runId']}" in failed.err
    runs.desk.batches[0].fate = "ok"
    assert runs.finish(outcome)[0].code == 0
    assert runs.is_never_twice()


@both_wires
@pytest.mark.parametrize("is_ended", [True, False])
def test_a_batch_whose_confirmation_is_lost_is_found_in_the_list(runs, is_ended):
    runs.desk.faults = {"submit": "drop"}
    runs.desk.fates = ["ok" if is_ended else "in_progress"]
    outcome = runs.begin()
    assert outcome.code == 3 and "a batch was not confirmed" in outcome.err
    if not is_ended:
        waiting = runs.resume(outcome)
        assert (waiting.code, len(runs.desk.batches)) == (3, 1)
        runs.desk.batches[0].fate = "ok"
    whole, _ = runs.finish(outcome)
    assert (whole.code, len(runs.desk.batches), runs.is_never_twice()) == (0, 2, True)


@pytest.mark.parametrize(
    ("runs", "step"), [("chat", "upload"), ("chat", "submit"), ("anthropic", "submit")], indirect=["runs"]
)
def test_a_batch_that_never_arrived_is_submitted(runs, step):
    runs.desk.faults = {step: 500}
    outcome = runs.begin(count=1)
    assert (outcome.code, runs.desk.batches) == (3, [])
    assert "a batch was not confirmed: the judge: http" in said(outcome)
    again = runs.resume(outcome)
    assert "never reached the provider, so it is submitted again" in said(again)
    whole, _ = runs.finish(again)
    assert (whole.code, len(runs.desk.submitted), runs.is_never_twice()) == (0, len(runs.judge.chats), True)


def test_batches_of_others_are_not_taken_for_ones_own(runs):
    runs.desk.keeps_marks = False
    runs.desk.fates = ["in_progress"]
    other = runs.begin(count=1)
    runs.desk.faults = {"submit": 500}
    mine = runs.begin(count=1)
    doubtful = runs.resume(mine)
    assert "batch batch0 may be one of this run" in said(doubtful) and len(runs.desk.batches) == 1
    runs.desk.batches[0].fate = "ok"
    assert runs.finish(doubtful)[0].code == runs.finish(other)[0].code == 0
    assert runs.is_never_twice()


def test_a_provider_that_cannot_be_asked_ends_the_session_and_not_the_run(runs):
    outcome = runs.begin(count=1)
    runs.desk.faults = {"one": 403}
    failed = runs.resume(outcome)
    assert (failed.code, len(runs.desk.batches)) == (3, 1)
    assert f"to resume: evalspec evaluate agent.yaml --resume {outcome.document['runId']}" in failed.err
    assert runs.finish(outcome)[0].code == 0


def test_limits_hold_over_rounds(runs):
    outcome = runs.begin("--max-judge-calls", "10")
    for _ in range(3):
        outcome = runs.resume(outcome)
    assert (outcome.code, len(runs.desk.submitted), used(outcome)["requests"]) == (3, 10, 10)
    assert any("--max-judge-calls 10" in note for note in outcome.document["notes"])
    whole, _ = runs.finish(runs.resume(outcome, "--max-judge-calls", "100"))
    assert (whole.code, runs.is_never_twice()) == (0, True)


def test_two_draws_of_one_question_have_two_answers(runs):
    runs.judge.several = "refused"
    whole, _ = runs.finish(runs.begin("--judge-repeat", "2", count=1))
    asked = [json.dumps(chat.body) for chat in runs.judge.chats if chat.kind == "question" and "n" not in chat.body]
    assert (whole.code, len(asked), len(set(asked)), runs.is_never_twice()) == (0, 6, 1, True)
    assert all(metric["scored"] == 1 for metric in metrics(whole).values())


def test_the_cache_is_written_and_cached_answers_are_not_batched(runs, monkeypatch):
    monkeypatch.delenv("EVALSPEC_NO_CACHE")
    first, _ = runs.finish(runs.begin())
    assert not any(name in note for note in first.document["notes"] for name in FOUR), "they are the run's own"
    second = runs.begin()
    assert (second.code, len(runs.desk.submitted)) == (0, 2 * A_SAMPLE)
    assert values(second) == values(first)


def test_what_failed_is_asked_again_on_request(runs):
    runs.judge.mode = "malformed"
    failed, _ = runs.finish(runs.begin(count=1), ends=lambda outcome: "to retry failures" in outcome.err)
    asked = len(runs.desk.submitted)
    assert runs.resume(failed).code == 3 and len(runs.desk.submitted) == asked
    runs.judge.mode = "ok"
    whole, _ = runs.finish(runs.resume(failed, "--retry-errors"))
    assert (whole.code, runs.is_never_twice()) == (0, True)
    assert all(metric["scored"] == 1 for metric in metrics(whole).values())


def test_what_does_not_fit_is_an_error_before_the_first_request(runs):
    gate(runs, "faithfulness: 0.5")
    for option in ("--no-judge", "--no-content", "--fail-fast"):
        outcome = runs.begin(option)
        assert outcome.code == 2 and f"--batch: {option} does not go with it" in said(outcome), outcome.err
    assert runs.desk.asked == []


def test_no_secret_is_in_the_log_and_the_judge_sees_the_same(runs, monkeypatch):
    monkeypatch.setenv("WORD", "Refunds of plan 0")
    runs.change("apiKey: sk-scripted-000", "apiKey: $env:WORD")
    plain, _ = runs(count=1)
    whole, _ = runs.finish(runs.begin(count=1))
    assert (whole.code, values(whole)) == (0, values(plain))
    assert "plan 0" not in runs.find_log(whole).read_text(encoding="utf-8")
    assert (len(runs.desk.submitted), runs.is_never_twice()) == (A_SAMPLE, True)


def test_a_damaged_log_is_said_and_nothing_is_submitted(runs):
    outcome = runs.begin(count=1)
    path = runs.find_log(outcome)
    whole = path.read_bytes()
    path.write_bytes(b"{}\n" + whole)
    failed = runs.resume(outcome)
    assert (failed.code, len(runs.desk.batches)) == (3, 1)
    assert "batches.jsonl:1: the log of batches is damaged, so what was submitted is unknown. restore" in said(failed)
    path.write_bytes(whole + b'{"type": "answ')
    assert runs.finish(outcome)[0].code == 0


def test_erasing_a_sample_leaves_numbers_only(runs):
    whole, _ = runs.finish(runs.begin())
    log = runs.find_log(whole)
    assert "Refunds of plan 0" in log.read_text(encoding="utf-8")
    erase(runs.project.folder, samples=[("rag", "s0")])
    assert "Refunds" not in log.read_text(encoding="utf-8")
    assert used(runs.project("report", "--json")) == used(whole)


class KilledProcess(BaseException):
    """What a test raises in place of a kill."""


@both_wires
@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_kill_at_each_write_loses_nothing(runs, monkeypatch, number, share):
    """The writes: the intent, the provider's name for the batch, its answers, the next intent. `share`: what of it is
    on disk.
    """
    written = []

    def append(log, records):
        written.append(records)
        if len(written) != number:
            return whole(log, records)
        whole(log, records)
        content = log._path.read_bytes()
        last = len(b"".join(content.splitlines(keepends=True)[-len(records) :]))
        log._path.write_bytes(content[: len(content) - last + int(share * last)])
        raise KilledProcess

    whole = BatchLog.append
    plain, calls = runs(count=1)
    with monkeypatch.context() as patch:
        patch.setattr(BatchLog, "append", append)
        with pytest.raises(KilledProcess):
            runs.finish(runs.begin(count=1))
    first = runs.project("evaluate", "agent.yaml", "--json", "--resume", find_newest(runs))
    finished, _ = runs.finish(first)
    assert (finished.code, values(finished), used(finished)) == (0, values(plain), used(plain))
    assert (len(runs.desk.submitted), runs.is_never_twice()) == (calls, True)


def start(runs, *command):
    quiet = subprocess.DEVNULL
    line = [sys.executable, "-m", "evalspec", *command]
    return subprocess.Popen(line, cwd=runs.project.folder, stdout=quiet, stderr=quiet)


@both_wires
def test_killed_at_any_time_nothing_is_lost_and_nothing_submitted_twice(runs):
    """Kills are numbered, and each number has its moment."""
    write(runs.project.folder, 3)
    for number in range(KILLS):
        name = find_newest(runs)
        process = start(runs, *(("evaluate", "agent.yaml", "--resume", name) if name else (*RUN, "--batch")))
        time.sleep(random.Random(number).uniform(0.5, 6.0))
        process.kill()
        process.wait()
    name = find_newest(runs)
    first = runs.project("evaluate", "agent.yaml", "--json", "--resume", name) if name else runs.begin(count=3)
    whole, _ = runs.finish(first)
    assert (whole.code, runs.is_never_twice()) == (0, True)
    assert all(metric["scored"] == 3 for metric in metrics(whole).values())


def find_newest(runs):
    found = runs.project.folder.glob(".evalspec/runs/*-*/run.json")
    return max((path.parent.name for path in found), default=None)
