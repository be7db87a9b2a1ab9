"""Texts of any size: a metric that would take too much memory or time for one fails its score, and says so.

`HOSTILE=all` asks for each text and each corpus in a process of its own, and prints memory and time.
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
MEGABYTE = 1_048_576
GIGABYTE = 1 << 30
PARTS = {
    "one word": "a", "words": "word ", "no spaces": "東京は日本の首都です。", "emoji": "😀👩‍👩‍👧", "marks": "\u0301",
    "lines": "a\n", "numbers": "1,234.56 ", "brackets": "([{<", "quotes": "'\"“", "backslashes": "\\",
    "tabs": "\t", "blanks": " ", "zero width": "\u200b", "right to left": "שלום ", "jamo": "\u1112\u1161\u11ab",
    "digits": "7", "markup": "<b>&amp;</b>", "links": "https://a.example/?q=1 ", "base64": "QUJD",
    "sentences": "It is so. ", "cases": "aAbB ", "crlf": "\r\n", "wide": "ＡＢＣ１２３ ", "dashes": "-–—",
    "deep": '[{"a":',
}  # fmt: skip
SIZES = (1, 4)
TEXTS = {(name, size): part * (size * MEGABYTE // len(part.encode())) for name, part in PARTS.items() for size in SIZES}
TEXTS["sentences", 9] = PARTS["sentences"] * (9 * MEGABYTE // 10)
REPLIES = (
    [[key] for key in TEXTS] if os.environ.get("HOSTILE") == "all" else [list(TEXTS)[start::4] for start in (0, 3)]
)
CORPORA = (
    [[(name, 1)] for name in PARTS]
    if os.environ.get("HOSTILE") == "all"
    else [[(name, 1) for name in list(PARTS)[::3]] + [("sentences", 9)]]
)
METRICS = ["string_match", "exact_match", "rouge", "bleu", "chrf", "grounding_overlap", "answer_similarity"]


def name_texts(keys):
    return f"{keys[0][0]}-{keys[0][1]}" if len(keys) == 1 else f"{len(keys)} texts"


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


@pytest.mark.parametrize("keys", REPLIES, ids=name_texts)
def test_hostile_replies_take_less_than_a_gigabyte(project, keys):
    lines = [{"id": str(key), "input": "?", "expected": "Paris", "context": [TEXTS[key[0], 1]]} for key in keys]
    project.dataset("qa", lines, metrics=METRICS)
    with (project.folder / "r.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": str(key), "response": TEXTS[key]}, ensure_ascii=False) + "\n" for key in keys)
    project.write()
    assert run_measured(project, name_texts(keys), "evaluate", "agent.yaml", "--responses", "r.jsonl") < GIGABYTE


@pytest.mark.parametrize("builtin", ["bm25", "dense"])
@pytest.mark.parametrize("keys", CORPORA, ids=name_texts)
def test_hostile_corpora_take_less_than_a_gigabyte(project, builtin, keys):
    """Long documents among 63 short ones."""
    texts = [*(TEXTS[key] for key in keys), *(f"page {number}" for number in range(63))]
    with (project.folder / "pages.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"d{number}", "text": text}) + "\n" for number, text in enumerate(texts))
    project.evaluation["retrievers"] = {"one": {"builtin": builtin}}
    lines = [{"input": "page 7", "relevant": [f"d{len(keys) + 7}"]}]
    project.dataset("qa", lines, corpus="$file:pages.jsonl", retriever="one", metrics=["Recall@5"])
    project.write()
    assert run_measured(project, f"{builtin} {name_texts(keys)}", "evaluate", "agent.yaml") < GIGABYTE


def run_measured(project, name, *arguments):
    """Run a command in a process of its own, and return its peak of memory in bytes."""
    program = (
        "import re, sys, time; from pathlib import Path; from evalspec.cli.main import run; code = run(sys.argv[1:]); "
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]; "
        "print(int(code), int(peak) * 1024, time.process_time(), file=sys.stderr)"
    )  # ru_maxrss would begin with the memory of this process
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=project.folder, capture_output=True, text=True, timeout=500
    )
    code, peak, seconds = done.stderr.splitlines()[-1].split()
    print(f"{name}: {int(peak) / GIGABYTE:.2f} GiB, {float(seconds):.1f} s of CPU")
    assert int(code) in (0, 3), done.stderr[-2000:]
    return int(peak)
