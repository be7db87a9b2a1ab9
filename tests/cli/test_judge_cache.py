"""The judge's cache: nothing is asked twice, no answer stands for two, and nobody else's file becomes a score."""

import json
import stat

import pytest

from servers.scripted_judge import ScriptedJudge

MANIFEST = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: help, version: 1.0.0, description: A help desk}
spec:
  model: {provider: none, id: none, apiKey: none}
  prompts: {system: none}
  evaluation:
    framework: ragas
    judge: {model: scripted, baseUrl: URL, apiKey: sk-scripted-000}
    embeddings: {provider: openai-compatible, model: bag, baseUrl: URL}
    datasets:
      - {name: rag, path: $file:rag.jsonl,
         metrics: [faithfulness, answer_relevancy, context_precision, {name: context_recall, reference: expected}]}
    ciGate: false
"""
FOUR = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
CONTEXTS = [f"Refunds of plan {number} are paid within 30 days." for number in range(5)]


def lines(count, changed=None):
    for number in range(count):
        said = "20" if number == changed else "30"
        yield {
            "id": f"s{number}",
            "input": f"When are refunds of plan {number} paid?",
            "expected": f"Refunds of plan {number} are paid within 30 days.",
            "response": f"Refunds of plan {number} are paid within {said} days.",
            "retrieved_contexts": CONTEXTS,
        }


@pytest.fixture
def cached(project):
    """Runs of recorded replies with a scripted judge; gives the project, the judge, and a function that runs."""
    with ScriptedJudge() as judge:
        (project.folder / "agent.yaml").write_text(MANIFEST.replace("URL", judge.url), encoding="utf-8")

        def run(*options, count=3, changed=None):
            write(project.folder, count, changed)
            before = len(judge.chats)
            outcome = project("evaluate", "agent.yaml", "--responses", "same", "--json", *options)
            assert outcome.code in (0, 3), outcome.err
            return outcome, len(judge.chats) - before

        yield project, judge, run


def write(folder, count, changed=None):
    text = "".join(json.dumps(line) + "\n" for line in lines(count, changed))
    (folder / "rag.jsonl").write_text(text, encoding="utf-8")


def values(outcome):
    return [sample["scores"] for dataset in outcome.document["datasets"] for sample in dataset["samples"]]


def file_of(project):
    return project.folder / ".evalspec" / "cache" / "judge.sqlite3"


def test_unchanged_replies_are_not_asked_about_again(cached):
    project, judge, run = cached
    first, calls = run()
    assert calls == 3 * 9
    second, calls = run()
    assert (calls, values(second)) == (0, values(first))
    assert {name: used["cached"] for name, used in second.document["judgeUsage"].items()} == dict.fromkeys(FOUR, 3)
    assert any(
        "results from the judge's cache, asked answer_relevancy: since 20" in n for n in second.document["notes"]
    )
    path = file_of(project)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert judge.url not in str(second.document["notes"])


def test_only_what_a_changed_reply_needs_is_asked(cached):
    _, judge, run = cached
    run()
    outcome, calls = run(changed=1)
    assert calls == 3, [chat.kind for chat in judge.chats[-calls:]]
    assert values(outcome)[1]["faithfulness"]["value"] == 0.0
