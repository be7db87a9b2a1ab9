"""A run of an agent that a command starts is not resumed with another version of the agent."""

import shlex
import socket
import subprocess
import sys

import pytest

from servers.ports import find_free_port
from servers.service import wait_for
from stored_log import keep_records

SERVER = """
    import http.server, json, sys, words
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({})
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"response": words.WORD})
        def answer(self, body):
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        def log_message(self, *arguments): ...
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
UNKNOWN = "evalspec cannot tell whether the agent at http://127.0.0.1:"
CHANGED = "agent: the code of spec.api.command changed"
CHANGED_FILES = "agent: files of the project changed (last: "


@pytest.fixture
def started(project, agent):
    """A project whose agent answers already, so that no command has to start it. All its files are imported."""
    for path in ("server.py", "words.py", "pkg/serve.py", "pkg/__main__.py", "pkg/near.py", "src/serve.py"):
        write(project, path, "import words, near\nfrom . import near\n")
    for path in ("pkg/__init__.py", "server.js", "data.sqlite", "README.md", "unused.py"):
        write(project, path, "\n")
    project.api = {"url": agent.url}
    project.samples(3)
    return project


def write(project, path, text):
    file = project.folder / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def git(project, *arguments):
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", *who, *arguments], cwd=project.folder, check=True, capture_output=True)


def answers(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def forget(project, sample="s1"):
    """Leave a sample to ask."""
    log = project.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    keep_records(log, lambda record: record.get("id") != sample and record["kind"] != "report")


def test_two_versions_of_a_started_agent_are_not_mixed(project):
    (project.folder / "server.py").write_text("\n".join(line[4:] for line in SERVER.splitlines()))
    write(project, "words.py", "WORD = 'Paris'")
    port = find_free_port()
    project.api = {"url": f"http://127.0.0.1:{port}", "command": ["python", "server.py", str(port)]}
    project.samples(4)
    first = project.evaluate("--json")
    assert (first.code, first.document["datasets"][0]["metrics"]["string_match"]["value"]) == (0, 1.0)
    forget(project)
    write(project, "words.py", "WORD = 'Rome!'")
    refused = project.evaluate("--resume")
    assert (refused.code, CHANGED in refused.err) == (2, True)
    assert "undo the change, start a new run, or score what is there: `evalspec rescore" in refused.err
    write(project, "words.py", "WORD = 'Paris'")
    resumed = project.evaluate("--resume", "--json")
    assert resumed.document["datasets"][0]["metrics"]["string_match"]["value"] == 1.0
    assert "the files that spec.api.command names are unchanged" in resumed.err


@pytest.mark.parametrize(
    ("command", "edited", "code"),
    [
        ("python server.py 4000", "server.py", 2),
        ("python ./server.py", "words.py", 2),
        ("python -u pkg/serve.py", "pkg/near.py", 2),
        ("python -m pkg.serve", "pkg/near.py", 2),
        ("python -m pkg", "pkg/__main__.py", 2),
        ("uvicorn pkg.serve:app --port 4000", "pkg/near.py", 2),
        ("gunicorn pkg.serve:make(1)", "pkg/serve.py", 2),
        ("uvicorn --app-dir src serve:app", "src/serve.py", 2),
        ("hypercorn --root=src serve:app", "src/serve.py", 2),
        (["sh", "-c", "cd src && exec python serve.py --port 4000"], "src/serve.py", 2),
        (["sh", "-c", "make; (cd src;python 'serve.py')"], "src/serve.py", 2),
        (["sh", "-c", "python -m unused && python -m pkg.serve"], "pkg/near.py", 2),
        ("node server.js", "server.js", 2),
        ("python server.py", "README.md", 0),
        ("python server.py", "unused.py", 0),
        ("python server.py data.sqlite", "data.sqlite", 0),
        (["python", "-c", "pass" * 2000], "server.py", 0),
        ("docker run -m 512m -p 4000:4000 pkg", "pkg/__init__.py", 0),
    ],
)
def test_what_a_command_names_is_compared_as_the_code_of_a_python_agent_is(command, edited, code, started):
    started.api["command"] = command.split() if isinstance(command, str) else command
    assert started.evaluate().code == 0
    write(started, edited, "edited = True\n")
    outcome = started.evaluate("--resume")
    assert (outcome.code, CHANGED in outcome.err) == (code, code == 2), outcome.err


def commit_it(project):
    write(project, "lib.js", "edited")
    git(project, "commit", "-qam", "another version")


def comment(project):
    manifest = project.folder / "agent.yaml"
    manifest.write_text(f"# a comment\n{manifest.read_text()}")


def ignore(project):
    write(project, "cache.bin", "written by the agent")
    write(project, ".gitignore", "cache.bin\n")


def link_elsewhere(project):
    write(project, "../elsewhere.txt", "edited")


def write_what_agents_write(project):
    for path in ("agent.log", "agent.log.1", "bot.db-wal", "bot.db-shm", "bot.db-journal", "nohup.out", "bot.lock"):
        write(project, path, "a line")
    write(project, ".cache/answers", "a line")


KNOWN = "the files that git tracks are unchanged"


@pytest.mark.parametrize(
    "command", ["npm start", "sh -c 'python unused.py; exec sh start.sh'", "python loads_by_name.py"]
)
@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda project: write(project, "lib.js", "edited"), 2),
        (lambda project: write(project, "prompt.txt", "edited"), 2),
        (lambda project: write(project, "new.js", "edited"), 2),
        (lambda project: write(project, "tracked.db", "edited"), 2),
        (lambda project: write(project, "assumed.js", "edited"), 2),
        (lambda project: write(project, "inside/lib.js", "edited"), 2),
        (link_elsewhere, 2),
        (lambda project: (project.folder / "lib.js").unlink(), 2),
        (lambda project: (project.folder / ".git").rename(project.folder / "no-git"), 2),
        (commit_it, 2),
        (lambda project: git(project, "commit", "-q", "-m", "what was edited before", "dirty.js", "gone.js"), 0),
        (lambda project: git(project, "commit", "-q", "--amend", "-m", "another message"), 0),
        (lambda project: project("report", "-o", "report.html", "-o", "report.json"), 0),
        (write_what_agents_write, 0),
        (comment, 0),
        (ignore, 0),
    ],
)
def test_the_files_of_git_are_compared(edit, code, command, started):
    for name in (
        "lib.js",
        "dirty.js",
        "gone.js",
        "tracked.db",
        "assumed.js",
        "prompt.txt",
        "start.sh",
        "../elsewhere.txt",
    ):
        write(started, name, "1")
    write(started, "loads_by_name.py", "import importlib; importlib.import_module('agent' + 's')")
    (started.folder / "link.txt").symlink_to("../elsewhere.txt")
    started.api["command"] = shlex.split(command)
    started.write()
    git(started, "init", "-q", "inside")
    write(started, "inside/lib.js", "1")
    git(started, "init", "-q")
    git(started, "add", *(path.name for path in started.folder.iterdir() if path.name not in ("inside", ".git")))
    git(started, "commit", "-qm", "all")
    git(started, "update-index", "--assume-unchanged", "assumed.js")
    write(started, "dirty.js", "2")
    (started.folder / "gone.js").unlink()
    assert started.evaluate().code == 0
    forget(started)
    edit(started)
    outcome = started("evaluate", "agent.yaml", "--resume")
    assert (outcome.code, CHANGED_FILES in outcome.err) == (code, code == 2), outcome.err
    assert (UNKNOWN in outcome.err and KNOWN in outcome.err) == (code == 0), "it was running already"


def test_where_a_link_leads_to_a_folder_elsewhere_nothing_is_said_of_the_files_of_git(started):
    write(started, "../elsewhere/prompt.txt", "1")
    (started.folder / "prompts").symlink_to("../elsewhere")
    started.api["command"] = ["npm", "start"]
    started.write()
    git(started, "init", "-q")
    git(started, "add", "prompts", "agent.yaml")
    assert started.evaluate().code == 0
    forget(started)
    write(started, "../elsewhere/prompt.txt", "edited")
    outcome = started.evaluate("--resume")
    assert (outcome.code, UNKNOWN in outcome.err, KNOWN in outcome.err) == (0, True, False)


def test_an_agent_that_runs_already_is_not_said_to_be_the_one_of_before(project, agent):
    write(project, "server.py", "\n".join(line[4:] for line in SERVER.splitlines()))
    write(project, "words.py", "WORD = 'Paris'")
    git(project, "init", "-q")
    port = find_free_port()
    project.api = {"url": f"http://127.0.0.1:{port}", "command": ["python", "server.py", str(port)]}
    project.samples(3)
    assert project.evaluate().code == 0
    forget(project)
    assert UNKNOWN not in project.evaluate("--resume").err, "it was started again"
    forget(project)
    other = subprocess.Popen([sys.executable, "server.py", str(port)], cwd=project.folder)
    try:
        wait_for(lambda: answers(port))
        outcome = project.evaluate("--resume")
    finally:
        other.kill()
        other.wait()
    assert (UNKNOWN in outcome.err, KNOWN in outcome.err) == (True, True)


def test_what_a_python_agent_reads_is_compared_too(project):
    write(
        project, "bot.py", "import pathlib\ndef answer(question):\n    return pathlib.Path('prompt.txt').read_text()\n"
    )
    write(project, "prompt.txt", "Paris")
    project.api = {"python": "bot:answer"}
    project.samples(3)
    git(project, "init", "-q")
    assert project.evaluate().code == 0
    forget(project)
    write(project, "prompt.txt", "Rome!")
    assert CHANGED_FILES in project.evaluate("--resume").err


def test_without_an_answer_of_git_when_a_run_began_nothing_is_said_of_its_files(started):
    write(started, "lib.js", "1")
    started.api["command"] = ["npm", "start"]
    assert started.evaluate().code == 0
    forget(started)
    git(started, "init", "-q")
    outcome = started.evaluate("--resume")
    assert (outcome.code, UNKNOWN in outcome.err, KNOWN in outcome.err) == (0, True, False)


@pytest.mark.parametrize("command", [["npm", "start"], ["python", "server.py"], None])
def test_a_resume_says_what_it_cannot_tell(command, started, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    started.api |= {} if command is None else {"command": command}
    started.evaluate()
    assert UNKNOWN not in started.evaluate("--resume").err, "nothing is asked"
    forget(started)
    outcome = started.evaluate("--resume")
    assert outcome.code == 0
    (line,) = [line for line in outcome.err.splitlines() if UNKNOWN in line]
    named = command is not None and "server.py" in command
    assert line.endswith("spec.api.command names are unchanged" if named else "is the one that the run began with")


def test_git_is_not_called_for_an_untrusted_project(started, agent, tmp_path, monkeypatch):
    """A repository may name programs that git runs."""
    write(started, "git", "#!/bin/sh\n: > called\n")
    (started.folder / "git").chmod(0o700)
    monkeypatch.setenv("PATH", str(started.folder))
    started.api["command"] = ["npm", "start"]
    started.evaluate("--untrusted", "--url", agent.url)
    started.evaluate("--untrusted")
    assert not (started.folder / "called").exists()
    started.evaluate()
    assert (started.folder / "called").exists()
