"""Values from the environment: in no file of a run, and every score as if they had never been hidden."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

TENANT = "billing"


@pytest.fixture
def tenants(project, agent, monkeypatch):
    """Answers, expected answers, a slice, a cluster, tags and document ids that all hold the value of a variable."""
    monkeypatch.setenv("TENANT", TENANT)
    agent.reply = lambda body: {
        "response": f"ask {TENANT} about it",
        "contexts": [{"id": f"{TENANT}-7", "text": f"the {TENANT} desk"}],
    }
    response = {"answer": "$.response", "contexts": "$.contexts[*].text", "contextIds": "$.contexts[*].id"}
    endpoint = {"path": "/v1/chat", "protocol": "custom", "request": {"message": "{{input}}"}, "response": response}
    project.api = {"url": agent.url, "chatEndpoint": endpoint | {"headers": {"X-Tenant": "$env:TENANT"}}}
    rows = [
        {
            "id": f"s{n}",
            "input": f"who, q{n}?",
            "expected": TENANT if n % 2 else "nobody",
            "relevant": [f"{TENANT}-7"],
            "tags": [TENANT],
            "metadata": {"tenant": TENANT if n % 3 else "sales", "flag": True},
        }
        for n in range(12)
    ]
    project.dataset("qa", rows, metrics=["string_match", "rouge", "Recall@5"], cluster="tenant")
    project.evaluation |= {
        "thresholds": {
            "string_match": [{"min": 0.4}, {"min": 0.4, "slice": f"tenant={TENANT}"}, {"min": 0.4, "slice": TENANT}],
            "Recall@5": 1.0,
        },
        "ciGate": True,
    }
    return project


def numbers(document):
    (dataset,) = document["datasets"]
    samples = {
        sample["id"]: {name: score["value"] for name, score in sample["scores"].items() if "latency" not in name}
        for sample in dataset["samples"]
    }
    outcomes = [(limit["metric"], limit["slice"], limit["status"], limit["value"]) for limit in dataset["thresholds"]]
    slices = [(part["name"], part["selected"]) for part in dataset["slices"]]
    intervals = {name: dataset["metrics"][name]["interval"] for name in ("string_match", "rouge", "Recall@5")}
    return document["verdict"], samples, outcomes, slices, intervals


def files_with(folder, text):
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_no_value_is_on_disk_and_every_number_is_the_same_however_it_came_about(tenants, agent):
    undisturbed = tenants.evaluate("--json")
    assert undisturbed.code == 0, undisturbed.err
    wanted = numbers(undisturbed.document)
    assert [status for _, _, status, _ in wanted[2]] == ["PASS"] * 4
    assert wanted[1]["s1"]["string_match"] == 1
    agent.delay = 0.05
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-j", "2"]
    process = subprocess.Popen(command, cwd=tenants.folder, start_new_session=True, stderr=subprocess.DEVNULL)
    seen, deadline = len(agent.requests), time.monotonic() + 30
    while len(agent.requests) < seen + 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert numbers(tenants.evaluate("--json", "--resume", "latest").document) == wanted
    for arguments in (["report", "latest"], ["rescore", "latest", "agent.yaml", "--fresh"], ["report", "latest"]):
        assert numbers(tenants(*arguments, "--json").document) == wanted, arguments
    assert not files_with(tenants.folder / ".evalspec", TENANT)


def test_a_report_needs_no_environment(tenants, monkeypatch):
    wanted = numbers(tenants.evaluate("--json").document)
    monkeypatch.delenv("TENANT")
    assert numbers(tenants("report", "latest", "--json").document) == wanted


@pytest.mark.parametrize("now", ["sales", None])
def test_replies_that_hide_another_value_are_not_scored_again(now, tenants, monkeypatch):
    assert tenants.evaluate().code == 0
    if now is None:
        monkeypatch.delenv("TENANT")
        del tenants.api["chatEndpoint"]["headers"]
    else:
        monkeypatch.setenv("TENANT", now)
    outcome = tenants("rescore", "latest", "agent.yaml")
    assert outcome.code == 2
    state = "is not set" if now is None else "has changed"
    assert f"$env:TENANT {state}, and the replies to s0, s1, s10, s11, s2, … quote the original value" in outcome.err
    assert len(list((tenants.folder / ".evalspec" / "runs").glob("*-*"))) == 1, "no run is begun"
    resumed = tenants.evaluate("--resume", "latest")
    assert (resumed.code, "env:TENANT" in resumed.err or "headers" in resumed.err) == (2, True)


def test_another_key_is_no_matter_where_no_reply_quotes_it(tenants, agent, monkeypatch):
    monkeypatch.setenv("KEY", "the-first-key")
    tenants.api["chatEndpoint"]["headers"]["Authorization"] = "Bearer ${env:KEY}"
    assert tenants.evaluate().code == 0
    monkeypatch.setenv("KEY", "a-second-key")
    assert tenants("rescore", "latest", "agent.yaml", "--fresh").code == 0
    agent.reply = {"response": "it is a-second-key", "contexts": []}
    resumed = tenants.evaluate("--resume", "--retry-errors", "--json")
    assert resumed.code == 0, "everything was asked already"
    described = json.loads(next((tenants.folder / ".evalspec" / "runs").glob("latest/run.json")).read_text())
    assert "env:KEY" in described["fingerprint"]["references"]


def test_a_public_value_stays_readable(tenants):
    tenants.api["chatEndpoint"]["headers"] = {"X-Tenant": "$env:TENANT:public"}
    document = tenants.evaluate("--json").document
    assert document["datasets"][0]["thresholds"][1]["slice"] == f"tenant={TENANT}"
    assert files_with(tenants.folder / ".evalspec", TENANT)


@pytest.mark.parametrize("excerpt", [f"{'x' * 120} {'secret-' * 30}", f"{' ' * 620}{'secret-' * 30}"])
def test_a_value_is_hidden_before_an_excerpt_cuts_it(excerpt, tenants, agent, monkeypatch):
    monkeypatch.setenv("KEY", "secret-" * 30)
    tenants.api["chatEndpoint"]["headers"]["Authorization"] = "Bearer ${env:KEY}\n".strip()
    agent.reply = {"error": excerpt}
    outcome = tenants.evaluate("--json")
    assert "secret-" not in outcome.out + outcome.err
    assert not files_with(tenants.folder / ".evalspec", "secret-")


def test_a_value_that_stands_in_a_digest_changes_nothing(tenants, monkeypatch):
    """A port of four digits occurs in one digest of a few hundred by chance: here it surely does."""
    assert tenants.evaluate().code == 0
    fingerprint = json.loads((tenants.folder / ".evalspec/runs/latest/run.json").read_text())["fingerprint"]
    monkeypatch.setenv("PORT", fingerprint["datasets"][0]["sha256"][10:14])
    tenants.api["chatEndpoint"]["headers"]["X-Port"] = "$env:PORT"
    tenants.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.1}
    assert tenants.evaluate().code == 3
    assert tenants("runs", "promote", "latest", "--as", "main").code == 0
    outcome = tenants.evaluate("--json")
    assert outcome.code == 0, outcome.document["reasons"]
    assert tenants("runs", "verify").code == 0
    assert tenants("rescore", "latest", "agent.yaml", "--fresh").code == 0
