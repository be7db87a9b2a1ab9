"""Valid files of every kind: what the inputs of the fuzz suite begin as. Each function fills a folder."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from servers.faulty_retriever import describe_retriever

FILES = Path(__file__).parents[1] / "datasets" / "files"
NOBODY = "http://127.0.0.1:9"
MAPPED = {
    "protocol": "custom",
    "request": {"message": "{{input}}"},
    "response": {
        "answer": "$.response",
        "contexts": "$.contexts[*].text",
        "contextIds": "$.contexts[*].id",
        "toolCalls": "$.tool_calls",
        "usage": "$.usage",
        "finishReason": "$.finish",
    },
}
API = {"url": NOBODY, "chatEndpoint": MAPPED}
_ANSWERED = ("s0", "s1", "s2", "s3", "q1", "q2", "q3", "refund", "1", "2")
"""Samples of all datasets that the recorded replies are for."""
_FOUND = ["ds0", "d1", "b1", "a", "terms-17", "eval:support:refund"]
SECONDS = 1
"""After which a reply that never ends is given up. No rule says what comes of one that is only late."""
PLACES = {f"s{n}": f"What is in place {n}?" for n in range(4)}
HEAD = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "bot", "version": "1"}}
GATE = {"minCoverage": 0.5, "maxErrorRate": 0.5, "minSamples": 1, "confidence": 0.9, "maxNotApplicable": 0.5}


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_manifest(folder: Path, api: Mapping[str, Any], evaluation: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(HEAD | {"spec": {"api": dict(api), "evaluation": dict(evaluation)}}, sort_keys=False)
    (folder / "agent.yaml").write_text(text)


def write_samples(folder: Path) -> None:
    """The native dataset, replies to it, and a run of TREC's form."""
    write_lines(
        folder / "qa.jsonl",
        [
            {
                "id": name,
                "input": text if name != "s1" else [{"role": "user", "content": text}],
                "expected": f"Thing {name}",
                "context": [f"There is thing {name}."],
                "reference_contexts": [f"Thing {name}"],
                "relevant": {f"d{name}": 2, "d0": 1} if name != "s2" else [f"d{name}"],
                "tags": ["odd" if name in ("s1", "s3") else "even"],
                "metadata": {"tenant": "a", "level": 1},
                "answerable": True,
            }
            for name, text in PLACES.items()
        ],
    )
    write_lines(
        folder / "replies.jsonl",
        [
            {"id": name, "response": f"Thing {name}", "retrieved_contexts": list("abcdefg"), "latencyMs": 3.5}
            | {"retrieved_context_ids": [f"{name}-x", *_FOUND]}
            for name in _ANSWERED
        ],
    )
    runs = (f"{name} Q0 {found} {rank} {1 / rank} run\n" for name in _ANSWERED for rank, found in enumerate(_FOUND, 1))
    (folder / "run.txt").write_text("".join(runs))


def write_answered(folder: Path, **evaluation: Any) -> None:
    """A project whose replies are recorded."""
    write_samples(folder)
    dataset = {"name": "qa", "path": "$file:qa.jsonl", "metrics": ["string_match", "Recall@2", "nDCG@2", "latency_p95"]}
    own = {"datasets": [dataset], "thresholds": {"string_match": 0.5}, "ciGate": True}
    write_manifest(folder, API, own | evaluation)


def write_full_manifest(folder: Path) -> None:
    """A manifest with nearly every key."""
    write_samples(folder)
    shutil.copy(FILES / "unrag" / "good.json", folder / "faq.json")
    (folder / "own.py").write_text(
        "def score(exchange):\n    return 1\n\ndef search(request):\n    return []\n\ndef load(ref):\n    return ref\n"
    )
    http = describe_retriever().model_dump(by_alias=True, exclude_none=True)
    http["search"]["request"]["filters"] = "{{filters}}"
    api = {
        "url": NOBODY,
        "readyPath": "/health",
        "readyTimeoutSeconds": 1,
        "reuse": "auto",
        "chatEndpoint": {
            "path": "/ask",
            "protocol": "custom",
            "headers": {"Authorization": "Bearer ${env:PATH}", "X": "y"},
            "request": {"q": "{{input}}", "h": ["{{messages}}", {"t": "{{metadata.tenant}}"}]},
            "response": {"answer": "$.a", "contexts": "$.c[*].text", "contextIds": "$.c[*].id", "usage": "$.usage"},
            "timeoutSeconds": 2,
            "maxRetries": 0,
        },
    }
    rubric = {"name": "tone", "rubric": "Is {response} kind?", "labels": {"good": 1, "bad": 0}}
    evaluation = {
        "framework": "ragas",
        "judge": {"model": "m", "baseUrl": NOBODY, "apiKey": "$env:PATH", "temperature": 0, "maxTokens": 9,
                  "timeoutSeconds": 1, "maxRetries": 0, "concurrency": 2},
        "embeddings": {"provider": "openai-compatible", "model": "m", "baseUrl": NOBODY, "apiKey": "k"},
        "retrievers": {
            "bm25": {"builtin": "bm25", "topK": [2, 3], "k1": 1.2, "language": "english"},
            "web": {"http": {"url": NOBODY, **http}},
            "mine": {"python": "own:search", "topK": 2},
        },
        "datasets": [
            {"name": "qa", "path": "$file:qa.jsonl", "k": [1, 2], "minGrade": 1, "emptyQrels": "zero",
             "slices": ["tenant", "tags"], "cluster": "tenant", "format": "jsonl",
             "metrics": ["string_match", "Recall", "nDCG@2", {"name": "own", "scorer": "own:score"}, rubric, "rouge",
                         "error_rate"],
             "thresholds": {"nDCG@2": [0.1, {"min": 0.2, "slice": "odd"}], "string_match": {"min": 0.5, "max": 1}}},
            {"name": "faq", "path": "faq.json", "retriever": "web", "mode": "retrieve", "topK": 2,
             "scopePrefix": "eval:support:", "filters": {"a": 1}, "loader": "own:load", "metrics": ["Recall@2"]},
        ],
        "metrics": ["string_match"],
        "thresholds": {"string_match": 0.5, "latency_p95": {"max": 100, "stat": "p95"}, "error_rate": {"max": 0}},
        "ciGate": GATE | {"minPassRate": 0.1},
    }  # fmt: skip
    write_manifest(folder, api, evaluation)


def write_dataset(name: str, folder: Path) -> None:
    """A dataset of a format as `data`, with what a run of it needs beside it."""
    write_answered(folder)
    if name == "jsonl":
        shutil.copy(folder / "qa.jsonl", folder / "data.jsonl")
    elif name == "autorag":
        _write_parquet(folder)
    elif (FILES / name / "good").is_dir():
        shutil.copytree(FILES / name / "good", folder / "data")
    else:
        (source,) = list((FILES / name).glob("good.[jy]*"))[:1]
        shutil.copy(source, folder / f"data{source.suffix}")


def _write_parquet(folder: Path) -> None:
    rows = {
        "qid": ["q1", "q2"],
        "query": ["what?", "and?"],
        "retrieval_gt": [[["a", "b"], ["c"]], [["b"]]],
        "generation_gt": [["x"], ["y", "z"]],
        "difficulty": ["hard", None],
    }
    pq.write_table(pa.table(rows), folder / "data.parquet")
    corpus = {
        "doc_id": ["a", "b", "c"],
        "contents": ["A", "B", "C"],
        "path": ["a.pdf", None, "c.pdf"],
        "start_end_idx": [[0, 10], [11, 20], None],
        "metadata": [{"page": 1}, {"page": 2}, {"page": 3}],
    }
    pq.write_table(pa.table(corpus), folder / "corpus.parquet")


def write_corpora(folder: Path) -> None:
    """Two chunkings of one corpus, and a dataset over the first."""
    text = " ".join(f"Sentence {n} is about the thing with the number {n * 37 % 101}." for n in range(40))
    for name, width in (("old", 300), ("new", 170)):
        chunks = [text[start : start + width] for start in range(0, len(text), width)]
        lines = ({"id": f"{name}{n}", "text": chunk, "title": f"t{n}"} for n, chunk in enumerate(chunks))
        write_lines(folder / f"{name}.jsonl", lines)
    samples = ({"id": f"q{n}", "input": "what?", "expected": "x", "relevant": {f"old{n}": 1}} for n in range(4))
    write_lines(folder / "qa.jsonl", samples)


def write_asked_agent(folder: Path, endpoint: Mapping[str, Any]) -> None:
    """A project whose agent is at $AGENT_URL."""
    write_samples(folder)
    metrics = [
        "string_match",
        "error_rate",
        *(["Recall@2", "tokens_mean", "truncated_rate"] if "response" in endpoint else []),
    ]
    dataset = {"name": "qa", "path": "qa.jsonl", "metrics": metrics}
    write_manifest(
        folder,
        {"url": "$env:AGENT_URL:public", "chatEndpoint": {"maxRetries": 0, "timeoutSeconds": SECONDS, **endpoint}},
        {"datasets": [dataset], "thresholds": {"string_match": 0.1}, "ciGate": GATE},
    )


def write_judged(folder: Path) -> None:
    """A project whose replies a judge grades, at $AGENT_URL."""
    rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
    at = {"model": "m", "baseUrl": "$env:AGENT_URL:public", "apiKey": "k", "maxRetries": 0, "timeoutSeconds": SECONDS}
    write_answered(
        folder,
        judge=at,
        embeddings=at | {"provider": "openai-compatible"},
        datasets=[{"name": "qa", "path": "qa.jsonl", "metrics": ["faithfulness", rubric, "answer_similarity"]}],
        thresholds={"faithfulness": 0.5},
    )


def write_retrieved(folder: Path) -> None:
    """A dataset with documents whose retriever is at $AGENT_URL."""
    http = describe_retriever().model_dump(by_alias=True, exclude_none=True)
    documents = [{"sourceId": f"eval:faq:d{n}", "content": f"text {n}"} for n in range(3)]
    queries = [{"id": f"q{n}", "query": f"text {n}", "relevant": {"sourceIds": [f"eval:faq:d{n}"]}} for n in range(2)]
    data = {"version": "1", "id": "faq", "defaults": {"scopePrefix": "eval:faq:", "topK": 2}}
    (folder / "faq.json").write_text(json.dumps(data | {"documents": documents, "queries": queries}))
    dataset = {"name": "faq", "path": "faq.json", "retriever": "web", "metrics": ["Recall@2", "nDCG@2"]}
    web = {"http": {"url": "$env:AGENT_URL:public", **http}}
    for call in ("search", "rerank", "ingest", "delete"):
        web["http"][call] |= {"maxRetries": 0, "timeoutSeconds": SECONDS}
    write_manifest(folder, {}, {"retrievers": {"web": web}, "datasets": [dataset | {"mode": "retrieve+rerank"}]})


_STAGE = {"sourceIds": ["a", "b"], "metrics": {"recallAtK": 0.5, "hitAtK": 1}, "durationsMs": {"totalMs": 5}}
UNRAG_REPORT = {
    "version": "1",
    "dataset": {"id": "d"},
    "config": {"topK": 5, "mode": "retrieve"},
    "createdAt": "2024-01-01T00:00:00Z",
    "results": {
        "queries": [
            {"id": f"q{n}", "query": "what?", "topK": 5, "relevant": {"sourceIds": ["a"]}, "retrieved": _STAGE}
            for n in range(3)
        ]
    },
}
AGENTSPEC_REPORT = {
    "dataset": "d",
    "agentUrl": NOBODY,
    "totalSamples": 2,
    "metrics": {"pass_rate": 0.5},
    "samples": [
        {"input": f"i{n}", "expected": "e", "actual": "e", "pass": n == 0, "latencyMs": 3, "tags": []} for n in range(2)
    ],
}
