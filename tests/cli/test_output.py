"""What is printed where: one JSON document on stdout whatever happens, and a reader that leaves changes nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evalspec.reports.base import Reporter
from servers.faulty_agent import status
from servers.service import wait_for
from warm.command import WarmCommand

NOISY = """
import sys, threading, time
print("noise at import")
def later():
    time.sleep(0.2)
    print("noise of a thread")
def score(exchange):
    print("noise of a call")
    sys.stdout.write("more noise")
    if exchange.sample.id == "s0":
        threading.Thread(target=later).start()
    return 1.0
class Retriever:
    def __init__(self):
        print("noise of a retriever")
    def search(self, *arguments, **more):
        print("noise of a search")
        return [{"id": "d1"}]
retriever = Retriever()
"""


@pytest.fixture
def gated(project, agent):
    """Three samples that the agent answers right, gated at 0.9."""
    project.api |= {"url": agent.url, "chatEndpoint": {"maxRetries": 0}}
    project.samples(3, metrics=("string_match", {"name": "own", "scorer": "noisy:score"}))
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    (project.folder / "noisy.py").write_text(NOISY)
    project.write()
    return project


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Runs a command in a process of its own without the start of Python."""
    with WarmCommand(tmp_path_factory.mktemp("warm"), ("httpx", "numpy.random", "rich.live")) as command:
        yield command


def spawn(project, *arguments, **streams):
    """The command as a process of its own."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    command = [sys.executable, "-m", "evalspec", *arguments]
    return subprocess.run(command, cwd=project.folder, text=True, timeout=60, check=False, **streams)


def piped(project, command):
    """The exit code of evalspec within a pipeline of the shell, and all that is printed in the end."""
    line = f"{sys.executable} -m evalspec {command}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=project.folder, text=True, capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_what_user_code_prints_is_no_part_of_the_result(gated):
    done = spawn(gated, "evaluate", "agent.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "PASS")
    for noise in ("at import", "of a call", "of a thread"):
        assert f"noise {noise}" in done.stderr
    done = spawn(gated, "evaluate", "agent.yaml")
    assert done.stdout.startswith("PASS")
    assert "noise" not in done.stdout


def test_what_a_child_process_or_file_descriptor_1_prints_is_no_part_of_the_result(gated):
    (gated.folder / "noisy.py").write_text(
        "import os\ndef score(exchange):\n    os.system('echo child')\n    os.write(1, b'direct')\n    return 1.0\n"
    )
    done = spawn(gated, "evaluate", "agent.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "PASS")
    assert "child" in done.stderr
    assert "direct" in done.stderr
    done = spawn(gated, "evaluate", "agent.yaml")
    assert done.stdout.startswith("PASS")
    assert "child" not in done.stdout


WRAP = "io.TextIOWrapper(sys.{0}.buffer, encoding='utf-8')"


@pytest.mark.parametrize(
    "line",
    [
        "sys.{0}.close()",
        "sys.__{0}__.close()",
        f"sys.{{0}} = {WRAP}",
        f"{WRAP}.write('dropped')",
        f"sys.{{0}} = {WRAP}; sys.{{0}}.close()",
        "sys.{0}.detach().close()",
        "sys.{0} = None",
        "sys.{0}.reconfigure(encoding='ascii'); print('größer')",
    ],
)
def test_what_user_code_does_to_its_streams_is_no_part_of_the_result(gated, warm, line):
    """To one of them when it is imported, and to the other when it is called."""
    (gated.folder / "noisy.py").write_text(
        f"import io, sys\n{line.format('stdout')}\ndone = []\ndef once():\n    {line.format('stderr')}\n    return 1\n"
        "def score(exchange):\n    done or done.append(once())\n    return 1.0\n"
    )
    done = warm(gated.folder, "evaluate", "agent.yaml", "--json")
    document = json.loads(done.out)
    assert (done.code, document["verdict"]) == (0, "PASS"), done.err
    assert {score["status"] for score in document["datasets"][0]["samples"][0]["scores"].values()} == {"scored"}
    assert b"Traceback" not in done.err
    done = warm(gated.folder, "evaluate", "agent.yaml")
    assert (done.code, done.out.split()[0]) == (0, b"PASS")
    assert b"run: " in done.err, "our own messages arrive"


def test_bytes_that_user_code_prints_arrive(gated):
    (gated.folder / "noisy.py").write_text(
        "import io, sys\ndef score(exchange):\n    sys.stdout.buffer.write(b'by bytes\\n')\n"
        "    io.TextIOWrapper(sys.stdout.buffer).write('by a wrapper')\n    print('by print')\n    return 1.0\n"
    )
    done = spawn(gated, "evaluate", "agent.yaml", "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "PASS")
    assert [done.stderr.count(f"by {way}") for way in ("bytes", "a wrapper", "print")] == [3, 3, 3]


def test_what_a_retriever_prints_is_no_part_of_the_result(project):
    (project.folder / "noisy.py").write_text(NOISY)
    project.evaluation["retrievers"] = {"mine": {"python": "noisy:retriever"}}
    project.dataset("qa", [{"relevant": ["d1"]}], metrics=["Recall@1"], retriever="mine")
    project.write()
    done = spawn(project, "evaluate", "agent.yaml", "--json", "--no-ingest")
    document = json.loads(done.stdout)
    assert (done.returncode, document["datasets"][0]["metrics"]["Recall@1"]["value"]) == (0, 1.0), done.stderr
    assert "noise of a search" in done.stderr


@pytest.mark.parametrize("path", ["/dev/full", "/proc/report.json"])
@pytest.mark.parametrize("command", ["evaluate", "report", "rescore", "compare"])
def test_a_report_that_cannot_be_written_is_in_the_one_document(gated, command, path):
    target = path if path.endswith(".json") else f"{path}.json"
    if target != path:
        (gated.folder / f"{Path(path).name}.json").symlink_to(path)
        target = f"{Path(path).name}.json"
    arguments = {
        "evaluate": ["evaluate", "agent.yaml"],
        "report": ["report", "latest"],
        "rescore": ["rescore", "latest", "agent.yaml"],
        "compare": ["compare", "latest", "latest"],
    }[command]
    assert gated("evaluate", "agent.yaml").code == 0
    outcome = gated(*arguments, "--json", "-o", target, "-o", "written.json")
    assert outcome.code == outcome.document["exitCode"] == 3
    (error,) = outcome.document["errors"]
    assert (error["file"], error["field"]) == (target, "-o")
    assert "cannot be written" in error["message"]
    assert outcome.document.get("verdict", "PASS") == "PASS"
    assert (gated.folder / "written.json").is_file(), "the other report is written"
    assert f"evalspec: {target}: -o: cannot be written" in outcome.err
    text = gated(*arguments, "-o", target)
    assert text.code == 3
    assert "string_match" in text.out


def test_a_report_that_cannot_be_written_does_not_hide_a_failed_gate(gated, agent):
    agent.reply = {"response": "Lyon"}
    outcome = gated("evaluate", "agent.yaml", "--json", "-o", "/proc/report.md")
    assert (outcome.code, outcome.document["verdict"], len(outcome.document["errors"])) == (1, "FAIL", 1)


def test_a_form_of_report_that_raises_is_reported_beside_the_result(gated, monkeypatch):
    def fail(*_):
        raise KeyError("colour")

    monkeypatch.setattr("evalspec.cli.run_output.reporter_for", lambda _path: Reporter("form", (), fail))
    outcome = gated("evaluate", "agent.yaml", "--json", "-o", "report.html")
    assert (outcome.code, outcome.document["errors"][0]["message"]) == (3, "cannot be written: KeyError: 'colour'")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["evaluate", "absent.yaml"], 2),
        (["evaluate", "bad.yaml"], 2),
        (["evaluate", "agent.yaml", "--tag", "nowhere"], 2),
        (["evaluate", "agent.yaml", "--url", "http://127.0.0.1:9"], 3),
        (["evaluate", "agent.yaml", "--dry-run"], 0),
        (["evaluate", "agent.yaml", "-o", "report.pdf"], 2),
        (["evaluate", "agent.yaml", "--resume"], 2),
        (["validate", "absent.yaml"], 2),
        (["validate", "bad.yaml"], 2),
        (["validate", "agent.yaml"], 0),
        (["validate", "\udcff.yaml"], 2),
        (["report"], 2),
        (["rescore", "latest", "agent.yaml"], 2),
        (["compare", "a", "b"], 2),
        (["compare", "a.json", "agent.yaml"], 2),
        (["score", "absent.txt", "absent.run"], 2),
        (["score", "qrels.txt", "run.txt"], 0),
        (["convert", "qa.jsonl", "out", "--to", "nothing"], 2),
        (["convert", "qa.jsonl", "out", "--to", "mixpeek", "--lossy"], 0),
        (["convert", "qa.jsonl", "out", "--to", "trec", "--lossy"], 2),
        (["convert", "qa.jsonl", "absent/out.jsonl", "--to", "jsonl"], 2),
        (["remap", "absent", "absent", "absent"], 2),
        (["metrics"], 0),
        (["runs", "list"], 0),
        (["runs", "show", "latest"], 2),
        (["runs", "nonsense"], 2),
        (["nonsense"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_every_outcome_is_one_document(gated, arguments, code):
    (gated.folder / "bad.yaml").write_text("spec: [")
    (gated.folder / "qrels.txt").write_text("q1 0 d1 1\n")
    (gated.folder / "run.txt").write_text("q1 Q0 d1 1 1.0 x\n")
    outcome = gated(*arguments, "--json")
    assert outcome.code == code
    assert outcome.document.get("exitCode", 0) == code
    assert outcome.document["schemaVersion"] == 1
    assert "Traceback" not in outcome.err
    assert "bug in evalspec" not in outcome.err


def test_a_store_that_cannot_be_written_is_one_document(gated):
    (gated.folder / ".evalspec").write_text("a file")
    outcome = gated("evaluate", "agent.yaml", "--json")
    assert (outcome.code, outcome.document["exitCode"], len(outcome.document["errors"])) == (3, 3, 1)


def test_an_interrupted_run_is_one_document(gated, agent):
    agent.mode = "hang"
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "--json"]
    with subprocess.Popen(command, cwd=gated.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        wait_for(lambda: agent.requests)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    document = json.loads(out)
    assert (run.returncode, document["exitCode"]) == (130, 130)
    assert document["errors"][0]["message"].startswith("interrupted")


@pytest.mark.parametrize("value", ["0", "false"])
def test_an_environment_that_turns_json_off_does_so_for_errors_too(gated, monkeypatch, value):
    monkeypatch.setenv("EVALSPEC_JSON", value)
    assert gated("evaluate", "absent.yaml").out == ""


@pytest.mark.parametrize("answer", ["Paris", "Lyon"])
@pytest.mark.parametrize(
    "rest", ["--json | true", "| true", "| head -1", "2>&1 | true", "2>&1 >/dev/null | true", ">&- 2>&-", "--json >&-"]
)
def test_a_reader_that_leaves_changes_neither_the_exit_code_nor_prints_a_traceback(gated, agent, answer, rest):
    agent.reply = {"response": answer}
    code, printed = piped(gated, f"evaluate agent.yaml {rest}")
    assert code == (0 if answer == "Paris" else 1)
    assert "Traceback" not in printed
    assert "Exception ignored" not in printed
    assert "BrokenPipe" not in printed


@pytest.mark.parametrize("command", ["--help", "evaluate --help", "--version", "schema report", "metrics"])
def test_help_for_a_reader_that_leaves(project, command):
    assert piped(project, f"{command} | true") == (0, "")


def test_help_is_a_result(project):
    for arguments in (["evaluate", "--help"], ["labels"], ["runs", "-h"]):
        outcome = project(*arguments)
        assert (outcome.code, outcome.err) == (0, "")
        assert "Usage: evalspec" in outcome.out


@pytest.mark.parametrize(("answer", "code"), [("Paris", 3), ("Lyon", 1)])
def test_a_result_that_cannot_be_written_is_said(gated, agent, answer, code):
    agent.reply = {"response": answer}
    with Path("/dev/full").open("w") as full:
        done = spawn(gated, "evaluate", "agent.yaml", "--json", stdout=full)
    assert done.returncode == code
    assert "evalspec: cannot write the result to standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_text_that_stdout_cannot_encode_is_escaped_as_in_json(gated, agent):
    agent.mode = status(400, {}, "größer als 東京 😀")
    done = spawn(gated, "evaluate", "agent.yaml", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "größer als 東京 😀" in json.loads(done.stdout)["datasets"][0]["samples"][0]["error"]
