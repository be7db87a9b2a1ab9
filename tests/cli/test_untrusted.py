"""--untrusted: a stranger's project is refused whole, before anything is called, imported, started or written."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from servers.faulty_agent import FaultyAgent, redirect, status

TOUCH = "from pathlib import Path\nPath('imported').touch()\ndef run(*_): return 1.0\n"


@pytest.fixture
def secret(tmp_path_factory, monkeypatch):
    """A file and a variable that no project may see."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "secret.jsonl").write_text('{"input": "q", "expected": "hunter2"}\n')
    monkeypatch.setenv("TOKEN", "hunter2")
    monkeypatch.setenv("AGENTSPEC_SECRET_KEY", "hunter2")
    return folder / "secret.jsonl"


def place(server: FaultyAgent) -> str:
    """The server as host:port."""
    return server.url.removeprefix("http://")


def hostile(project, secret: Path, agent: FaultyAgent) -> list[str]:
    """Everything that is refused, in one manifest. Returns the fields."""
    (project.folder / "mine.py").write_text(TOUCH)
    (project.folder / "link.jsonl").symlink_to(secret)
    (project.folder / "linked").symlink_to(secret.parent)
    here, up = f"$file:{secret}", os.path.relpath(secret, project.folder)
    start = f"open('started', 'w')  # {agent.url}"
    project.api = {
        "url": agent.url,
        "command": [sys.executable, "-c", start],
        "chatEndpoint": {"headers": {"authorization": "Bearer ${env:TOKEN}", "x-key": "$secret:key"}},
    }
    project.evaluation = {
        "judge": {"model": "m", "baseUrl": agent.url, "apiKey": "$env:TOKEN"},
        "embeddings": {
            "provider": "openai-compatible",
            "model": "m",
            "baseUrl": agent.url,
            "apiKey": here,
        },
        "retrievers": {
            "own": {"python": "mine:run"},
            "remote": {"http": {"url": agent.url, "search": {"preset": "autorag"}}},
            "server": {"builtin": "qdrant", "url": agent.url, "apiKey": "$env:TOKEN"},
            "disk": {"builtin": "qdrant", "path": "store"},
            "plugin": {"builtin": "elsewhere"},
        },
        "ciGate": {"enabled": False, "baseline": up},
    }
    project.dataset("qa", [{"id": "a"}], metrics=["string_match", {"name": "mine", "scorer": "mine:run"}])
    listed = project.evaluation["datasets"]
    listed.append({"name": "absolute", "path": str(secret), "metrics": ["string_match"]})
    listed.append({"name": "up", "path": f"$file:{up}", "metrics": ["string_match"]})
    listed.append({"name": "link", "path": "link.jsonl", "metrics": ["string_match"]})
    listed.append({"name": "corpus", "path": "qa.jsonl", "corpus": "linked/secret.jsonl", "metrics": ["Recall@1"]})
    listed.append({"name": "hook", "path": "qa.jsonl", "retriever": "own", "loader": "mine:run", "metrics": ["RR"]})
    evaluation = "spec.evaluation"
    return [
        "spec.api.command",
        "spec.api.url",
        "spec.api.chatEndpoint.headers.authorization",
        "spec.api.chatEndpoint.headers.x-key",
        f"{evaluation}.judge.baseUrl",
        f"{evaluation}.judge.apiKey",
        f"{evaluation}.embeddings.baseUrl",
        f"{evaluation}.embeddings.apiKey",
        f"{evaluation}.retrievers.own.python",
        f"{evaluation}.retrievers.remote.http.url",
        f"{evaluation}.retrievers.server.url",
        f"{evaluation}.retrievers.server.apiKey",
        f"{evaluation}.retrievers.disk.path",
        f"{evaluation}.retrievers.plugin.builtin",
        f"{evaluation}.ciGate.baseline",
        f"{evaluation}.datasets[0].metrics[1].scorer",
        f"{evaluation}.datasets[1].path",
        f"{evaluation}.datasets[2].path",
        f"{evaluation}.datasets[3].path",
        f"{evaluation}.datasets[4].corpus",
        f"{evaluation}.datasets[5].loader",
    ]


@pytest.mark.parametrize("command", ["validate", "plan", "evaluate"])
def test_everything_is_refused_at_once_and_nothing_is_done(project, agent, secret, command):
    fields = hostile(project, secret, agent)
    path = project.write()
    files = {file.name for file in project.folder.iterdir()}
    outcome = project(command, path.name, "--untrusted", "--json")
    assert outcome.code == 2
    errors = outcome.document["errors"]
    assert set(fields) <= {error["field"] for error in errors}
    lines = path.read_text().splitlines()
    for error in errors:
        if error["field"] in fields:
            assert error["file"] == "agent.yaml"
            assert error["field"].rpartition(".")[2].partition("[")[0] in lines[error["line"] - 1], error
            assert error["fix"] or "; " in error["message"], error
    assert "hunter2" not in outcome.out + outcome.err
    assert agent.requests == []
    assert {file.name for file in project.folder.iterdir()} == files


def test_the_same_project_runs_where_it_is_trusted(project, agent):
    (project.folder / "mine.py").write_text(TOUCH)
    project.api = {"url": agent.url}
    project.samples(1, metrics=({"name": "mine", "scorer": "mine:run"},))
    assert project.evaluate().code == 0
    assert (project.folder / "imported").exists()


def test_the_variable_is_as_good_as_the_option(project, agent, monkeypatch):
    monkeypatch.setenv("EVALSPEC_UNTRUSTED", "1")
    project.api = {"url": agent.url}
    project.samples(1)
    refused = project.evaluate()
    assert refused.code == 2
    assert (
        f"spec.api.url: --untrusted does not connect to {place(agent)}. pass --allow-host {place(agent)}" in refused.err
    )
    monkeypatch.setenv("EVALSPEC_ALLOW_HOST", f"example.com {place(agent)}")
    assert project.evaluate().code == 0


class TestPermitted:
    """Each thing with its option."""

    def test_the_agent_of_the_command_line(self, project, agent):
        project.api = {"url": "http://example.com", "command": ["touch", "started"]}
        project.samples(2)
        (project.folder / "out").mkdir()
        assert project.evaluate("--untrusted", "--url", agent.url, "-o", "out/report.json").code == 0
        assert len(agent.requests) == 2
        assert (project.folder / "out" / "report.json").exists()
        assert not (project.folder / "started").exists()

    def test_another_port_of_that_host_is_not(self, project, agent):
        with FaultyAgent() as other:
            project.evaluation["retrievers"] = {"r": {"http": {"url": other.url, "search": {"preset": "autorag"}}}}
            project.samples(1)
            refused = project.evaluate("--untrusted", "--url", agent.url)
            assert f"does not connect to {place(other)}" in refused.err
            assert (agent.requests, other.requests) == ([], [])

    @pytest.mark.parametrize("host", ["127.0.0.1", None])
    def test_a_host_and_a_variable(self, project, agent, monkeypatch, host):
        monkeypatch.setenv("TOKEN", "hunter2")
        project.api = {"url": agent.url, "chatEndpoint": {"headers": {"authorization": "${env:TOKEN}"}}}
        project.samples(1)
        assert "pass --allow-env TOKEN" in project.evaluate("--untrusted", "--allow-host", host or place(agent)).err
        done = project.evaluate("--untrusted", "--allow-env", "TOKEN", "--allow-host", host or place(agent))
        assert done.code == 0
        assert agent.requests[0].headers["authorization"] == "hunter2"

    def test_recorded_replies_in_the_folder_need_no_agent(self, project):
        project.api = {"url": "http://example.com", "command": ["touch", "started"]}
        project.samples(1)
        (project.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Paris"}\n')
        assert project.evaluate("--untrusted", "--responses", "replies.jsonl").code == 0
        assert project("rescore", "latest", "agent.yaml", "--untrusted").code == 0

    def test_links_within_the_folder(self, project, agent):
        project.api = {"url": agent.url}
        project.samples(1)
        (project.folder / "qa.jsonl").rename(project.folder / "there.jsonl")
        (project.folder / "qa.jsonl").symlink_to("there.jsonl")
        assert project.evaluate("--untrusted", "--url", agent.url).code == 0

    def test_without_untrusted_they_are_a_mistake(self, project):
        project.samples(1)
        assert project.validate("--allow-env", "TOKEN").code == 2
        assert "--allow-host: has no effect without --untrusted" in project.validate("--allow-host", "a").err

    @pytest.mark.parametrize("host", ["http://example.com", "a/b", "", "a:b", "user@host"])
    def test_what_is_no_host_is_said(self, project, host):
        project.samples(1)
        refused = project.validate("--untrusted", "--allow-host", host)
        assert refused.code == 2
        assert "is not a host" in refused.err


class TestJudge:
    def judged(self, project, agent, **judge):
        project.api = {"url": agent.url}
        project.samples(1, metrics=("faithfulness",), context=["Paris is the capital."])
        project.evaluation["judge"] = {"model": "m", **judge}

    def test_the_key_of_the_environment_is_not_read_by_default(self, project, agent, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
        self.judged(project, agent)
        refused = project.validate("--untrusted", "--allow-host", place(agent))
        assert "pass --allow-env OPENAI_API_KEY" in refused.out
        assert "does not connect to api.openai.com" in refused.out
        options = ("--allow-env", "OPENAI_API_KEY", "--allow-host", "api.openai.com", "--allow-host", place(agent))
        assert project.validate("--untrusted", *options).code == 0

    def test_a_judge_that_is_left_out_needs_nothing(self, project, agent):
        self.judged(project, agent, baseUrl="$env:GONE", apiKey="$env:TOKEN")
        project.evaluation["datasets"][0]["metrics"].append("string_match")
        assert project.evaluate("--untrusted", "--no-judge", "--url", agent.url).code == 0

    def test_an_address_of_the_environment_is_not_printed(self, project, agent, monkeypatch):
        monkeypatch.setenv("JUDGE", "http://hunter2.example.com/v1")
        self.judged(project, agent, baseUrl="$env:JUDGE")
        refused = project.validate("--untrusted", "--allow-env", "JUDGE", "--allow-host", place(agent))
        assert "judge.baseUrl: --untrusted does not connect to" in refused.out
        assert "hunter2" not in refused.out


def test_a_redirect_to_another_host_is_not_followed(project, agent):
    with FaultyAgent() as other:
        agent.mode = redirect(other.url)
        project.samples(1)
        assert project.evaluate("--untrusted", "--url", agent.url).code == 3
        assert len(agent.requests) == 1
        assert other.requests == []


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_what_starts_an_agent_is_in_order_where_one_is_named(project, command):
    project.samples(1)
    project.api = {"command": ["false"], "url": "http://127.0.0.1:9"}
    path = project.write().name
    assert project(command, path, "--untrusted").code == 2
    assert project(command, path, "--untrusted", "--url", "http://127.0.0.1:4000").code == 0


@pytest.mark.parametrize("name", [".evalspec/runs/latest/samples.jsonl", ".git/config"])
def test_earlier_runs_and_a_checkout_are_sent_to_no_agent(project, agent, name):
    project.api = {"url": agent.url}
    project.samples(1)
    assert project.evaluate().code == 0
    path = project.folder / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    project.api["chatEndpoint"] = {"protocol": "custom", "request": {"q": f"$file:{name}"}, "response": {"answer": "$"}}
    agent.requests.clear()
    refused = project.evaluate("--untrusted", "--allow-host", place(agent))
    assert refused.code == 2
    assert "spec.api.chatEndpoint.request.q: " in refused.err
    assert agent.requests == []


def test_the_way_on_is_as_little_trusted(project, agent):
    project.samples(1)
    agent.mode = status(500)
    ended = project.evaluate("--untrusted", "--url", agent.url, "--allow-env", "TOKEN")
    again = f"--url {agent.url} --untrusted --allow-env TOKEN --allow-host {place(agent)} --resume"
    assert again in ended.err


class TestFiles:
    def test_a_folder_that_is_a_link_is_not_written_to_from_elsewhere(self, project, agent, tmp_path_factory):
        """The project's folder is not the working directory, so that links in it lie on the way."""
        outside = tmp_path_factory.mktemp("outside")
        inside = project.folder / "inside"
        inside.mkdir()
        (inside / "build").symlink_to(outside)
        (inside / "d.jsonl").write_text('{"id": "a", "input": "x", "expected": "y"}\n')
        here = project.folder / "here"
        here.mkdir()
        os.chdir(here)
        refused = project("convert", "../inside/d.jsonl", "../inside/build/x.jsonl", "--to", "jsonl", "--untrusted")
        assert (refused.code, list(outside.iterdir())) == (2, [])

    def test_a_manifest_that_is_a_link_is_not_read(self, project, secret):
        (project.folder / "agent.yaml").symlink_to(secret)
        refused = project("validate", "agent.yaml", "--untrusted")
        assert refused.code == 2
        assert "hunter2" not in refused.out
        assert "agent.yaml: 'agent.yaml' is outside the project's folder" in refused.out

    def test_earlier_runs(self, project, agent):
        project.api = {"url": agent.url}
        project.samples(1)
        assert project.evaluate().code == 0
        (stored,) = project.folder.glob(".evalspec/runs/2*/inputs.jsonl")
        name = str(stored.relative_to(project.folder))
        project.evaluation["datasets"].append({"name": "spy", "path": name, "metrics": ["string_match"]})
        refused = project.evaluate("--untrusted", "--url", agent.url)
        assert refused.code == 2
        assert f"datasets[1].path: '{name}' is outside the project's folder" in refused.err
        project.evaluation["datasets"].pop()
        project.write()
        assert (
            project("plan", "agent.yaml", "--baseline", "latest", "--untrusted", "--allow-host", "127.0.0.1").code == 0
        )

    def test_replies_of_elsewhere(self, project, secret):
        project.samples(1)
        (project.folder / "replies.jsonl").symlink_to(secret)
        for path in ("replies.jsonl", str(secret)):
            refused = project.evaluate("--untrusted", "--responses", path)
            assert refused.code == 2
            assert "outside the project's folder" in refused.err
            assert "hunter2" not in refused.err

    def test_a_file_that_a_reader_finds_beside_the_dataset(self, project, secret, agent):
        folder = project.folder / "trec"
        folder.mkdir()
        (folder / "qrels.txt").write_text("q1 0 d1 1\n")
        (folder / "queries.jsonl").symlink_to(secret)
        project.api = {"url": agent.url}
        project.evaluation["datasets"] = [{"name": "t", "path": "trec", "metrics": ["Recall@1"]}]
        refused = project.evaluate("--untrusted", "--url", agent.url)
        assert refused.code == 2
        assert "trec/queries.jsonl' is outside the project's folder" in refused.err
        assert agent.requests == []

    def test_commands_that_name_files_themselves(self, project, secret):
        linked = project.folder / "linked.jsonl"
        linked.symlink_to(secret)
        (project.folder / "run.txt").write_text("q1 Q0 d1 1 1.0 t\n")
        for arguments in (
            ("convert", "linked.jsonl", "out.json", "--to", "unrag", "--lossy"),
            ("score", "linked.jsonl", "run.txt"),
            ("remap", "linked.jsonl", "linked.jsonl", "linked.jsonl", "-o", "out.jsonl"),
        ):
            refused = project(*arguments, "--untrusted")
            assert refused.code == 2, arguments
            assert "'linked.jsonl' is outside the project's folder" in refused.err
            assert not list(project.folder.glob("out*"))
        own = project.folder / "own.jsonl"
        own.write_text(json.dumps({"input": "q", "expected": "a", "id": "q1", "relevant": ["d1"]}) + "\n")
        assert project("convert", "own.jsonl", "out.jsonl", "--to", "jsonl", "--untrusted").code == 0
        assert project("score", "own.jsonl", "run.txt", "--untrusted").code == 0

    @pytest.mark.parametrize("link", [".evalspec", ".evalspec/runs", "out"])
    def test_nothing_is_written_through_a_link(self, project, agent, tmp_path_factory, link):
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        (project.folder / link).parent.mkdir(exist_ok=True)
        (project.folder / link).symlink_to(elsewhere)
        (project.folder / "out").mkdir(exist_ok=True)
        project.samples(1)
        refused = project.evaluate("--untrusted", "--url", agent.url, "-o", "out/report.json")
        assert refused.code == 2
        assert "does not write through links" in refused.err
        assert list(elsewhere.iterdir()) == []
        assert agent.requests == []


def test_a_retriever_is_not_checked_at_a_host_of_its_own_choice(project, agent):
    wire = {"path": "/x", "request": {"q": "{{query}}"}}
    call = {"path": "/x", "request": {"p": "{{scopePrefix}}"}}
    search = wire | {"response": {"ids": "$.ids[*]"}}
    ingest = {"path": "/x", "request": {"d": "{{documents}}"}}
    http = {"url": agent.url, "search": search, "ingest": ingest, "delete": call}
    project.evaluation["retrievers"] = {"r": {"http": http}}
    project.samples(1)
    project.write()
    refused = project("retrievers", "check", "r", "agent.yaml", "--untrusted")
    assert refused.code == 2
    assert "retrievers.r.http.url: --untrusted does not connect" in refused.err
    assert agent.requests == []


def test_a_socket_is_never_opened(project, secret, monkeypatch, agent):
    """Whatever the messages say: no address is looked up."""
    hostile(project, secret, agent)

    def refuse(*_arguments, **_settings):
        raise AssertionError("looked up")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert project.evaluate("--untrusted").code == 2
