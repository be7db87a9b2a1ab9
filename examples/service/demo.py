"""A server with one project, a gold set, and three runs that a pretended CI pushes to it: `make demo-service`.

The project is in build/demo-service by default: the example agent, and two of its datasets. Runs are made in another
folder, as on a CI machine. Each is made with more of the help pages, so that comparisons and trends have something to
show. The gold set has triples to review and to settle. A second start keeps runs and reviews.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from evalspec import gold

ROOT = Path(__file__).resolve().parents[2]
EVALSPEC = (sys.executable, "-m", "evalspec")
BUILDS = ((0.6, "main"), (0.8, "main"), (1.0, "more-pages"))
"""The share of the help pages that the agent of each run knows, and the branch that is built."""
YOU = "you@example.com"
"""Whom the printed link logs in. In the gold set, this is a reviewer and an author."""
CI = "ci@example.com"
"""Who pushes runs, and may do nothing else."""
BROKEN_THRESHOLD = 1
"""The exit code of a run that misses a threshold, as some of these do."""
START_SECONDS = 60
TRIPLES = {
    "reset": ("ben", "password-reset", "How long does a reset link work?", "A reset link works for 30 minutes."),
    "refund": ("ben", "refund-monthly", "When is a monthly plan refunded?", "Within 14 days of the first payment."),
    "trial": ("you", "free-trial", "How long is the free trial?", "The free trial lasts 21 days."),
}
"""Author, help page, question and answer by id."""


def main() -> None:
    """Prepare the project, serve it, push the runs, and serve on until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve an example project, to which three runs are pushed.")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo-service")
    parser.add_argument("--port", type=int, default=8321)
    options = parser.parse_args()
    project, build = options.folder.resolve() / "project", options.folder.resolve() / "ci"
    for folder in (project, build):
        write_project(folder)
    write_gold_set(project)
    url = f"http://127.0.0.1:{options.port}"
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    command = (*EVALSPEC, "serve", "--project", f"demo={project}", "--port", str(options.port), "--login-user", YOU)
    with subprocess.Popen(command, cwd=project) as server:  # the database is in the project
        try:
            if wait_until_healthy(server, url):
                push_runs(project, build, url)
                path = create_token(project, YOU, "admin", "--login")
                print(f"the runs are there. log in once, within 10 minutes: {url}{path}", flush=True)
            sys.exit(server.wait())
        except KeyboardInterrupt:  # the terminal signals the server too, which ends its worker
            sys.exit(server.wait())
        finally:
            if server.poll() is None:
                server.terminate()


def wait_until_healthy(server: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the server answers. Return False if it has ended, or does not answer in time."""
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return True
        except urllib.error.URLError:
            time.sleep(0.1)
    return False


def push_runs(project: Path, build: Path, url: str) -> None:
    """Make the runs that are missing, and push them as a CI job does."""
    pages = (ROOT / "evals" / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    known = len(list((project / ".evalspec" / "runs").glob("2*/pushed.json")))
    environment = dict(os.environ)
    for share, branch in BUILDS[known:]:
        token = create_token(project, CI, "push")
        environment |= {"GITLAB_CI": "true", "CI_COMMIT_BRANCH": branch, "EVALSPEC_TOKEN": token}
        content = pages[: round(share * len(pages))]
        (build / "corpus.jsonl").write_text("".join(content), encoding="utf-8")
        print(f"evaluating the agent with {len(content)} of {len(pages)} help pages", file=sys.stderr)
        command = (*EVALSPEC, "evaluate", "agent.yaml", "--push", "--to", url)
        done = subprocess.run(command, cwd=build, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, BROKEN_THRESHOLD):
            sys.exit(done.returncode)


def create_token(project: Path, user: str, scope: str, *more: str) -> str:
    """Return a token of a user for the project. With the option `--login`, return the path of a link to log in."""
    options = ("--user", user, "--scope", scope, "--namespace", "demo", "--days", "1", *more)
    command = (*EVALSPEC, "token", "create", *options)
    return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout.strip()


def write_project(project: Path) -> None:
    """Copy the agent and the datasets, and write the manifest."""
    shutil.copytree(ROOT / "examples" / "agent", project / "agent", dirs_exist_ok=True)
    for name in ("rag.jsonl", "retrieval.jsonl"):
        shutil.copyfile(ROOT / "evals" / name, project / name)
    shutil.copyfile(ROOT / "evals" / "corpus.jsonl", project / "corpus.jsonl")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    manifest = describe_project(port)
    (project / "agent.yaml").write_text(json.dumps(manifest, indent=2), encoding="utf-8")  # JSON is YAML


def write_gold_set(project: Path) -> None:
    """Write a gold set: one triple to review, a dispute that you decide, and a flag of your own triple."""
    root = project / "gold" / "help"
    if root.exists():  # people may have reviewed it
        return
    addresses = {"you": YOU} | {name: f"{name}@example.com" for name in ("ben", "cleo", "dan")}
    people = {name: gold.Person(email=address) for name, address in addresses.items()}
    gold.create_set(root, "Help pages", people, demonstration=True)
    for name, (author, block, question, answer) in TRIPLES.items():
        content = {"question": question, "expected_block": {"block_id": block}, "expected_answer": answer}
        gold.add_triple(root, name, gold.GoldTriple.model_validate(content), author)
    gold.pin(root, project / "corpus.jsonl", "ben")
    gold.review(root, "refund", "cleo", "overstated", category="numeric", note="The page says 7 days.")
    gold.review(root, "refund", "dan")
    gold.review(root, "trial", "ben", "understated", category="other", note="It leaves out the limit of members.")


def describe_project(port: int) -> dict[str, object]:
    """Return the manifest. `port`: of the agent, which each run starts and stops."""
    agent = {
        "url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, "agent/server.py", "--corpus", "corpus.jsonl", "--port", str(port)],
        "readyPath": "/health",
        "chatEndpoint": {
            "path": "/v1/chat",
            "protocol": "custom",
            "request": {"message": "{{input}}", "messages": "{{messages}}"},
            "response": {
                "answer": "$.response",
                "contexts": "$.contexts[*].text",
                "contextIds": "$.contexts[*].id",
                "usage": "$.usage",
            },
        },
    }
    answers = {
        "name": "answers",
        "path": "$file:rag.jsonl",
        "metrics": ["rouge", "non_llm_context_recall", "Recall@5", "nDCG@10", "grounding_overlap"],
        "thresholds": {"rouge": 0.4, "non_llm_context_recall": 0.9, "Recall@5": 0.8},
    }
    ranking = {
        "name": "retrieval",
        "path": "$file:retrieval.jsonl",
        "metrics": ["Recall@5", "nDCG@10", "RR"],
        "thresholds": {"Recall@5": 0.6, "RR": 0.7},
    }
    return {
        "apiVersion": "agentspec.io/v1",
        "kind": "AgentSpec",
        "metadata": {"name": "inkwharf-help", "description": "Answers questions about Inkwharf, an invented service"},
        "spec": {
            "api": agent,
            "evaluation": {
                "datasets": [answers, ranking],
                "thresholds": {"latency_p95": {"max": 1000}, "error_rate": {"max": 0}},
                "ciGate": True,
            },
        },
    }


if __name__ == "__main__":
    main()
