"""`evalspec evaluate` as a user and a pipeline see it: exit code, stdout, stderr, and what is left on disk."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from evalspec.reports.json_report import report_json_schema
from servers.faulty_agent import redirect, status, throttled
from servers.ports import find_free_port
from servers.service import wait_for

SECRET = "s3cr3t-token-value"


def last_run(project):
    return project.folder / ".evalspec" / "runs" / "latest"


def words(text):
    """Text without its line breaks, which depend on the width of the terminal."""
    return " ".join(text.split())


def log_of(project):
    return [json.loads(line) for line in (last_run(project) / "samples.jsonl").read_text().splitlines()]


@pytest.fixture
def gated(project, agent):
    """Three samples that the agent answers right, string_match gated at 0.9."""
    project.api["url"] = agent.url
    project.api["chatEndpoint"] = {"maxRetries": 1, "timeoutSeconds": 60}
    project.samples(3)
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    return project


def test_pass(gated):
    outcome = gated.evaluate()
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("PASS")
    assert "string_match" in outcome.out


def test_fail(gated, agent):
    agent.reply = {"response": "Lyon"}
    outcome = gated.evaluate()
    assert outcome.code == 1
    assert outcome.out.splitlines()[0].startswith("FAIL")


def test_moving_one_threshold_moves_the_verdict(gated, agent):
    agent.script = ["ok", status(200, {}, '{"response": "Lyon"}'), "ok"]
    assert gated.evaluate("-j", "1").code == 1
    gated.evaluation["thresholds"]["string_match"] = 0.6
    agent.script = ["ok", status(200, {}, '{"response": "Lyon"}'), "ok"]
    assert gated.evaluate("-j", "1").code == 0


def test_json_is_one_document_that_fits_its_schema(gated, agent):
    agent.script = ["ok", status(400)]
    outcome = gated.evaluate("--json", "-j", "1")
    jsonschema.validate(outcome.document, report_json_schema())
    assert outcome.code == outcome.document["exitCode"] == 3
    assert outcome.document["verdict"] == "INCOMPLETE"
    (dataset,) = outcome.document["datasets"]
    assert (dataset["name"], dataset["selected"], dataset["answered"]) == ("qa", 3, 2)
    metric = dataset["metrics"]["string_match"]
    assert (metric["value"], metric["scored"], metric["expected"], metric["failed"]) == (1.0, 2, 3, 1)
    assert [sample["status"] for sample in dataset["samples"]] == ["answered", "failed", "answered"]


def test_without_a_gate_nothing_fails(gated, agent):
    agent.reply = {"response": "Lyon"}
    gated.evaluation["ciGate"] = False
    outcome = gated.evaluate("--json")
    assert (outcome.code, outcome.document["verdict"]) == (0, "NOT_GATED")


def test_the_run_is_in_the_store(gated):
    outcome = gated.evaluate("--json")
    run = last_run(gated)
    assert json.loads((run / "report.json").read_text()) == outcome.document
    fingerprint = json.loads((run / "run.json").read_text())["fingerprint"]
    assert fingerprint["agent"]["url"].endswith("/v1/chat")
    assert fingerprint["datasets"][0]["selected"] == 3
    *records, report = log_of(gated)
    assert report["kind"] == "report"
    kinds = [(record["kind"], record["id"]) for record in records]
    assert sorted(kinds) == sorted((kind, f"s{n}") for n in range(3) for kind in ("reply", "scores"))


def test_output_files(gated):
    (gated.folder / "out").mkdir()
    assert gated.evaluate("-o", "out/report.json").code == 0
    assert json.loads((gated.folder / "out" / "report.json").read_text())["verdict"] == "PASS"
    outcome = gated.evaluate("-o", "report.pdf")
    assert outcome.code == 2
    assert ".json" in outcome.err


@pytest.mark.parametrize(
    ("mode", "part"),
    [
        (status(500), "500"),
        (status(404), "/v1/chat"),
        (status(401), "401"),
        (redirect("http://elsewhere.example/"), "redirect"),
        ("html", "HTML"),
        ("empty", "empty"),
        ("invalid_json", "JSON"),
        ("nan", "NaN"),
        ("missing_field", "response"),
        ("refuse_to_speak", ""),
        ("drop", ""),
        ("huge", "bytes"),
    ],
    ids=str,
)
def test_an_agent_that_fails_is_incomplete_never_a_wrong_answer(gated, agent, mode, part):
    agent.mode = mode
    gated.api["chatEndpoint"]["maxRetries"] = 0
    outcome = gated.evaluate()
    assert outcome.code == 3
    assert outcome.out.splitlines()[0].startswith("INCOMPLETE")
    assert part in words(outcome.out)
    assert "no reply to 3 samples" in words(outcome.out)
    assert len(outcome.out.splitlines()) + len(outcome.err.splitlines()) <= 4
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("answer", "setting", "said"),
    [
        (status(200, {}, '{"output": {"text": "Paris"}}'), "response.answer", "$.output.text"),
        (status(404), "path", "check chatEndpoint.path, which is appended to the url"),
        (status(422), "request", "check chatEndpoint.request and protocol"),
    ],
)
@pytest.mark.parametrize("endpoint", [{}, {"response": {"answer": "$.answer"}}])
def test_what_the_manifest_gets_wrong_is_to_be_fixed_and_not_retried(gated, agent, answer, setting, said, endpoint):
    agent.mode, gated.api["chatEndpoint"] = answer, endpoint
    outcome = gated.evaluate()
    assert outcome.code == 3 and said in words(outcome.out)
    assert f"every reply failed for the same reason: fix chatEndpoint.{setting} and start again" in outcome.err
    assert "retry" not in outcome.err


def test_texts_beside_the_answer_leave_the_place_open(gated, agent):
    agent.mode, gated.api["chatEndpoint"] = status(200, {}, '{"output": {"text": "Paris"}, "id": "a1"}'), {}
    assert "$.output" not in gated.evaluate().out


def test_a_hanging_agent_times_out(gated, agent):
    agent.mode = "hang"
    gated.api["chatEndpoint"]["maxRetries"] = 0
    outcome = gated.evaluate("--timeout", "0.2")
    assert outcome.code == 3
    assert "within 0.2 s (chatEndpoint.timeoutSeconds)" in words(outcome.out)


def test_nobody_listens(gated, agent):
    agent.stop()
    outcome = gated.evaluate()
    assert outcome.code == 3
    headline, cause = outcome.out.splitlines()
    assert headline == "INCOMPLETE  bot  the agent is down, no reply to 3 samples"
    assert cause == f"  cannot connect to {agent.url}/v1/chat: connection refused; is the agent running there?"
    assert outcome.err.startswith("to retry failures: evalspec evaluate agent.yaml --resume ")
    assert outcome.err.count("\n") == 1, "three lines in all"
    assert {
        sample["status"]
        for sample in json.loads((last_run(gated) / "report.json").read_text())["datasets"][0]["samples"]
    } == {"failed"}
    part = gated.evaluate("--sample-size", "2").out.splitlines()[0]
    assert part == "INCOMPLETE  bot  the agent is down, no reply to 2 samples  PARTIAL"


def test_an_unreachable_agent_is_unmeasured_even_where_errors_are_gated(gated, agent):
    gated.evaluation["thresholds"]["error_rate"] = 0
    agent.mode = status(400)
    assert gated.evaluate().code == 1, "an agent that answers with errors breaks the limit"
    agent.stop()
    assert gated.evaluate().code == 3, "one that is not there was not measured"


def test_an_agent_that_dies_mid_run_is_noticed_and_not_hammered(gated, agent):
    gated.samples(40, "more")
    agent.die_after = 10
    gated.api["chatEndpoint"]["maxRetries"] = 0
    outcome = gated.evaluate("--json", "-j", "2")
    assert outcome.code == 3
    assert "the agent is down" in outcome.err
    errors = [sample["error"] for dataset in outcome.document["datasets"] for sample in dataset["samples"]]
    assert sum(error is None for error in errors) == 10
    assert sum("not asked" in (error or "") for error in errors) > 20


def test_retries_honour_retry_after(gated, agent):
    agent.script = [throttled(0.5)]
    assert gated.evaluate("-j", "1").code == 0
    refused, repeated, following, _ = agent.requests
    assert repeated.arrived - refused.answered >= 0.5
    latency, *_ = [record["reply"]["latencyMs"] for record in log_of(gated) if record["kind"] == "reply"]
    assert latency / 1000 < following.arrived - refused.answered - 0.5, "the wait is not the agent's latency"


def test_a_wait_of_hours_is_not_waited_for(gated, agent):
    agent.mode = throttled(7200)
    outcome = gated.evaluate()
    assert outcome.code == 3
    assert "7200" in words(outcome.out)


def test_a_throttling_agent_is_asked_by_fewer_at_once(gated, agent):
    gated.samples(60, "more")
    agent.delay = 0.02
    agent.script = ["ok"] * 8 + [throttled(0.1)] * 4
    gated.api["chatEndpoint"]["maxRetries"] = 3
    assert gated.evaluate("-j", "8").code == 0
    refused = [request.body for request in agent.requests[8:12]]
    repeated = next(place for place, one in enumerate(agent.requests[12:], 12) if one.body in refused)
    for one in agent.requests[repeated : repeated + 8]:
        assert sum(other.arrived <= one.arrived < other.answered for other in agent.requests) <= 6


def test_bad_options(gated):
    for arguments, part in (
        (["--sample-size", "0"], "--sample-size"),
        (["--sample-size", "-3"], "--sample-size"),
        (["--sample-size", "many"], "--sample-size"),
        (["--dataset", "nope"], "no dataset is named 'nope'"),
        (["--url", "localhost:3000"], "use http://"),
        (["--tag", "nope"], "no sample is selected"),
        (["--timeout", "0"], "--timeout"),
        (["--nope"], "--nope"),
    ):
        outcome = gated.evaluate(*arguments)
        assert outcome.code == 2, arguments
        assert part in outcome.err
        assert outcome.out == ""
    assert not (gated.folder / ".evalspec").exists()


def test_bad_options_as_json(gated):
    outcome = gated.evaluate("--json", "--sample-size", "0")
    assert outcome.code == outcome.document["exitCode"] == 2
    assert "--sample-size" in outcome.document["errors"][0]["message"]


def test_a_sample_size_beyond_the_dataset_uses_all_and_says_so(gated):
    outcome = gated.evaluate("--sample-size", "10")
    assert outcome.code == 0
    assert "only 3 samples" in outcome.err


def test_sampling_tags_and_several_datasets(gated, agent):
    gated.dataset(
        "tagged",
        [{"id": f"t{n}", "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(10)],
        metrics=["string_match"],
    )
    outcome = gated.evaluate("--json", "--tag", "even", "--sample-size", "2", "--seed", "7")
    assert outcome.code == 0
    assert outcome.document["partial"] is True, "the other dataset was left out"
    (dataset,) = outcome.document["datasets"]
    assert {tag for sample in dataset["samples"] for tag in sample["tags"]} == {"even"}
    assert dataset["selected"] == 2
    again = gated.evaluate("--json", "--tag", "even", "--sample-size", "3", "--seed", "7").document["datasets"][0]
    assert {s["id"] for s in dataset["samples"]} < {s["id"] for s in again["samples"]}


def test_options_come_from_the_environment_too(gated, agent, monkeypatch):
    gated.api["url"] = "http://127.0.0.1:9/"
    monkeypatch.setenv("EVALSPEC_URL", agent.url)
    monkeypatch.setenv("EVALSPEC_SAMPLE_SIZE", "1")
    outcome = gated.evaluate("--json")
    assert (outcome.code, outcome.document["datasets"][0]["selected"]) == (0, 1)


def test_headers_from_the_environment_and_their_values_in_no_output(gated, agent, monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    gated.api["chatEndpoint"]["headers"] = {"Authorization": "Bearer ${env:TOKEN}", "X-Tenant": "$env:TOKEN"}
    agent.reply = lambda body: {"response": f"Lyon, and your token is {SECRET}"}
    outcome = gated.evaluate("-o", "report.json")
    assert agent.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert agent.requests[0].headers["x-tenant"] == SECRET
    written = [path.read_bytes() for path in gated.folder.rglob("*") if path.is_file()]
    assert not [text for text in (*written, outcome.out.encode(), outcome.err.encode()) if SECRET.encode() in text]
    assert any(b"[redacted:env:" in text for text in written)


def test_a_secret_in_an_error_message_is_redacted(gated, agent, monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    gated.api["chatEndpoint"]["headers"] = {"X-Token": "$env:TOKEN"}
    agent.mode = status(422, {}, json.dumps({"detail": f"bad token {SECRET}"}))
    outcome = gated.evaluate("--json")
    assert SECRET not in outcome.out + outcome.err
    assert "422" in outcome.err


def test_a_missing_variable_names_the_field(gated):
    gated.api["chatEndpoint"]["headers"] = {"Authorization": "Bearer ${env:NOPE}"}
    outcome = gated.evaluate()
    assert outcome.code == 2
    assert "spec.api.chatEndpoint.headers.Authorization: environment variable NOPE is not set" in outcome.err


def test_recorded_replies_stand_in_for_the_agent(gated, agent):
    replies = [
        {"id": "s0", "response": "Paris"},
        {"id": "s1", "response": "Lyon", "latencyMs": 12.5},
        {"id": "elsewhere", "response": "x"},
    ]
    (gated.folder / "replies.jsonl").write_text("\n".join(map(json.dumps, replies)))
    outcome = gated.evaluate("--responses", "replies.jsonl", "--json")
    assert agent.requests == []
    assert outcome.code == 1, "one wrong and one missing of three cannot reach 0.9"
    assert "elsewhere" in outcome.err
    samples = {sample["id"]: sample for sample in outcome.document["datasets"][0]["samples"]}
    assert samples["s0"]["scores"]["string_match"]["value"] == 1
    assert samples["s1"]["latencyMs"] == 12.5
    assert samples["s2"]["status"] == "failed"
    assert "no recorded reply" in samples["s2"]["error"]


@pytest.mark.parametrize("raised", ["asyncio.CancelledError", "GeneratorExit", "SystemExit(0)"])
def test_what_a_scorer_raises_fails_its_scores_and_not_the_command(gated, raised):
    (gated.folder / "raising.py").write_text(f"import asyncio\nasync def score(exchange): raise {raised}\n")
    gated.evaluation["datasets"][0]["metrics"] = ["string_match", {"name": "own", "scorer": "raising:score"}]
    outcome = gated.evaluate("--json")
    metrics = outcome.document["datasets"][0]["metrics"]
    assert (metrics["own"]["failed"], metrics["string_match"]["scored"]) == (3, 3)
    assert raised.removeprefix("asyncio.").partition("(")[0] in outcome.err


def test_custom_scorers_see_the_exchange_and_their_errors_stay_theirs(gated):
    (gated.folder / "my_scorers.py").write_text(
        "def length(exchange):\n    return len(exchange.response)\n"
        "async def half(exchange):\n    return None if exchange.sample.id == 's0' else 0.5\n"
        "def broken(exchange):\n    return {}['nothing']\n"
    )
    gated.evaluation["datasets"][0]["metrics"] = [
        "string_match",
        {"name": "length", "scorer": "my_scorers:length", "range": [0, 100]},
        {"name": "half", "scorer": "my_scorers:half"},
        {"name": "broken", "scorer": "my_scorers:broken"},
    ]
    outcome = gated.evaluate("--json")
    metrics = outcome.document["datasets"][0]["metrics"]
    assert outcome.code == 0
    assert metrics["length"]["value"] == 5
    assert (metrics["half"]["value"], metrics["half"]["notApplicable"]) == (0.5, 1)
    assert (metrics["broken"]["value"], metrics["broken"]["failed"]) == (None, 3)
    assert "my_scorers.py" in outcome.err, "notes go to stderr where stdout is one document"


def test_a_command_is_started_and_stopped(project, tmp_path):
    server, port = Path(__file__).parents[2] / "examples" / "agent" / "server.py", find_free_port()
    project.api |= {
        "url": f"http://127.0.0.1:{port}",
        "command": ["python", str(server), "--port", str(port)],
        "readyPath": "/health",
    }
    project.samples(2, expected="zzz")
    outcome = project.evaluate("--json")
    assert (outcome.code, outcome.document["datasets"][0]["answered"]) == (0, 2)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_a_command_that_exits_is_one_clear_line(project):
    url = f"http://127.0.0.1:{find_free_port()}"
    project.api |= {"url": url, "command": ["python", "-c", "raise SystemExit('no model found')"]}
    project.samples(1)
    outcome = project.evaluate()
    assert outcome.code == 3
    assert "no model found" in outcome.err
    assert "Traceback" not in outcome.err


def spawn(project, *arguments, **settings):
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", *arguments]
    return subprocess.Popen(
        command, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_keeps_what_it_has(gated, agent, how):
    gated.samples(200, "more")
    agent.script, agent.mode = ["ok"] * 4, "hang"
    gated.write()
    process = spawn(gated, "-j", "2")
    wait_for(lambda: len(agent.requests) == 6)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted" in err
    assert "Traceback" not in err
    (run,) = (gated.folder / ".evalspec" / "runs").glob("2*")
    kept = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    assert len([record for record in kept if record["kind"] == "reply"]) >= 4


def test_a_full_disk_is_one_clear_line(gated, agent):
    gated.samples(60, "more", metadata={"pad": "x"})
    gated.write()

    def limit_files():
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (28_000, 28_000))

    process = spawn(gated, preexec_fn=limit_files)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 3
    assert "samples.jsonl" in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 2, err


def test_a_read_only_store_is_one_clear_line(gated):
    (gated.folder / ".evalspec").write_text("a file where the folder should be")
    outcome = gated.evaluate()
    assert outcome.code == 3
    assert ".evalspec" in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_ciGate_with_no_limit_on_the_selected_dataset_is_not_a_pass(gated):
    gated.samples(2, "free", metrics=("exact_match",))
    outcome = gated.evaluate("--dataset", "free", "--json")
    assert (outcome.code, outcome.document["verdict"]) == (0, "NOT_GATED")


@pytest.mark.parametrize(
    ("options", "is_partial"),
    [
        ([], False),
        (["--sample-size", "3"], False),
        (["--sample-size", "2"], True),
        (["--tag", "a"], True),
        (["--tag", "a", "--tag", "b"], False),
        (["--exclude-tag", "a"], True),
        (["--exclude-tag", "c"], False),
        (["--dataset", "qa"], False),
    ],
)
def test_a_run_that_leaves_samples_out_is_partial_and_stays_it(project, agent, options, is_partial):
    project.api["url"] = agent.url
    project.dataset(
        "qa", [{"id": tag, "tags": [tag]} for tag in "ab"] + [{"tags": ["a", "b"]}], metrics=["string_match"]
    )
    project.dataset("other", [{"tags": ["a", "b"]}], metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    outcomes = [
        project.evaluate("--json", *options),
        project("report", "--json"),
        project("rescore", "latest", "--json"),
    ]
    assert [(one.document["verdict"], one.document["partial"]) for one in outcomes] == [("PASS", is_partial)] * 3


def test_an_agentspec_conversation_goes_out_whole(gated, agent):
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Capital?"},
    ]
    gated.dataset("chat", [{"input": turns}], metrics=["string_match"])
    assert gated.evaluate("--dataset", "chat").code == 0
    assert agent.requests[0].body == {"message": "Capital?", "messages": turns}


def test_a_busy_machine_is_told_where_latency_breaks_a_limit(gated):
    (gated.folder / "slow.py").write_text(
        "import time\nasync def spin(exchange):\n    time.sleep(0.05)\n    return 1.0\n", encoding="utf-8"
    )
    gated.samples(30, "more", metrics=({"name": "spin", "scorer": "slow:spin"},))
    gated.evaluation["thresholds"]["latency_p95"] = 0.001
    outcome = gated.evaluate("--json")
    assert outcome.code == 1
    assert "latency_p95 includes up to" in outcome.err


def test_in_github_actions_the_run_shows_itself(gated, agent, monkeypatch):
    """Step summary, outputs, annotations."""
    agent.reply = {"response": "Lyon"}
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(name, str(gated.folder / name))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outcome = gated.evaluate()
    assert outcome.code == 1
    assert outcome.out.startswith("FAIL")
    assert "FAIL" in (gated.folder / "GITHUB_STEP_SUMMARY").read_text()
    assert "verdict" in (gated.folder / "GITHUB_OUTPUT").read_text()
    assert [line for line in outcome.err.splitlines() if line.startswith("::error ")]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"slices": ["lvel"]}, r"slices\[0\]: no sample has .* 'lvel'.*'level'"),
        ({"cluster": "x"}, r"cluster: no sample"),
    ],
)
def test_a_metadata_key_that_no_sample_has_is_refused(config, said, project, agent):
    project.api = {"url": agent.url}
    project.samples(2, metadata={"level": 1})
    project.evaluation["datasets"][0] |= config
    outcome = project.validate()
    assert outcome.code == 2
    assert re.search(said, outcome.out), outcome.out


def test_recorded_replies_cannot_be_repeated(gated):
    (gated.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Paris"}\n')
    outcome = gated.evaluate("--responses", "replies.jsonl", "--repeat", "2")
    assert (outcome.code, "--repeat: recorded replies are the same" in outcome.err) == (2, True)
