"""A server with one project and three runs to look at: `make demo-service`.

The project is build/demo-service by default, a copy of the example agent and of two of its datasets. Each run is made
with more of the help pages, so that comparisons and trends have something to show. A second start keeps the runs.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (0.6, 0.8, 1.0)
"""The share of the help pages that the agent of each run knows."""
BROKEN_THRESHOLD = 1
"""The exit code of a run that misses a threshold, as some of these do."""


def main() -> None:
    """Prepare the project, make the runs, and serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve an example project with three runs.")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo-service")
    parser.add_argument("--port", type=int, default=8321)
    options = parser.parse_args()
    project = options.folder.resolve()
    try:
        make_runs(project)
    except KeyboardInterrupt:
        sys.exit("stopped; the next start continues")
    command = [sys.executable, "-m", "evalspec", "serve", "--project", f"demo={project}", "--port", str(options.port)]
    os.chdir(project)  # the database is in the project
    os.execv(sys.executable, command)  # Ctrl-C goes to the server, which ends its worker


def make_runs(project: Path) -> None:
    """Make the runs that are missing."""
    pages = (ROOT / "evals" / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    runs = project / ".evalspec" / "runs"
    write_project(project)
    for share in PAGES[len(list(runs.glob("2*/report.json"))) :]:
        known = pages[: round(share * len(pages))]
        (project / "corpus.jsonl").write_text("".join(known), encoding="utf-8")
        print(f"evaluating the agent with {len(known)} of {len(pages)} help pages", file=sys.stderr)
        command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml"]
        done = subprocess.run(command, cwd=project, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, BROKEN_THRESHOLD):
            sys.exit(done.returncode)


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
