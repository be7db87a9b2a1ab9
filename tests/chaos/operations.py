"""What is killed: for each operation a project, the command, how it is run again, and the state that it leads to."""

import csv
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fuzz.seeds import FILES, HEAD, write_lines

SAMPLES = 24
RECORDED = 1000
CONCURRENCY = 4
SCOPE = "eval:faq:"
_NEIGHBOURS = ("eval:faq2:", "eval:fa_:", "other:")
_SCORER = """
import math


def score(exchange):
    return 1 / (1 + math.sqrt(sum(map(ord, exchange.response)) / 7))
"""
_STORE = '''
import sqlite3
from pathlib import Path

DB = Path(__file__).with_name("store.db")


class Store:
    """Documents in SQLite; each is committed by itself, so that a kill leaves a part of them."""

    def _run(self, *arguments):
        with sqlite3.connect(DB) as db:
            return db.execute(*arguments).fetchall()

    def ingest(self, documents, scope_prefix):
        for one in documents:
            self._run("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (one.id, scope_prefix, one.text))

    def search(self, request):
        words = set(request.query.split())
        found = self._run("SELECT id, body FROM documents WHERE scope = ? ORDER BY id", (request.scope_prefix,))
        return [id for id, _ in sorted(found, key=lambda row: -len(words & set(row[1].split())))][: request.top_k]

    def delete(self, scope_prefix):
        self._run("DELETE FROM documents WHERE scope = ?", (scope_prefix,))
'''
_OF_ONE_RUN = {"run_id", "latency_ms", "embed_ms", "retrieve_ms", "rerank_ms"}
_VOLATILE = (".evalspec", "store.db", "store.db-journal")
EVALUATE = ("evaluate", "agent.yaml", "-j", str(CONCURRENCY), "-o", "scores.csv", "--yes")
RESUME = (*EVALUATE, "--resume")


@dataclass(frozen=True)
class Operation:
    """See the module. `made_by`: commands that complete the project. `outputs`: files or folders that the command
    writes; `find_again`: what is run after the kill; `read`: the end state beside the outputs."""

    write: Callable[[Path], None]
    command: Sequence[str]
    made_by: Sequence[Sequence[str]] = ()
    outputs: Sequence[str] = ()
    find_again: Callable[[Path, Sequence[str]], Sequence[str]] = lambda _folder, command: command
    read: Callable[[Path], Any] = lambda _folder: None


# Projects


def _write_manifest(folder: Path, api: Mapping[str, Any], evaluation: Mapping[str, Any]) -> None:
    (folder / "agent.yaml").write_text(json.dumps(HEAD | {"spec": {"api": api, "evaluation": evaluation}}))


def _write_project(folder: Path, **thresholds: Any) -> None:
    (folder / "own.py").write_text(_SCORER)
    write_lines(folder / "qa.jsonl", ({"id": f"s{n}", "input": f"q{n}", "expected": "Paris"} for n in range(SAMPLES)))
    metrics = ["string_match", {"name": "own", "scorer": "own:score"}, "error_rate"]
    api = {"url": "$env:AGENT_URL:public"}
    _write_manifest(
        folder,
        api,
        {"datasets": [{"name": "qa", "path": "qa.jsonl", "metrics": metrics}], "thresholds": {"string_match": 0.5}},
    )


def _write_recorded(folder: Path) -> None:
    """So many recorded replies that they are scored and written in several parts."""
    samples = ({"id": f"s{n}", "input": f"q{n}", "expected": "Paris"} for n in range(RECORDED))
    write_lines(folder / "qa.jsonl", samples)
    write_lines(folder / "replies.jsonl", ({"id": f"s{n}", "response": f"Paris {n}"} for n in range(RECORDED)))
    dataset = {"name": "qa", "path": "qa.jsonl", "metrics": ["string_match", "chrf"]}
    _write_manifest(folder, {}, {"datasets": [dataset], "thresholds": {"string_match": 0.5}})


def _write_faq(folder: Path) -> None:
    (folder / "store.py").write_text(_STORE)
    documents = [{"sourceId": f"{SCOPE}d{n}", "content": f"word{n} of document {n}"} for n in range(40)]
    queries = [
        {"id": f"q{n}", "query": f"word{n} and word{n + 1}", "relevant": {"sourceIds": [f"{SCOPE}d{n}"]}}
        for n in range(12)
    ]
    data = {"version": "1", "id": "faq", "defaults": {"scopePrefix": SCOPE, "topK": 3}}
    (folder / "faq.json").write_text(json.dumps(data | {"documents": documents, "queries": queries}))
    with sqlite3.connect(folder / "store.db") as db:
        db.execute("CREATE TABLE documents (id PRIMARY KEY, scope, body)")
        rows = [(f"{scope}x{n}", scope, "a neighbour") for scope in (*_NEIGHBOURS, SCOPE) for n in range(3)]
        db.executemany("INSERT INTO documents VALUES (?, ?, ?)", rows)
    db.close()
    dataset = {"name": "faq", "path": "faq.json", "retriever": "mine", "metrics": ["Recall@3", "nDCG@3", "RR"]}
    _write_manifest(folder, {}, {"retrievers": {"mine": {"python": "store:Store"}}, "datasets": [dataset]})


def _write_datasets(folder: Path) -> None:
    (folder / "faq.json").write_bytes((FILES / "unrag" / "good.json").read_bytes())
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        path = folder / "old" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((FILES / "beir" / "good" / name).read_bytes())


# States


def read_scores(folder: Path) -> Any:
    """All scores and summaries of the newest finished run, as they are written: to the last bit."""
    (report,) = [path / "report.json" for path in [folder / ".evalspec" / "runs" / "latest"]]
    document = json.loads(report.read_text())
    return {
        "verdict": document["verdict"],
        "scores": {
            f"{dataset['name']}/{sample['id']}/{metric}": score
            for dataset in document["datasets"]
            for sample in dataset["samples"]
            for metric, score in sample["scores"].items()
        },
        "summaries": {
            f"{dataset['name']}/{metric}": [summary["value"], summary["scored"], summary.get("interval")]
            for dataset in document["datasets"]
            for metric, summary in dataset["metrics"].items()
        },
    }


def _read_documents(folder: Path) -> Any:
    with sqlite3.connect(folder / "store.db") as db:
        documents = sorted(db.execute("SELECT id, scope, body FROM documents").fetchall())
    db.close()
    return {"documents": documents, **read_scores(folder)}


def digest(path: Path) -> Any:
    """What a file or folder holds; None for nothing."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return {one.name: digest(one) for one in sorted(path.iterdir()) if not is_temporary(Path(one.name))}
    if path.suffix == ".csv" and path.exists():
        return _read_table(path)
    return sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _read_table(path: Path) -> Any:
    """The rows of a CSV report, but for ids and times, which another run has others of."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{key: value for key, value in row.items() if key not in _OF_ONE_RUN} for row in rows]


def is_temporary(path: Path) -> bool:
    """What a kill left beside the file or folder that it was to become: no process is there to remove it."""
    return any(part.startswith(".evalspec-") for part in path.parts)


def digest_others(folder: Path, outputs: Sequence[str]) -> Any:
    """The user's own files."""
    own = {*outputs, *_VOLATILE}
    return {
        str(path.relative_to(folder)): digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not is_temporary(path.relative_to(folder))
        and own.isdisjoint(_parents(path.relative_to(folder)))
    }


def _parents(path: Path) -> set[str]:
    return {str(path), *map(str, path.parents)}


def _read_store(folder: Path) -> Any:
    """All runs and labels."""
    return digest(folder / ".evalspec")


def find_resume(folder: Path, command: Sequence[str]) -> Sequence[str]:
    """`--resume` where a run was begun."""
    is_begun = any(folder.glob(".evalspec/runs/*-*/run.json"))
    return (*command, "--resume") if is_begun and "--resume" not in command else command


def force(folder: Path, command: Sequence[str]) -> Sequence[str]:
    """`--force`, where there is something already."""
    return command if "--force" in command or not (folder / command[2]).exists() else (*command, "--force")


RESCORE = ("rescore", "latest", "rescored.yaml", "-o", "scores.csv")
_REPORTS = ("r.html", "r.junit.xml", "r.md", "r.json", "r.csv", "r.jsonl", "r.sarif", "r.parquet")


def _write_rescored(folder: Path) -> None:
    """The same manifest with another metric, so that there is something to compute."""
    _write_project(folder)
    text = (folder / "agent.yaml").read_text()
    (folder / "rescored.yaml").write_text(text.replace('"string_match",', '"string_match", "rouge",'))


_SECOND = ("rescore", "latest", "agent.yaml", "--fresh")
OPERATIONS: Mapping[str, Operation] = {
    "evaluate": Operation(_write_project, EVALUATE, (), ("scores.csv",), find_resume, read_scores),
    "recorded": Operation(
        _write_recorded,
        (*EVALUATE, "--responses", "replies.jsonl"),
        outputs=("scores.csv",),
        find_again=find_resume,
        read=read_scores,
    ),
    "resume": Operation(_write_project, RESUME, (("half",),), ("scores.csv",), find_resume, read_scores),
    "ingest": Operation(_write_faq, EVALUATE, (), ("scores.csv",), find_resume, _read_documents),
    "rescore": Operation(
        _write_rescored,
        RESCORE,
        (EVALUATE, ("runs", "label", "latest", "first")),
        ("scores.csv",),
        lambda _folder, _command: ("rescore", "first", *RESCORE[2:]),
        read_scores,
    ),
    "report": Operation(
        _write_project,
        ("report", "latest", *(word for name in _REPORTS for word in ("-o", name))),
        (EVALUATE,),
        _REPORTS,
        read=_read_store,
    ),
    "promote": Operation(
        _write_project,
        ("runs", "promote", "latest", "--as", "main"),
        (EVALUATE, ("runs", "promote", "latest", "--as", "main"), _SECOND),
        ("evals",),
        read=_read_store,
    ),
    "convert": Operation(
        _write_datasets, ("convert", "faq.json", "new", "--to", "beir", "--lossy"), (), ("new",), force
    ),
    "convert to a file": Operation(
        _write_datasets, ("convert", "old", "new.jsonl", "--to", "jsonl", "--lossy"), (), ("new.jsonl",), force
    ),
    "convert over": Operation(
        _write_datasets, ("convert", "faq.json", "old", "--to", "beir", "--lossy", "--force"), (), ("old",), force
    ),
    "prune": Operation(
        _write_project,
        ("runs", "prune", "--keep", "1"),
        (EVALUATE, ("runs", "label", "latest", "first"), _SECOND, _SECOND, _SECOND),
        read=_read_store,
    ),
}
