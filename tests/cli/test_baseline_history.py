"""A history of runs: baselines of several runs, drops that are confirmed, anchors, and edited files."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from evalspec.base.json_text import compute_digest
from servers.ports import find_free_port
from servers.service import wait_for

SAMPLES = 40


class Answers:
    """An agent that is asked each question several times. `wrong`: for each time, how many questions it gets wrong."""

    def __init__(self, *wrong):
        self.wrong, self.times = wrong, Counter()

    def __call__(self, body):
        number = int(body["message"][1:])
        wrong = self.wrong[min(self.times[number], len(self.wrong) - 1)]
        self.times[number] += 1
        return {"response": "Lyon" if number < wrong else "Paris"}


@pytest.fixture
def history(project, agent):
    """Forty samples, all right; promote() makes a baseline of the latest run."""
    project.api = {"url": agent.url}
    project.dataset("qa", [{"id": f"s{n}", "input": f"q{n}"} for n in range(SAMPLES)], metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": 0.1}, "ciGate": {"baseline": "main"}}
    agent.reply = Answers(0)
    return project


def promote(project, *arguments):
    outcome = project("runs", "promote", "latest", "--as", "main", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome.err


def baseline_of(project):
    return json.loads((project.folder / "evals" / "baselines" / "main.json").read_text())


def drop_of(outcome, against="baseline"):
    (found,) = (one for one in outcome.document["regressions"] if one["against"] == against)
    return found


@pytest.fixture
def promoted(history):
    history.evaluate()
    promote(history)
    return history


def test_a_drop_that_does_not_repeat_passes_and_the_headline_is_the_first_runs(promoted, agent):
    agent.reply = Answers(10, 0)
    outcome = promoted.evaluate("--json")
    drop = drop_of(outcome)
    assert (outcome.code, drop["status"], drop["candidate"]) == (0, "PASS", 0.75)
    assert (drop["confirmation"]["status"], drop["confirmation"]["candidate"]) == ("refuted", 1.0)
    assert ", but not in second attempts: " in drop["reason"]
    assert outcome.document["datasets"][0]["metrics"]["string_match"]["value"] == 0.75
    assert any("1 of the 5 attempts" in note for note in outcome.document["notes"])
    assert "qa: string_match: a drop was significant in the first attempts, but not in the second" in str(
        outcome.document
    )
    assert "40 second attempts were made to confirm a drop" in outcome.document["notes"]
    assert "confirming 1 metric on 40 samples" in outcome.err
    assert promoted("report", "--json").document == outcome.document
    assert len(agent.requests) == SAMPLES * 3


def test_a_drop_that_repeats_fails(promoted, agent):
    agent.reply = Answers(10)
    outcome = promoted.evaluate("--json")
    drop = drop_of(outcome)
    assert (outcome.code, drop["status"], drop["confirmation"]["status"]) == (1, "FAIL", "confirmed")
    assert drop["confirmation"]["pairs"] == SAMPLES
    assert "; confirmed by second attempts: " in drop["reason"]
    assert promoted("report", "--json").document == outcome.document


def test_what_cannot_be_asked_again_fails_unconfirmed(promoted, agent):
    lines = [{"id": f"s{n}", "response": "Lyon" if n < 10 else "Paris"} for n in range(SAMPLES)]
    (promoted.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = promoted.evaluate("--responses", "replies.jsonl", "--json")
    assert (recorded.code, drop_of(recorded)["confirmation"]["status"]) == (1, "not confirmed")
    assert drop_of(recorded)["reason"].endswith("; not confirmed: the replies are recorded, so they would be the same")
    assert promoted("report", "--json").document == recorded.document


def test_a_limit_that_is_broken_anyway_asks_nothing_again(promoted, agent):
    promoted.evaluation["thresholds"] = {"string_match": 0.9}
    agent.reply = Answers(10)
    asked = len(agent.requests)
    outcome = promoted.evaluate("--json")
    assert (outcome.code, len(agent.requests) - asked) == (1, SAMPLES)
    assert drop_of(outcome)["confirmation"]["status"] == "not confirmed"


def test_an_agent_that_goes_down_meanwhile_leaves_the_drop_unconfirmed(promoted, agent):
    first = Answers(10)

    def reply(body):
        return first(body) if sum(first.times.values()) < SAMPLES else (500, {})

    agent.reply = reply
    promoted.api["chatEndpoint"] = {"maxRetries": 0}
    outcome = promoted.evaluate("--json")
    assert (outcome.code, drop_of(outcome)["status"]) == (1, "FAIL")
    assert drop_of(outcome)["confirmation"]["status"] == "not confirmed"
    assert outcome.document["datasets"][0]["samples"][0]["status"] == "answered"


def test_a_confirmation_that_is_killed_goes_on_where_it_was(promoted, agent):
    agent.reply, seen = Answers(10, 0), len(agent.requests)
    agent.script, agent.mode = ["ok"] * (SAMPLES + 5), "hang"
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-j", "2"]
    process = subprocess.Popen(command, cwd=promoted.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(agent.requests) == seen + SAMPLES + 5 + 2)
    process.kill()
    process.wait()
    agent.mode = "ok"
    outcome = promoted.evaluate("--resume", "latest", "--json")
    assert (outcome.code, drop_of(outcome)["confirmation"]["status"]) == (0, "refuted")
    assert 2 * SAMPLES <= len(agent.requests) - seen <= 2 * SAMPLES + 2, "at most the two in flight are asked again"


def test_new_failures_are_confirmed_too(promoted, agent):
    promoted.evaluation["thresholds"] = {"string_match": 0.5}
    promoted.evaluation["ciGate"] |= {"newFailures": 0, "maxDrop": 0.9}
    agent.reply = Answers(0)
    promoted.evaluate("--repeat", "5")
    promote(promoted)
    for wrong, code, said in (((10,) * 10, 1, "confirmed"), ((10,) * 5 + (0,) * 5, 0, "refuted")):
        agent.reply = Answers(*wrong)
        outcome = promoted.evaluate("--repeat", "5", "--json")
        found = outcome.document["regressions"][1]
        assert (outcome.code, found["metric"], found["confirmation"]["status"]) == (code, None, said)


def test_a_baseline_pools_several_runs(promoted, agent):
    assert "5 attempts per sample" in promote(promoted)
    promoted.evaluation["ciGate"] = {}
    for _ in range(2):
        promoted.evaluate()
        said = promote(promoted, "--add")
    assert "which has 3 attempts per sample" in said
    runs = baseline_of(promoted)["fingerprint"]["runs"]
    assert [one["attempts"] for one in runs] == [1, 1, 1]
    assert baseline_of(promoted)["datasets"][0]["samples"][0]["scores"]["string_match"] == [1.0] * 3
    promoted.evaluation["ciGate"] = {"baseline": "main"}
    agent.reply = Answers(6)
    drop = drop_of(promoted.evaluate("--json"))
    assert (drop["status"], drop["delta"]) == ("FAIL", pytest.approx(-6 / SAMPLES))


def test_a_run_that_measured_something_else_is_not_added(promoted):
    outcome = promoted("runs", "promote", "latest", "--as", "main", "--add")
    assert (outcome.code, "is in this baseline already" in outcome.err) == (2, True)
    promoted.evaluate("--sample-size", "20")
    outcome = promoted("runs", "promote", "latest", "--as", "main", "--add")
    assert (outcome.code, "it has other samples, 20 only in the baseline" in outcome.err) == (2, True)
    assert promoted("runs", "promote", "latest", "--as", "other", "--add").code == 2


def drift(project, agent, wrong):
    """Evaluate with so many wrong answers, and promote the run, as somebody does after each PASS."""
    agent.reply = Answers(wrong)
    outcome = project.evaluate("--json")
    return outcome, promote(project) if outcome.code == 0 else ""


def test_small_steps_fail_at_the_anchor(promoted, agent):
    """Each step loses two of forty, which no test of neighbours can show."""
    outcomes = []
    for wrong in range(2, 21, 2):
        outcome, said = drift(promoted, agent, wrong)
        outcomes.append(outcome)
        if outcome.code:
            break
        assert f"worse than the anchor: qa: string_match 1 → {1 - wrong / SAMPLES:.4g}" in said
    last = outcomes[-1]
    assert (last.code, drop_of(last)["status"], drop_of(last, "anchor")["status"]) == (1, "PASS", "FAIL")
    assert any("string_match against the anchor" in reason for reason in last.document["reasons"])
    accepted = promote(promoted, "--anchor", "the new corpus is harder")
    assert "loss accepted: the new corpus is harder: qa: string_match 1 → " in accepted
    document = baseline_of(promoted)
    assert ("anchor" in document, document["accepted"]["reason"]) == (False, "the new corpus is harder")
    assert promoted.evaluate("--json").code == 0


def test_an_anchor_that_cannot_be_compared_is_no_reason_to_stop(promoted, agent):
    promoted.evaluate()
    promote(promoted)
    assert baseline_of(promoted)["anchor"]["runId"] != baseline_of(promoted)["runId"]
    path = promoted.folder / "qa.jsonl"
    path.write_text(path.read_text().replace('"q', '"what is q'))
    agent.reply = lambda body: {"response": "Paris"}
    promoted.evaluation["ciGate"] = {}
    promoted.evaluate()
    promote(promoted)
    promoted.evaluation["ciGate"] = {"baseline": "main"}
    outcome = promoted.evaluate("--json")
    assert (outcome.code, drop_of(outcome)["status"]) == (0, "PASS")
    anchored = drop_of(outcome, "anchor")
    assert (anchored["status"], "the anchor cannot be compared" in anchored["reason"]) == ("NOT_GATED", True)


def test_an_edited_baseline_is_refused_and_a_reformatted_one_is_not(promoted):
    path = promoted.folder / "evals" / "baselines" / "main.json"
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text), indent=4, sort_keys=True))
    assert promoted.evaluate().code == 0
    path.write_text(text.replace('"string_match": 1.0', '"string_match": 0.0', 1))
    outcome = promoted.evaluate()
    assert (outcome.code, "main.json: this baseline was edited" in outcome.err) == (2, True)
    assert promoted("compare", "evals/baselines/main.json", "latest").code == 2
    assert "its anchor is lost" in promote(promoted)


def test_promoting_a_partial_run_warns(history):
    history.evaluate("--sample-size", "20")
    assert "is PARTIAL" in promote(history)
    assert baseline_of(history)["partial"] is True


def test_a_refuted_drop_leaves_open_what_removed_samples_could_change(promoted, agent):
    """A worse first run passed where a perfect one was INCOMPLETE."""
    path = promoted.folder / "qa.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:30]))
    for wrong in ((0,), (10, 0)):
        agent.reply = Answers(*wrong)
        drop = drop_of(promoted.evaluate("--json"))
        assert (drop["status"], "10 samples of the baseline are gone" in drop["reason"]) == ("INCOMPLETE", True)


def test_a_refuted_drop_is_no_proof_that_nothing_is_worse(promoted, agent):
    promoted.evaluation["ciGate"] |= {"regression": "notWorse", "maxDrop": 0.02}
    agent.reply = Answers(10, 0)
    outcome = promoted.evaluate("--json")
    assert (outcome.code, drop_of(outcome)["status"]) == (3, "INCOMPLETE")
    assert drop_of(outcome)["confirmation"]["status"] == "refuted"
    assert "cannot be ruled out" in drop_of(outcome)["reason"]


def test_a_command_that_starts_only_once_serves_the_confirmation_too(promoted, agent, tmp_path):
    """It is not stopped in between. What cannot be started again leaves the drop unconfirmed, and loses no run."""
    script = tmp_path / "once.py"
    script.write_text(AGENT_THAT_STARTS_ONCE)
    with_command = {"url": f"http://127.0.0.1:{find_free_port()}", "command": [sys.executable, str(script)]}
    promoted.api.update(with_command)
    outcome = promoted.evaluate("--json")
    assert (outcome.code, drop_of(outcome)["confirmation"]["status"]) == (1, "confirmed"), outcome.err
    run = outcome.document["runId"]
    log = promoted.folder / ".evalspec" / "runs" / run / "samples.jsonl"
    kept = [line for line in log.read_bytes().splitlines(keepends=True) if b'"attempt":1' in line]
    log.write_bytes(b"".join(kept))
    (promoted.folder / ".evalspec" / "runs" / run / "report.json").unlink()
    stored = promoted("report", run, "--json")
    assert (stored.code, drop_of(stored)["status"]) == (3, "INCOMPLETE"), "its confirmation is not finished"
    assert "resume the run" in drop_of(stored)["reason"]
    resumed = promoted.evaluate("--resume", run, "--json")
    assert (resumed.code, drop_of(resumed)["confirmation"]["status"]) == (1, "not confirmed")
    assert "the agent did not start" in drop_of(resumed)["reason"]


AGENT_THAT_STARTS_ONCE = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

try:
    os.close(os.open(Path(__file__).with_suffix(".lock"), os.O_CREAT | os.O_EXCL))
except FileExistsError:
    sys.exit("already started once")

class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        number = int(body.get("message", "q99")[1:])
        answer = json.dumps({"response": "Lyon" if number < 10 else "Paris"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass

url = next(line for line in Path("agent.yaml").read_text().split() if "127.0.0.1" in line).strip("',}")
ThreadingHTTPServer(("127.0.0.1", urlsplit(url).port), Agent).serve_forever()
"""


def test_baseline_and_anchor_keep_their_levels_in_the_confirmation(promoted, agent):
    """Six of forty have p = 0.016: too much for the level of a baseline beside an anchor, in both tests."""
    agent.reply = Answers(8)
    promoted.evaluation["ciGate"] = {}
    promoted.evaluate()
    (promoted.folder / "evals" / "baselines" / "main.json").unlink()
    promote(promoted)
    agent.reply = Answers(0)
    promoted.evaluate()
    promote(promoted)
    promoted.evaluation["ciGate"] = {"baseline": "main"}
    for wrong in ((6,), (9, 6)):
        agent.reply = Answers(*wrong)
        outcome = promoted.evaluate("--json")
        assert (outcome.code, drop_of(outcome)["status"]) == (0, "PASS"), drop_of(outcome)
        assert "not significant (p = 0.016 at level 0.0" in drop_of(outcome)["reason"]


def test_attempts_beyond_a_full_pool_have_an_anchor(promoted, agent):
    agent.reply = Answers(0)
    promoted.evaluation["ciGate"] = {}
    for number in range(1, 6):
        assert ("anchor" in baseline_of(promoted)) is False, number
        promoted.evaluate()
        promote(promoted, "--add")
    document = baseline_of(promoted)
    assert [sum(run["attempts"] for run in one["fingerprint"]["runs"]) for one in (document, document["anchor"])] == [
        6,
        5,
    ]


def test_an_anchor_needs_a_reason(promoted):
    outcome = promoted("runs", "promote", "latest", "--as", "main", "--anchor", "  ")
    assert (outcome.code, "--anchor needs a reason" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ciGate", {"nonsense": 1}, "fingerprint.ciGate.nonsense"),
        ("ciGate", {"maxDrop": "x"}, "fingerprint.ciGate.maxDrop"),
        ("runs", [1], "runs[0]"),
        ("runs", [{"id": "a", "attempts": "x"}], "runs[0].attempts"),
    ],
)
def test_a_baseline_with_wrong_types_is_refused_before_the_run(key, value, said, promoted, agent):
    document = baseline_of(promoted)
    document["fingerprint"][key] = value
    del document["sha256"]
    document["sha256"] = compute_digest(document)
    (promoted.folder / "evals" / "baselines" / "main.json").write_text(json.dumps(document))
    asked = len(agent.requests)
    outcome = promoted.evaluate()
    assert (outcome.code, said in outcome.err, "bug" in outcome.err) == (2, True, False), outcome.err
    assert len(agent.requests) == asked
