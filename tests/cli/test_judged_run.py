"""Whole runs with judged metrics: the example agent in its own process, ragas, and a scripted judge on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentspec_guide import AGENTSPEC_GUIDE
from servers.scripted_judge import ScriptedJudge, status

ROOT = Path(__file__).parents[2]
KEY = "sk-scripted-key-000"


@pytest.fixture(scope="module")
def example_agent():
    """The example agent in a process of its own; gives its url."""
    command = [sys.executable, str(ROOT / "examples" / "agent" / "server.py"), "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture
def guide(project, example_agent, monkeypatch):
    """The guide's manifest beside the datasets of this repository, and a judge that the environment names."""
    (project.folder / "evals").symlink_to(ROOT / "evals")
    (project.folder / "agent.yaml").write_text(AGENTSPEC_GUIDE, encoding="utf-8")
    with ScriptedJudge(corpus=ROOT / "evals" / "corpus.jsonl", api_key=KEY) as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield project, judge, example_agent


def test_the_evaluation_block_of_agentspec_s_guide_passes_unchanged(guide):
    project, judge, url = guide
    outcome = project("evaluate", "agent.yaml", "--url", url, "--json")
    assert (outcome.code, outcome.document["verdict"], outcome.document["partial"]) == (0, "PASS", False)
    metrics = {name: m for dataset in outcome.document["datasets"] for name, m in dataset["metrics"].items()}
    assert all(metric["passed"] and metric["failed"] == 0 for metric in metrics.values()), metrics
    assert len(metrics) == 7
    assert sum(usage["calls"] for usage in outcome.document["judgeUsage"].values()) == len(judge.chats)
    written = "".join(path.read_text() for path in (project.folder / ".evalspec").rglob("*.json*"))
    assert KEY not in written + outcome.out + outcome.err


def test_one_threshold_moved_fails_the_gate(guide):
    project, _, url = guide
    text = AGENTSPEC_GUIDE.replace("answer_similarity: 0.80", "answer_similarity: 0.99")
    (project.folder / "agent.yaml").write_text(text)
    outcome = project("evaluate", "agent.yaml", "--url", url, "--dataset", "accuracy")
    assert outcome.code == 1
    assert outcome.out.startswith("FAIL")
    assert any("answer_similarity" in line for line in outcome.out.splitlines()[1:4])


@pytest.mark.parametrize(
    "mode", ["prose", "wrong_count", "out_of_range", "truncated", status(401), status(500)], ids=str
)
def test_a_judge_that_fails_is_incomplete_never_a_score(guide, mode):
    project, judge, url = guide
    judge.mode = mode
    outcome = project(
        "evaluate", "agent.yaml", "--url", url, "--json", "--dataset", "rag-quality", "--sample-size", "3"
    )
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    metric = outcome.document["datasets"][0]["metrics"]["faithfulness"]
    assert (metric["value"], metric["scored"], metric["failed"]) == (None, 0, 3)
    notes = [
        line for line in outcome.err.splitlines() if line.startswith("note: rag-quality: ") and " failed: " in line
    ]
    assert any("faithfulness" in line.partition(" failed: ")[0] for line in notes)
    assert "Traceback" not in outcome.err
    assert KEY not in outcome.err


def test_user_written_rubrics_are_judged(guide):
    project, _, url = guide
    rubric = "{name: tone, rubric: 'Is the answer polite? {response}', labels: {good: 1, bad: 0}}"
    text = AGENTSPEC_GUIDE.replace("[toxicity, bias]", f"[toxicity, bias, {rubric}]")
    (project.folder / "agent.yaml").write_text(text.replace("toxicity: 0.90", "toxicity: 0.90, tone: 0.5"))
    outcome = project("evaluate", "agent.yaml", "--url", url, "--json", "--dataset", "safety", "--sample-size", "2")
    assert outcome.code == 0
    assert outcome.document["datasets"][0]["metrics"]["tone"]["scored"] == 2


def modules_of(project, *arguments, **environment):
    """The modules that a run of its own process leaves imported, and its exit code. However slow the machine is, it
    waits for the first reply before it loads the judge's libraries."""
    program = (
        "import sys; import evalspec.runs.runner.scoring as scoring; scoring._PRELOAD_GRACE_SECONDS = 60; "
        "from evalspec.__main__ import main; code = main(); "
        "print('\\n'.join(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "evaluate", "agent.yaml", *arguments],
        cwd=project.folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, set(done.stderr.splitlines())


def test_ragas_is_imported_only_for_a_score_that_is_really_to_be_computed(guide):
    project, _, url = guide
    few = ("--sample-size", "1", "--dataset", "rag-quality")
    code, modules = modules_of(project, "--url", url, *few, "--no-judge")
    assert (code, "ragas" in modules) == (3, False), "no judge: nothing could be checked"
    code, modules = modules_of(project, "--url", "http://127.0.0.1:9", *few)
    assert (code, "ragas" in modules) == (3, False), "nobody listens: there is nothing to judge"
    code, modules = modules_of(project, "--url", url, *few)
    assert "ragas" in modules


def test_no_judge_is_partial_and_says_what_was_skipped(guide):
    project, judge, url = guide
    outcome = project("evaluate", "agent.yaml", "--url", url, "--no-judge", "--json")
    assert (outcome.code, outcome.document["verdict"], outcome.document["partial"]) == (0, "PASS", True)
    assert judge.chats == []
    faithfulness = outcome.document["datasets"][0]["metrics"]["faithfulness"]
    assert (faithfulness["value"], faithfulness["skipped"], faithfulness["passed"]) == (None, 34, None)
    scores = outcome.document["datasets"][0]["samples"][0]["scores"]
    faithfulness = scores["faithfulness"]
    assert (faithfulness["status"], faithfulness["value"]) == ("skipped", None)
    assert faithfulness["reason"] == "no judge (--no-judge)"
    assert json.loads(outcome.out) == outcome.document
