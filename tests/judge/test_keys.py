"""Keys that a command prints: one run for all requests, renewed in time and after a rejection, and never shown."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from evalspec.base.errors import JudgeError
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig
from evalspec.scoring.judge.embeddings import HttpEmbedder
from evalspec.targets.http import credentials
from evalspec.targets.http.keys import KeyPlace
from judge.test_chat import Asking
from judge.test_embeddings import run_embed
from judge.test_providers import assert_nowhere

PRINTER = """
import json, os, sys
count = len(os.listdir("."))
open(f"run-{count}", "w").close()
print(open("../printed").read().replace("COUNT", str(count)))
"""


class Printer:
    """A command that prints `printed`, with the number of its earlier runs for COUNT."""

    def __init__(self, folder: Path) -> None:
        self.place = KeyPlace(folder / "runs", lambda _key: None)
        self.place.folder.mkdir()
        self._file = folder / "printed"
        self.print("short-lived-key-COUNT")

    @property
    def key(self) -> dict[str, Any]:
        return {"command": [sys.executable, "-c", PRINTER]}

    @property
    def runs(self) -> int:
        return len(list(self.place.folder.iterdir()))

    def print(self, text: str, ends: float | None = None) -> None:
        end = None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat()
        self._file.write_text(text if end is None else json.dumps({"token": text, "expiresAt": end}))


@pytest.fixture
def printer(tmp_path):
    return Printer(tmp_path)


def ask(judge, printer, **config) -> Asking:
    return Asking(judge.url, api_key=None, auth=printer.key, keys=printer.place, **config)


def sent(judge) -> list[str]:
    return [chat.headers["authorization"] for chat in judge.chats]


def test_one_run_of_the_command_serves_all_requests(judge, printer):
    assert len(ask(judge, printer, concurrency=8).waves(8, 8)) == 2
    assert printer.runs == 1 and set(sent(judge)) == {"Bearer short-lived-key-0"}


def test_a_key_is_renewed_before_it_expires(judge, printer, monkeypatch):
    now = [datetime.now(UTC).timestamp()]
    monkeypatch.setattr(credentials, "time", lambda: now[0])
    printer.print("short-lived-key-COUNT", now[0] + 600)
    asking = ask(judge, printer)
    moments = iter([539, 2])

    def wait() -> None:
        now[0] += next(moments)

    asking.waves(2, 2, 2, between=wait)
    assert sent(judge) == [f"Bearer short-lived-key-{number}" for number in (0, 0, 0, 0, 1, 1)]


def test_a_rejected_key_is_renewed_once(judge, printer):
    judge.api_key = "short-lived-key-1"
    assert [answers[0]["value"] for answers in ask(judge, printer).waves(1, 5)] == ["good", "good"]
    assert printer.runs == 2 and set(sent(judge)) == {"Bearer short-lived-key-1"}
    judge.api_key = "another"
    line = ask(judge, printer, max_retries=3).failure()
    assert printer.runs == 4 and "check spec.evaluation.judge.auth" in line and "short-lived" not in line


SECRET = "no-key-of-yours-0123"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["no-such-program"], "cannot be started: the program 'no-such-program' was not found"),
        ([sys.executable, "-c", f"import sys; print({SECRET!r}, file=sys.stderr); sys.exit({SECRET!r})"],
         "ended with status 1; run it in a terminal to see why"),
        ([sys.executable, "-c", f"print('{SECRET} and more')"], "printed no key; print one line with the token, or"),
        ([sys.executable, "-c", "print('{\"token\": ')"], "printed no key"),
        ([sys.executable, "-c", "print('{\"token\": 7}')"], "printed no key"),
        ([sys.executable, "-c", f"print('{{\"token\": \"{SECRET}\", \"expiresAt\": \"soon\"}}')"],
         "printed an expiresAt that is no time"),
        ([sys.executable, "-c", "import time; time.sleep(600)"], "printed no key within 0.2 s"),
        ([sys.executable, "-c", "while True: print('x' * 9999)"], "printed more than 64 KiB"),
    ],
    ids=str,
)  # fmt: skip
def test_a_failed_command_is_one_line_without_its_output_and_ends_the_run(judge, command, says, monkeypatch):
    if "0.2 s" in says:
        monkeypatch.setattr(credentials, "_LONGEST_SECONDS", 0.2)
    [error, *others] = Asking(judge.url, api_key=None, auth={"command": command}, max_retries=3)(4)
    assert isinstance(error, JudgeError) and error.fatal
    assert {str(other) for other in others} == {str(error)}
    assert f"the command in spec.evaluation.judge.auth.command {says}" in str(error) and SECRET not in str(error)
    assert judge.chats == []


@pytest.mark.skipif(sys.platform == "win32", reason="a process group is killed")
def test_what_a_command_leaves_running_is_killed_and_not_waited_for(judge):
    leave = "import subprocess; print('a-key', flush=True); subprocess.Popen(['sleep', '30'])"
    begin = monotonic()
    Asking(judge.url, api_key=None, auth={"command": [sys.executable, "-c", leave]}).waves(1)
    assert monotonic() - begin < 25 and sent(judge) == ["Bearer a-key"]


@pytest.mark.skipif(sys.platform == "win32", reason="start_new_session")
def test_output_that_another_session_holds_open_is_not_waited_for(judge):
    leave = "import subprocess; print('a-key', flush=True); subprocess.Popen(['sleep', '40'], start_new_session=True)"
    begin = monotonic()
    Asking(judge.url, api_key=None, auth={"command": [sys.executable, "-c", leave]}).waves(1)
    assert monotonic() - begin < 35 and sent(judge) == ["Bearer a-key"]


@pytest.mark.parametrize("section", ["judge", "embeddings"])
@pytest.mark.parametrize(
    ("key", "says"),
    [({"command": "print-key --now"}, "auth.command"), (7, "auth"), ({"command": []}, "auth.command")],
    ids=str,
)
def test_a_wrong_form_of_a_key_is_one_error(project, section, key, says):
    project.evaluation[section] = {"model": "m", "baseUrl": "http://127.0.0.1:9", "auth": key}
    project.samples(1)
    outcome = project.validate()
    [line] = [line for line in outcome.out.splitlines() if "auth" in line]
    assert outcome.code == 2 and f": spec.evaluation.{section}.{says}: " in line, outcome.out
    assert "str" not in line.replace("string", "")


def test_embeddings_take_the_command_too(judge, printer):
    config = EmbeddingsConfig(provider="openai-compatible", model="m", base_url=judge.url, auth=printer.key)
    run_embed(HttpEmbedder(config, keys=printer.place), ["a"])
    assert judge.embeddings[0].headers["authorization"] == "Bearer short-lived-key-0"


def test_a_printed_key_is_redacted_in_a_run_and_an_untrusted_project_prints_none(project, judge, tmp_path):
    key = "short-lived-key-0123"
    command = [sys.executable, "-c", "print('short-lived-' + 'key-0123')"]
    project.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "auth": {"command": command}}
    rubric = {"name": "polite", "rubric": "Is it polite?", "labels": {"good": 1, "bad": 0}}
    project.dataset("qa", [{"id": "s", "expected": "You."}], metrics=[rubric], thresholds={"polite": 1})
    (project.folder / "r.jsonl").write_text(json.dumps({"id": "s", "response": "You."}))
    judge.states = {"model": f"m-{key}"}
    passed = project.evaluate("--responses", "r.jsonl", "--json", "-o", "report.html")
    assert passed.code == 0, passed
    assert sent(judge) == [f"Bearer {key}"]
    assert_nowhere(key, passed, project.folder)
    refused = project.evaluate("--responses", "r.jsonl", "--untrusted", "--allow-host", "127.0.0.1")
    assert refused.code == 2 and "spec.evaluation.judge.auth.command: --untrusted does not run commands" in refused.err
    assert "--allow-env NAME" in refused.err
