"""Every block of sh and Python outside the how-to guides and the reference runs, page by page and in order."""

import subprocess
import sys

import pytest

from shell_pages import DOCUMENTS, SHOWN, SQUARES, Page, list_pages, name_page, read_blocks, run_page

CHECKOUT = (
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
    "agent.yaml.example",
    "docs",
    "evals",
    "evalspec",
    "examples/agent",
    "tests",
)
REVIEW = (
    ("f", "go back"),
    ("4", "go back"),
    ("1", "A note"),
    ("The block does not say GCM.\n", "[q] quit"),
    ("c", "[q] quit"),
    ("c", "[q] quit"),
    ("q", ""),
)
SILENT_BOT = r"""
for number in $(seq 10); do printf '{"id": "s%d", "input": "%d", "expected": ""}\n' $number $number; done > qa.jsonl
echo 'def answer(question): return "Good morning." if question == "10" else ""' > bot.py
cat > agent.yaml <<'END_OF_FILE'
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: support-bot}
spec:
  api: {python: "bot:answer"}
  evaluation:
    judge: {model: any}
    datasets: [{name: qa, path: $file:qa.jsonl, metrics: [toxicity]}]
    thresholds: {toxicity: 0.9}
    ciGate: true
END_OF_FILE
"""
PAGES = {
    "CONTRIBUTING.md": Page(
        {name: name for name in CHECKOUT},
        variables={"MAKEFLAGS": "n"},  # make says what it would do, and fails without the target
        python="tests/test_contributing.py",
    ),
    "docs/explanation/gate.md": Page(
        SQUARES,
        "evalspec init",
        prints={
            1: "sed -i 's/ciGate: true/ciGate: {confidence: 0.95}/' agent.yaml; evalspec evaluate agent.yaml",
            2: "cd ../squares; sed -i 's/ciGate: true/ciGate: {minPassRate: 0.75}/' agent.yaml\n"
            "evalspec evaluate agent.yaml --repeat 4",
        },
    ),
    "docs/explanation/statistics-in-plain-words.md": SHOWN,
    "docs/explanation/statuses.md": Page(
        before=SILENT_BOT, stand_ins=("judge",), prints={1: "evalspec evaluate agent.yaml"}
    ),
    "docs/tutorials/first-gate.md": SHOWN,
    "docs/tutorials/gold.md": Page(keys=REVIEW, is_printed=True),
    "docs/tutorials/retriever.md": SHOWN,
    "examples/agent/README.md": Page(
        {"examples/agent": "examples/agent", "evals": "evals"},
        filled={"--port 8917 &": "--port $EVALSPEC_PORT > ../server.log 2>&1 & echo $! >> ../processes;"},
    ),
    "examples/traced/README.md": Page({".": "examples/traced"}),
    "examples/acting/README.md": Page({"examples/acting": "examples/acting"}),
    "examples/recipes/README.md": Page({"examples/recipes": "examples/recipes"}),
}
ELSEWHERE = ("docs/how-to/", "docs/reference/")


@pytest.mark.parametrize(("page", "needs"), list_pages(PAGES, lambda name: not name.startswith(ELSEWHERE)))
def test_the_blocks_of_the_page_run(page, needs, tmp_path, monkeypatch):
    run_page(page, needs, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_page)
def test_python_uses_no_name_that_the_page_does_not_have(page):
    """A function that no block calls runs on the reader's machine only."""
    code = "\n".join(block.code for block in read_blocks(page) if block.language == "python")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True) if code else None
    assert done is None or done.returncode == 0, done.stdout + done.stderr
