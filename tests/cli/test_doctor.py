"""`evalspec doctor`: each part that a run needs is asked once, and each failure has its fix."""

import json
from email.utils import formatdate
from time import perf_counter, time

import jsonschema
import pytest

from servers.judge_wires import KEY
from servers.scripted_judge import ScriptedJudge, status, throttled, unauthorized


@pytest.fixture
def parts(project, agent):
    """A project whose run needs an agent, a judge and embeddings."""
    with ScriptedJudge(api_key=KEY) as judge:
        place = {"baseUrl": judge.url, "apiKey": KEY, "maxRetries": 0}
        project.evaluation["judge"] = {"model": "m"} | place
        project.evaluation["embeddings"] = {"provider": "openai-compatible", "model": "e"} | place
        project.dataset("qa", [{"input": "Who pays?", "expected": "You."}], metrics=["answer_relevancy"])
        yield project, agent, judge


def examine(project, *options) -> dict:
    """The findings by name."""
    outcome = project("doctor", project.write().name, "--json", *options)
    document = outcome.document
    assert outcome.code == document["exitCode"]
    jsonschema.validate(document, json.loads(project("schema", "doctor").out))
    for finding in document["findings"]:
        assert (finding["fix"] is None) is (finding["status"] in ("ok", "skipped")), finding
        assert KEY not in str(finding) and "\n" not in finding["message"]
    return {finding["name"]: finding for finding in document["findings"]} | {"code": outcome.code}


def test_all_is_well(parts):
    project, agent, judge = parts
    judge.states = {"model": "m-2026"}
    found = examine(project, "--url", agent.url)
    assert found.pop("code") == 0
    of_gate = {name: found.pop(name)["status"] for name in ("packages", "gate", "workflow", "branch protection")}
    assert of_gate == {"packages": "ok", "gate": "warning", "workflow": "warning", "branch protection": "skipped"}
    assert {name: finding["status"] for name, finding in found.items()} == dict.fromkeys(
        ["versions", "disk of runs", "disk of cache", "proxy of agent", "agent", "proxy of judge", "judge",
         "clock of judge", "proxy of embeddings", "embeddings", "clock of embeddings"], "ok",
    )  # fmt: skip
    assert "evalspec " in found["versions"]["message"] and "ragas 0.4.3" in found["versions"]["message"]
    assert found["judge"]["message"].startswith("m-2026 answered by wire chat in ")
    assert found["embeddings"]["message"].startswith("a vector of 256 dimensions in ")
    assert len(judge.chats) == len(judge.embeddings) == len(agent.requests) == 1
    assert not (project.folder / ".evalspec").exists()


@pytest.mark.parametrize(
    ("mode", "says", "fix"),
    [
        (unauthorized(KEY), "401 Unauthorized", "correct the key in spec.evaluation.judge"),
        (status(404), "404 Not Found", "correct spec.evaluation.judge, or the service"),
        (throttled(3600), "it asks to wait 3600 s", "correct spec.evaluation.judge, or the service"),
        ("prose", "the judge's answer is unusable", "correct spec.evaluation.judge, or the service"),
        ("html", "returned an HTML page instead of JSON", "correct spec.evaluation.judge, or the service"),
    ],
    ids=str,
)
def test_a_judge_that_cannot_grade_fails_with_a_fix_and_the_others_are_asked_all_the_same(parts, mode, says, fix):
    project, agent, judge = parts
    judge.mode = mode
    found = examine(project, "--url", agent.url)
    assert found["code"] == 3
    assert says in found["judge"]["message"] and found["judge"]["fix"].startswith(fix)
    assert found["judge"]["status"] == "failed" and found["embeddings"]["status"] == found["agent"]["status"] == "ok"


def test_loading_ragas_is_no_time_of_the_judge(parts, monkeypatch):
    project, agent, _judge = parts
    took = [0]
    monkeypatch.setattr("evalspec.scoring.judge.services.import_ragas", lambda: took.append(999))
    monkeypatch.setattr("evalspec.api.doctor.perf_counter", lambda: perf_counter() + sum(took))
    message = examine(project, "--url", agent.url)["judge"]["message"]
    assert float(message.removesuffix(" s").rpartition(" ")[2]) < 999


def test_what_is_down_or_slow_to_comply_is_said(parts):
    project, _agent, judge = parts
    project.evaluation["judge"]["maxRetries"] = 2
    judge.script, judge.embedding_fault = ["prose"], status(500)
    found = examine(project, "--url", "http://127.0.0.1:9")
    assert found["agent"]["fix"] == "start it, or correct its address in spec.api"
    assert found["embeddings"]["status"] == "failed" and "500" in found["embeddings"]["message"]
    assert (found["judge"]["status"], found["answers of judge"]["status"]) == ("ok", "warning")
    assert "responseFormat" in found["answers of judge"]["fix"]


def test_a_wrong_clock_is_a_warning(parts, monkeypatch):
    project, agent, _judge = parts
    late = formatdate(time() - 600, usegmt=True)
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: late)
    found = examine(project, "--url", agent.url)
    assert found["code"] == 0 and found["clock of judge"]["status"] == "warning"
    assert "s ahead of that of the service" in found["clock of judge"]["message"]
    assert found["clock of judge"]["fix"].startswith("set the clock")


def test_what_a_run_does_not_need_is_skipped(parts):
    project, _agent, judge = parts
    project.evaluation["datasets"][0]["metrics"] = ["string_match"]
    found = examine(project, "--url", "http://127.0.0.1:9")
    assert (found["judge"]["status"], found["embeddings"]["status"]) == ("skipped", "skipped")
    assert judge.chats == []


def test_a_folder_that_cannot_be_written_to_is_a_failure(parts):
    project, agent, _judge = parts
    (project.folder / ".evalspec").write_text("")
    found = examine(project, "--url", agent.url)
    assert found["code"] == 3 and found["disk of runs"]["status"] == "failed"


def test_an_agent_in_python_is_called_and_lines_are_printed(parts):
    project, _agent, _judge = parts
    (project.folder / "mine.py").write_text("def answer(question):\n    return 'yes'\n")
    project.api["python"] = "mine:answer"
    project.evaluation["datasets"][0]["metrics"] = ["string_match"]
    outcome = project("doctor", project.write().name)
    assert outcome.code == 0 and "ok: agent: it answered 3 characters in " in outcome.out
    refused = project("doctor", project.write().name, "--untrusted")
    assert refused.code == 2 and "--untrusted does not import" in refused.err


def test_an_invalid_manifest_is_refused_before_anything_is_asked(parts):
    project, agent, judge = parts
    project.evaluation["judge"]["apiKey"] = "$env:NO_SUCH_KEY"
    outcome = project("doctor", project.write().name, "--url", agent.url)
    assert outcome.code == 2 and "NO_SUCH_KEY is not set. export NO_SUCH_KEY=… before the run" in outcome.err
    assert agent.requests == [] and judge.chats == []
