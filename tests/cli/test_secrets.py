"""Values from the environment: in no file of a run, and every score as if they had never been hidden."""

import json
import os
import signal
import subprocess
import sys

import pytest

from servers.service import wait_for

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
    return {path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()}


def test_no_value_is_on_disk_and_every_number_is_the_same_however_it_came_about(tenants, agent):
    undisturbed = tenants.evaluate("--json")
    assert undisturbed.code == 0, undisturbed.err
    wanted = numbers(undisturbed.document)
    assert [status for _, _, status, _ in wanted[2]] == ["PASS"] * 4
    assert wanted[1]["s1"]["string_match"] == 1
    seen, agent.script, agent.mode = len(agent.requests), ["ok"] * 3, "hang"
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-j", "2"]
    process = subprocess.Popen(command, cwd=tenants.folder, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(agent.requests) == seen + 5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    agent.mode = "ok"
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


RAISES = """
import os
def ask(question):
    if question.endswith("0?"):
        raise ValueError(f"no access with {os.environ['SHOP_API_KEY']}, {os.environ['CACHE_KEY']}")
    return f"Paris {os.environ['SHOP_API_KEY'].upper()}"
"""
AMBIENT = "p8Zr4-Kq2LmX9"


@pytest.fixture
def raising(project, monkeypatch):
    """An agent in Python that quotes a variable that no manifest names."""
    monkeypatch.setenv("SHOP_API_KEY", AMBIENT)
    monkeypatch.setenv("CACHE_KEY", "production-cache")
    (project.folder / "own.py").write_text(RAISES)
    project.api = {"python": "own:ask"}
    rows = [{"id": f"s{n}", "input": f"who, q{n}?", "expected": f"Paris {AMBIENT.upper()}"} for n in range(3)]
    project.dataset("qa", rows, metrics=["string_match", "rouge"])
    return project


def test_a_variable_that_looks_like_a_secret_is_hidden_though_nothing_refers_to_it(raising, monkeypatch):
    outcome = raising.evaluate("--json", "-o", "r.jsonl", "-o", "r.html")
    assert outcome.document["datasets"][0]["samples"][1]["scores"]["string_match"]["value"] == 1
    assert "no access with [redacted:env:SHOP_API_KEY], production-cache" in outcome.out
    for text in (AMBIENT, AMBIENT.upper()):
        assert not files_with(raising.folder / ".evalspec", text) and text not in outcome.out + outcome.err
    assert not files_with(raising.folder, AMBIENT.upper()) - {raising.folder / "qa.jsonl"}
    rescored = raising("rescore", "latest", "agent.yaml", "--fresh", "--json").document
    assert numbers_of(rescored) == numbers_of(outcome.document)
    described = json.loads((raising.folder / ".evalspec/runs/latest/run.json").read_text())["fingerprint"]["references"]
    assert set(described) == {"env:SHOP_API_KEY"}, "other variables of this machine are nobody's business"
    resumed = raising.evaluate("--resume", "latest", "--retry-errors", "--json")
    assert resumed.code == outcome.code
    for state, value in (("has changed", "q7Zr4-Kq2LmX9"), ("is not set", None)):
        monkeypatch.setenv("SHOP_API_KEY", value) if value else monkeypatch.delenv("SHOP_API_KEY")
        refused = raising("rescore", "latest", "agent.yaml")
        assert (refused.code, f"$env:SHOP_API_KEY {state}, and the replies to s0, s1, s2 quote" in refused.err) == (
            2,
            True,
        )


def test_a_variable_that_no_run_quotes_is_named_nowhere(raising, monkeypatch):
    (raising.folder / "own.py").write_text("def ask(question):\n    return 'Paris'\n")
    (raising.folder / "qa.jsonl").write_text('{"input": "who?", "expected": "Paris"}\n')
    assert raising.evaluate().code == 0
    assert not files_with(raising.folder / ".evalspec", "SHOP_API_KEY")


def numbers_of(document):
    return {
        sample["id"]: {name: score["value"] for name, score in sample["scores"].items()}
        for sample in document["datasets"][0]["samples"]
    }


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ({"headers": {"X-Api-Key": "lit-4711-abcd"}}, "chatEndpoint.headers.X-Api-Key"),
        ({"headers": {"Authorization": "Bearer lit-4711-abcd"}}, "chatEndpoint.headers.Authorization"),
        ({"headers": {"X-Other": "sk-lit-4711-abcd-0123456789"}}, "chatEndpoint.headers.X-Other"),
        ({"path": "http://me:lit-4711-abcd@127.0.0.1:1/x"}, "chatEndpoint.path"),
    ],
)
def test_a_literal_credential_is_a_warning_and_hidden(project, agent, section, where):
    project.api = {"url": agent.url, "chatEndpoint": section}
    project.samples(1)
    checked = project.validate()
    assert f"spec.api.{where}: a credential is written in the manifest" in checked.err
    assert (
        "$env:NAME" in checked.err and "lit-4711" not in checked.err and checked.err.startswith("warning: agent.yaml:")
    )
    if "path" not in section:
        agent.reply = {"response": "it is Lit-4711-abcd or sk-lit-4711-abcd-0123456789"}
        outcome = project.evaluate("--json", "-o", "r.jsonl")
        assert outcome.code == 0, outcome
        assert f"[redacted:literal:spec.api.{where}" in (project.folder / "r.jsonl").read_text()
        assert "rescore" in outcome.err or project("rescore", "latest", "agent.yaml", "--fresh").code == outcome.code


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer ${env:KEY}"},
        {"X-Api-Key": "$env:KEY"},
        {"X-Tenant": "billing-eu-1"},
        {"X-Token": "unused"},
    ],
)
def test_no_credential_is_no_warning(project, agent, headers, monkeypatch):
    monkeypatch.setenv("KEY", "lit-4711-abcd")
    project.api = {"url": agent.url, "chatEndpoint": {"headers": headers}}
    project.samples(1)
    assert "credential" not in project.validate().err


SHAPES = [
    "sk-proj-A1b2C3d4E5f6G7h8I9j0",
    "sk-ant-api03-A1b2C3d4E5f6G7h8",
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdef",
    "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "glpat-A1b2C3d4E5f6G7h8I9j0",
    "hf_AbCdEfGhIjKlMnOpQrStUvWx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END RSA PRIVATE KEY-----",
]


def test_well_known_keys_are_masked_in_what_people_read_and_not_in_the_log(project, agent):
    project.api = {"url": agent.url, "chatEndpoint": {"maxRetries": 0}}
    agent.reply = lambda body: {"response": f"use {body['message']} in the risk-based-approach-to-1-million-things"}
    rows = [
        {"id": f"s{n}", "input": shape, "expected": shape, "metadata": {"note": shape}}
        for n, shape in enumerate(SHAPES)
    ]
    project.dataset("qa", rows, metrics=["string_match"])
    reports = [f"r.{suffix}" for suffix in ("json", "jsonl", "csv", "html", "md", "junit.xml", "sarif")]
    outcome = project.evaluate("--json", *[part for name in reports for part in ("-o", name)])
    assert {sample["scores"]["string_match"]["value"] for sample in outcome.document["datasets"][0]["samples"]} == {1}
    shown = project("show", "latest", "s0").out
    again = project("report", "latest", "--json")
    log = (project.folder / ".evalspec/runs/latest/samples.jsonl").read_text()
    texts = {name: (project.folder / name).read_text() for name in reports} | {"show": shown, "out": outcome.out}
    for shape in SHAPES:
        assert json.dumps(shape)[1:-1] in log
        for name, text in texts.items():
            assert json.dumps(shape)[1:-1] not in text and shape not in text, name
    assert "[masked:sk-p…]" in texts["r.jsonl"] and "risk-based-approach-to-1-million" in texts["r.jsonl"]
    assert again.document == outcome.document
    assert numbers_of(project("rescore", "latest", "agent.yaml", "--fresh", "--json").document) == numbers_of(
        outcome.document
    )


def test_a_variable_that_looks_like_a_secret_can_be_public(project, agent, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", AMBIENT)
    project.api = {"url": agent.url, "chatEndpoint": {"headers": {"X-Shop": "$env:SHOP_API_KEY:public"}}}
    agent.reply = {"response": f"Paris {AMBIENT}"}
    project.samples(1)
    assert project.evaluate().code == 0
    assert files_with(project.folder / ".evalspec", AMBIENT)
    assert not files_with(project.folder / ".evalspec", "redacted:env")


@pytest.mark.parametrize("word", ["none", "retrieve+rerank", "drop", "auto"])
def test_a_secret_that_is_a_word_of_evalspec_leaves_runs_readable(word, tenants, monkeypatch):
    """Such as a key that has to be set and means nothing. The words of a run are no texts of anybody."""
    monkeypatch.setenv("TENANT", word)
    assert tenants.evaluate().code in (0, 1)
    stored = tenants("report", "--json")
    assert stored.code in (0, 1), stored.err
    assert tenants("rescore", "latest", "agent.yaml").code in (0, 1)
