"""Projects with runs that use every part of the pages, and one in which every text is hostile."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

import evalspec
from evalspec.base.errors import InvalidInput
from evalspec.base.foreign_text import encodable
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.files import write_labels
from evalspec.curation.labels.records import make_label, render_time
from evalspec.model import Run
from evalspec.model.labels import LabelVerdict
from evalspec.runs.store.run_store import RunStore

_SCORER = """
from evalspec import Score

def cites(exchange):
    statements = [s for s in exchange.response.split(". ") if s]
    text = " ".join(exchange.retrieved_contexts or ())
    verdicts = [
        {"statement": s, "verdict": int(s.strip(". ") in text), "reason": f"looked for {s}"} for s in statements
    ]
    found = sum(one["verdict"] for one in verdicts)
    share = found / len(verdicts) if verdicts else 0
    return Score.scored(share, f"{found} of {len(verdicts)}", {"statements": verdicts})
"""
_TOPICS = ("refunds", "shipping", "accounts", "billing")
_RIGHT = "Refunds are paid within 30 days. Write to the help desk."
_WRONG = "Refunds are paid within 14 days. Ask a friend."


def write_shop(folder: Path, samples: int = 24) -> Path:
    """A project with a dataset of answers and one of rankings."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = [
        {
            "id": f"{_TOPICS[number % 4]}-{number}",
            "input": f"How long do {_TOPICS[number % 4]} take, case {number}?",
            "expected": _RIGHT,
            "tags": [_TOPICS[number % 4]],
            "metadata": {"topic": _TOPICS[number % 4], "level": number % 3},
        }
        for number in range(samples)
    ]
    rankings = [
        {"id": f"q-{number}", "input": f"Where is {number}?", "expected": "-", "relevant": {f"d{number}": 2, "d99": 1}}
        for number in range(8)
    ]
    _write_lines(folder / "answers.jsonl", answers)
    _write_lines(folder / "rankings.jsonl", rankings)
    (folder / "own_metrics.py").write_text(_SCORER)
    metrics = ["exact_match", "rouge", {"name": "cites", "scorer": "own_metrics:cites"}, "latency_p95", "error_rate"]
    gate = {"minCoverage": 0.5, "maxErrorRate": 0.5}
    limits = {"rouge": 0.75, "cites": {"min": 0.6}, "latency_p95": {"max": 60_000}}
    datasets: list[dict[str, Any]] = [
        {"name": "answers", "path": "$file:answers.jsonl", "metrics": metrics, "thresholds": limits},
        {"name": "rankings", "path": "$file:rankings.jsonl", "metrics": ["Recall@5", "nDCG@5", "RR"]},
    ]
    return _write_manifest(folder, datasets, ciGate=gate)


def run_shop(folder: Path, wrong: int = 4, **options: Any) -> Run:
    """A run in which every `wrong`th answer is wrong, and one question has no answer."""

    def answer(question: str) -> dict[str, Any]:
        number = int("".join(character for character in question if character.isdigit()))
        if number == 7:
            raise ConnectionError("[Errno 111] the agent hung up <b>rudely</b>")
        return {
            "response": _WRONG if number % wrong == 0 else _RIGHT,
            "retrieved_contexts": [_RIGHT, f"Case {number} is a case.", "Shipping takes 3 days."],
            "retrieved_context_ids": [f"d{number}" if number % wrong else "d42", "d99", "d7"],
            "usage": {"input_tokens": 812, "output_tokens": 19},
            "finish_reason": "stop",
            "tool_calls": [{"name": "look_up", "arguments": {"days": 14 if number % wrong == 0 else 30}, "result": []}],
        }

    return evalspec.evaluate(folder / "agent.yaml", agent=answer, store=folder / ".evalspec", **options)


@contextmanager
def building(branch: str, pull_request: str = "false") -> Iterator[None]:
    """Runs in this block are those of a CI build of a branch."""
    build = {
        "BUILDKITE": "true",
        "BUILDKITE_BRANCH": branch,
        "BUILDKITE_COMMIT": "2f0c1c5e9a7b4d00",
        "BUILDKITE_PULL_REQUEST": pull_request,
        "BUILDKITE_BUILD_URL": "https://ci.example/shop/7",
    }
    os.environ.update(build)
    try:
        yield
    finally:
        for name in build:
            del os.environ[name]


def change_shop(folder: Path) -> None:
    """Expect another answer to every sample."""
    path = folder / "answers.jsonl"
    samples = map(json.loads, path.read_text().splitlines())
    _write_lines(path, [{**sample, "expected": "Nobody knows."} for sample in samples])


def write_hostile_shop(folder: Path, texts: dict[str, str]) -> Path:
    """A project with a sample for each text, in which every field that accepts it is that text."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = [
        {
            "id": f"{encodable(text)}{number}",
            "input": [{"role": "system", "content": text}, {"role": "user", "content": text or "?"}],
            "expected": f"{text} expected",
            "context": [text],
            "reference_contexts": [text],
            "relevant": {f"{encodable(text)}{number}": 1, f"{encodable(text)}lost": 2},
            "expected_tools": [{"name": encodable(text) or "x", "arguments": {encodable(text): "another"}}],
            "tags": [encodable(text)],
            "metadata": {"key": text, "level": number % 2},
        }
        for number, text in enumerate(texts.values())
    ]
    _write_lines(folder / "answers.jsonl", samples)
    _write_lines(folder / "one.jsonl", [{"id": "one", "input": "Which name?", "expected": "This name."}])
    (folder / "own_metrics.py").write_text(_SCORER)
    metrics = ["rouge", {"name": "cites", "scorer": "own_metrics:cites"}, "Recall@5", "tool_calls_exact"]
    dataset = {"name": "answers", "path": "$file:answers.jsonl", "metrics": metrics, "thresholds": {"rouge": 1.0}}
    names = dict.fromkeys(encodable(text).replace("\0", "") for text in texts.values())
    others = [{"name": name, "path": "$file:one.jsonl", "metrics": ["rouge"]} for name in names]
    return _write_manifest(folder, [dataset, *others], name="<script>alert(1)</script> bot")


def run_hostile_shop(folder: Path, *, other: str = "", **options: Any) -> Run:
    """A run whose replies repeat the question in every field. A second attempt fails with an error of the same text."""
    seen: set[str] = set()

    def answer(messages: Any) -> dict[str, Any]:
        text = messages if isinstance(messages, str) else messages[-1]["content"]
        if text in seen:
            raise ValueError(text)
        if options.get("repeat", 1) > 1:
            seen.add(text)
        return {
            "response": f"{other}{text}",
            "retrieved_contexts": [text, text],
            "retrieved_context_ids": [text or "x", f"{text}2"],
            "finish_reason": text,
            "tool_calls": [
                {"name": text or "x", "arguments": {text: text, "other": other}, "result": text, "error": text}
            ],
        }

    store = folder / ".evalspec"
    return evalspec.evaluate(folder / "agent.yaml", agent=answer, store=store, concurrency=1, **options)


def label_hostile_shop(folder: Path, run: str, texts: dict[str, str], viewer: str) -> None:
    """Labels whose notes and people are those of the texts that can be one. The viewer may see all of them."""
    opened = LabelledRun(RunStore(folder / ".evalspec"), run)
    sample = f"{encodable(texts['script'])}{list(texts).index('script')}"
    made = []
    for metric, verdict in ((None, LabelVerdict.GOOD), ("cites", LabelVerdict.AGREE)):
        known = opened.find_case("answers", sample, 1, metric).describe() | {"verdict": verdict}
        for by, note in [(viewer, None), *((text[:100].strip(), text) for text in texts.values())]:
            with suppress(InvalidInput):
                made.append(make_label({**known, "labeller": by, "note": note, "at": render_time(datetime.now(UTC))}))
    write_labels(folder / ".evalspec", run, made)


def _write_lines(path: Path, samples: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(sample)}\n" for sample in samples), encoding="utf-8")


def _write_manifest(folder: Path, datasets: list[dict[str, Any]], name: str = "support-bot", **evaluation: Any) -> Path:
    manifest = {
        "apiVersion": "agentspec.io/v1",
        "kind": "AgentSpec",
        "metadata": {"name": name},
        "spec": {"api": {"url": "http://127.0.0.1:9"}, "evaluation": {"datasets": datasets, **evaluation}},
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder
