"""Texts of any size: a metric that would take too much memory or time for one fails its score, and says so."""

import json
import subprocess
import sys

import pytest

MEGABYTE = 1_048_576
GIGABYTE = 1 << 30
TEXTS = {
    "one word": "a" * MEGABYTE,
    "words": "word " * (MEGABYTE // 5),
    "no spaces": "東京は日本の首都です。" * (MEGABYTE // 33),
    "emoji": "😀👩‍👩‍👧" * (MEGABYTE // 23),
    "combining marks": "e" + "\u0301" * (MEGABYTE // 2),
    "lines": "a\n" * (MEGABYTE // 2),
    "numbers": "1,234.56 " * (MEGABYTE // 9),
    "brackets": "([{<" * (MEGABYTE // 4),
    "quotes": "'\"“" * (MEGABYTE // 5),
    "backslashes": "\\" * MEGABYTE,
}
METRICS = ["string_match", "exact_match", "rouge", "bleu", "chrf", "grounding_overlap", "answer_similarity"]


@pytest.mark.parametrize("metric", ["string_match", "rouge", "bleu", "chrf", "grounding_overlap"])
def test_a_text_beyond_the_limit_is_a_failed_score_and_never_a_pass(project, metric):
    project.dataset("qa", [{"id": name, "context": ["Paris"]} for name in ("short", "long")], metrics=[metric])
    replies = [{"id": "short", "response": "Paris"}, {"id": "long", "response": "Paris " * 100_000}]
    (project.folder / "r.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    project.evaluation |= {"thresholds": {metric: 0.9}, "ciGate": {"minSamples": 1}}
    outcome = project.evaluate("--responses", "r.jsonl", "--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    score = outcome.document["datasets"][0]["samples"][1]["scores"][metric]
    assert (score["status"], score["value"], score["cause"]) == ("failed", None, "reply")
    assert score["reason"].startswith("the answer has 600,000 characters; ")
    assert score["reason"].endswith(" reads at most 500,000 in all")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [1, 9])
def test_hostile_replies_take_less_than_a_gigabyte(project, size):
    """Ten texts as answers and contexts, of a megabyte; and two as long as a reply may be, among short ones."""
    lines = [{"id": name, "input": "?", "expected": "Paris", "context": [text]} for name, text in TEXTS.items()]
    project.dataset("qa", lines, metrics=METRICS)
    with (project.folder / "r.jsonl").open("w") as file:
        for name, text in TEXTS.items():
            response = (text * size)[: 9 * MEGABYTE] if name in ("one word", "words") or size == 1 else "Paris"
            file.write(json.dumps({"id": name, "response": response}) + "\n")
    project.write()
    assert run_measured(project, "evaluate", "agent.yaml", "--responses", "r.jsonl") < GIGABYTE


def run_measured(project, *arguments):
    """Run a command in a process of its own, and return its peak of memory in bytes."""
    program = (
        "import resource, sys; from evalspec.cli.main import run; code = run(sys.argv[1:]); "
        "print(int(code), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=project.folder, capture_output=True, text=True, timeout=500
    )
    code, peak = done.stderr.splitlines()[-1].split()
    assert int(code) in (0, 3), done.stderr[-2000:]
    return int(peak)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("builtin", ["bm25", "dense"])
def test_hostile_corpora_take_less_than_a_gigabyte(project, builtin):
    """Ten documents of a megabyte and one as long as a reply may be, among short ones."""
    texts = [*TEXTS.values(), "A long document. " * (9 * MEGABYTE // 17), *(f"page {number}" for number in range(63))]
    with (project.folder / "pages.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"d{number}", "text": text}) + "\n" for number, text in enumerate(texts))
    project.evaluation["retrievers"] = {"one": {"builtin": builtin}}
    lines = [{"input": "page 7", "relevant": ["d18"]}]
    project.dataset("qa", lines, corpus="$file:pages.jsonl", retriever="one", metrics=["Recall@5"])
    project.write()
    assert run_measured(project, "evaluate", "agent.yaml") < GIGABYTE
