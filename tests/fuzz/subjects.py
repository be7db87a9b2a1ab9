"""What is fuzzed: for each subject a valid project, the files or replies that are changed, and the commands that meet
them. A sequence ends at the first command that ends with another code than 0 or 1."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from evalspec.runs.store.log_records import renumber
from evalspec.runs.store.run_log import compute_checksum
from fuzz import seeds
from fuzz.mutations import HOSTILE_WORDS

Command = tuple[str, ...]
_RUN = "runs/latest"
_FORMATS = ("jsonl", "unrag", "mixpeek", "beir", "trec", "autorag", "triples")
_FILE_OF = {"jsonl": "out.jsonl", "unrag": "out.json", "mixpeek": "out.json", "triples": "out.yaml"}


@dataclass(frozen=True)
class Target:
    """A file that is changed: where, and how it is read. `seal`: what makes the changed file valid again."""

    pattern: str
    kind: str
    seal: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True)
class Subject:
    """See the module. `made_by`: commands that complete the project; `replies`: which server's replies are changed.

    `arguments` makes up a command line of its own. `weight`: the share of the inputs.
    """

    write: Callable[[Path], None]
    targets: tuple[Target, ...] = ()
    commands: tuple[Sequence[Command], ...] = ()
    made_by: tuple[Command, ...] = ()
    replies: str = ""
    arguments: Callable[[Random], Command] | None = None
    is_judged: bool = False
    weight: int = 4
    environment: Mapping[str, str] = field(default_factory=dict)


_TAIL = re.compile(rb',\s*"number":\s*\d+,\s*"crc":\s*"\w*"\}$')
"""Of a line as the mutations write it."""


def _seal_lines(content: bytes) -> bytes:
    lines = [_TAIL.sub(b"}", line) for line in content.splitlines()]
    return b"".join(
        renumber(line + b"\n", number) if line.endswith(b"}") else line + b"\n" for number, line in enumerate(lines, 1)
    )


def _seal_document(content: bytes) -> bytes:
    try:
        document = json.loads(content)
        return json.dumps(document | {"sha256": compute_checksum(document)}).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):  # what is no document stays as it is
        return content


EVALUATE = ("evaluate", "agent.yaml", "--json", "-j", "1")
RECORDED = (*EVALUATE, "--responses", "replies.jsonl", "--no-judge")


def _convert(source: str, format: str, to: str) -> Sequence[Command]:
    """There and back: what is written can be read."""
    written = _FILE_OF.get(to, "out")
    forced = ("--retrieval-gt-1d", "and") if format == "autorag" else ()
    there = ("convert", source, written, "--to", to, "--lossy", "--json", *forced)
    return [there, ("convert", written, "again.jsonl", "--to", "jsonl", "--from", to, "--lossy", "--json")]


def _dataset(name: str, source: str, *targets: Target) -> Subject:
    """A dataset of one format, in all commands that read one."""
    return Subject(
        partial(seeds.write_dataset, name),
        targets,
        (
            *(_convert(source, name, to) for to in _FORMATS),
            [("score", source, "run.txt", "--json")],
            [("score", source, "replies.jsonl", "--json", "--per-query")],
            [("validate", "project.yaml", "--json")],
            [("evaluate", "project.yaml", "--json", "--responses", "replies.jsonl")],
            [("convert", source, "x.jsonl", "--to", "jsonl", "--from", name, "--lossy", "--json")],
        ),
        weight=6,
    )


def _with_manifest(subject: Subject, source: str, **config: Any) -> Subject:
    def write(folder: Path) -> None:
        subject.write(folder)
        dataset = {"name": "data", "path": source, "metrics": ["Recall@2", "nDCG@2"], **config}
        text = json.dumps(seeds.HEAD | {"spec": {"api": seeds.API, "evaluation": {"datasets": [dataset]}}})
        (folder / "project.yaml").write_text(text)

    return Subject(write, subject.targets, subject.commands, weight=subject.weight)


def _stored(target: Target, commands: tuple[Sequence[Command], ...], *, weight: int = 4) -> Subject:
    return Subject(seeds.write_answered, (target,), commands, (RECORDED, RECORDED, PROMOTE), weight=weight)


PROMOTE = ("runs", "promote", "latest", "--as", "main")
_LOOK = (
    [("report", "--json")],
    [("report", "-o", "r.html", "-o", "r.junit.xml", "-o", "r.md")],
    [("runs", "list", "--json")],
    [("runs", "list")],
    [("runs", "show", "latest")],
    [("runs", "verify", "--all", "--json")],
    [("compare", "latest", "evals/baselines/main.json", "--json")],
    [("compare", "evals/baselines/main.json", "latest", "-o", "c.md")],
    [("rescore", "latest", "agent.yaml", "--json")],
    [("rescore", "latest", "agent.yaml", "--fresh", "--json")],
    [(*EVALUATE, "--resume", "latest")],
    [(*EVALUATE, "--retry-errors")],
    [("plan", "--baseline", "latest", "--json")],
    [("runs", "prune", "--keep", "0")],
    [("runs", "rm", "latest")],
)
_PROMOTED = ([PROMOTE],)
_COMPARE = (
    [("compare", "evals/baselines/main.json", "latest", "--json")],
    [("compare", "latest", "evals/baselines/main.json", "-o", "c.md", "-o", "c.json")],
    [("plan", "--baseline", "evals/baselines/main.json", "--json")],
    [("evaluate", "gated.yaml", "--json", "--responses", "replies.jsonl")],
    [("validate", "gated.yaml", "--json")],
    [PROMOTE],
)


def _write_gated(folder: Path) -> None:
    seeds.write_answered(folder, ciGate={"baseline": "main", "maxDrop": 0.1, "alpha": 0.05})
    (folder / "agent.yaml").rename(folder / "gated.yaml")
    seeds.write_answered(folder)


def _write_foreign(folder: Path) -> None:
    for name, report in (("unrag", seeds.UNRAG_REPORT), ("agentspec", seeds.AGENTSPEC_REPORT)):
        (folder / f"{name}.json").write_text(json.dumps(report))
        (folder / f"{name}-2.json").write_text(json.dumps(report))


_SAFE = [word for word in HOSTILE_WORDS if "/" not in word and ".." not in word and word != "~" and "\0" not in word]
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("agent.yaml", "--dataset", "--sample-size", "--seed", "--tag", "--exclude-tag", "--repeat", "-j",
                 "--where", "--stratify", "--slice", "--held-out",
                 "--judge-repeat", "--timeout", "--no-judge", "--resume", "--retry-errors", "--no-content", "--json",
                 "--retriever",
                 "--mode", "--top-k", "--rerank-top-k", "--scope-prefix", "--no-ingest", "--cleanup", "-y", "--dry-run",
                 "--depth", "--best-by", "--max-latency", "-o"),
    "validate": ("agent.yaml", "--dataset", "--no-judge", "--slice", "--held-out", "--json"),
    "plan": ("agent.yaml", "--baseline", "--dataset", "--sample-size", "--seed", "--tag", "--repeat", "--where",
             "--stratify", "--slice", "--json"),
    "rescore": ("latest", "agent.yaml", "--dataset", "--judge-repeat", "--no-judge", "--fresh", "--json", "-o"),
    "report": ("latest", "--json", "-o", "report.html"),
    "compare": ("latest", "latest", "--dataset", "-m", "--alpha", "--seed", "--allow-mismatch", "--samples",
                "--fail-on", "--json", "-o", "c.md"),
    "runs": ("list", "show", "label", "verify", "promote", "--as", "latest", "--all", "--json", "--dry-run"),
    "score": ("qa.jsonl", "run.txt", "-m", "--k", "--min-grade", "--empty-qrels", "--per-query", "--interval",
              "--json", "--where"),
    "metrics": ("--json",),
    "retrievers": ("check", "none", "agent.yaml", "--wait", "--url", "--json"),
    "convert": ("qa.jsonl", "out", "--to", "--from", "--corpus", "--retrieval-gt-1d", "--lossy", "--json", "jsonl",
                "trec", "--where", "--sample-size", "--stratify", "tags=odd", "id in odd"),
    "remap": ("qa.jsonl", "qa.jsonl", "qa.jsonl", "--min-overlap", "--to", "--lossy", "--json"),
    "schema": ("manifest", "dataset", "report"),
    "init": ("--url",),
}  # fmt: skip
_VALUES = (
    "qa", "latest", "main", "agent.yaml", "qa.jsonl", "replies.jsonl", "run.txt", "0", "1", "2", "-1", "1.5", "0.5",
    "nan",
    "inf", "-inf", "1e400", "9" * 40, "9" * 5000, "string_match", "Recall@2", "nDCG@1,5", "1,2,3", ",", "odd", "even",
    "and",
    "trec", "unrag", "retrieve", "always", "degraded", "zero", "-", "--", "---", "-x", "--js", "--json=1", "",
    "out.html", "out.junit.xml", "out.sarif", "out.csv", "out.parquet", "out.jsonl", "out.md", "out.txt", "x" * 300,
)  # fmt: skip


def _make_up(chance: Random) -> Command:
    command = chance.choice([*_ARGUMENTS, *_ARGUMENTS, "", "nothing", "--version", "-h", "evaluat"])
    known = _ARGUMENTS.get(command, ("--json", "-h"))
    words = [word for word in known if chance.random() < 0.5]
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        words.insert(chance.randrange(len(words) + 1), chance.choice(_VALUES if chance.random() < 0.7 else _SAFE))
    recorded = ("--responses", "replies.jsonl") if command == "evaluate" else ()
    return (command, *recorded, *(word.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for word in words))


_OPENAI = {"protocol": "openai-compatible"}
_AGAIN = ([EVALUATE], [EVALUATE, ("report", "--json")], [(*EVALUATE, "--no-content")], [(*EVALUATE, "-o", "r.html")])

SUBJECTS: Mapping[str, Subject] = {
    "manifest": Subject(
        seeds.write_full_manifest,
        (Target("agent.yaml", "yaml"), Target("agent.yaml", "yaml"), Target("agent.yaml", "binary")),
        (
            [("validate", "--json")],
            [("validate",)],
            [("plan", "--json")],
            [(*RECORDED, "--dataset", "qa")],
            [("evaluate", "--dry-run", "--json", "--dataset", "faq", "--no-judge")],
        ),
        weight=12,
    ),
    "jsonl": _with_manifest(_dataset("jsonl", "data.jsonl", Target("data.jsonl", "jsonl")), "data.jsonl"),
    "mixpeek": _with_manifest(_dataset("mixpeek", "data.json", Target("data.json", "json")), "data.json"),
    "triples": _with_manifest(_dataset("triples", "data.yaml", Target("data.yaml", "yaml")), "data.yaml"),
    "unrag": _with_manifest(_dataset("unrag", "data.json", Target("data.json", "json")), "data.json"),
    "beir": _with_manifest(
        _dataset("beir", "data", Target("data/*.jsonl", "jsonl"), Target("data/qrels/test.tsv", "lines")), "data"
    ),
    "trec": _with_manifest(_dataset("trec", "data", Target("data/*", "lines")), "data"),
    "autorag": _with_manifest(
        _dataset("autorag", "data.parquet", Target("data.parquet", "parquet"), Target("corpus.parquet", "parquet")),
        "data.parquet",
        corpus="corpus.parquet",
        retrievalGt1d="and",
    ),
    "corpora": Subject(
        seeds.write_corpora,
        (Target("old.jsonl", "jsonl"), Target("new.jsonl", "jsonl"), Target("qa.jsonl", "jsonl")),
        (
            [("remap", "old.jsonl", "new.jsonl", "qa.jsonl", "--json", "--lossy")],
            [
                ("remap", "old.jsonl", "new.jsonl", "qa.jsonl", "-o", "out.jsonl", "--lossy", "--json"),
                ("convert", "out.jsonl", "again.jsonl", "--to", "jsonl", "--json"),
            ],
        ),
    ),
    "replies": Subject(
        seeds.write_answered,
        (Target("replies.jsonl", "jsonl"), Target("run.txt", "lines")),
        (
            [RECORDED],
            [RECORDED, ("report", "-o", "r.html", "-o", "r.csv", "--json")],
            [("score", "qa.jsonl", "run.txt", "--json")],
            [("score", "qa.jsonl", "run.txt", "--json", "-m", "nDCG", "-m", "AP", "--k", "1,2", "--per-query")],
            [("score", "qa.jsonl", "replies.jsonl", "--json")],
        ),
        weight=6,
    ),
    "agent": Subject(partial(seeds.write_asked_agent, endpoint={}), commands=_AGAIN, replies="agent", weight=5),
    "agent, openai": Subject(partial(seeds.write_asked_agent, endpoint=_OPENAI), commands=_AGAIN, replies="openai"),
    "agent, custom": Subject(partial(seeds.write_asked_agent, endpoint=seeds.MAPPED), commands=_AGAIN, replies="agent"),
    "agent, stream": Subject(
        partial(seeds.write_asked_agent, endpoint=_OPENAI | {"streaming": True}), commands=_AGAIN, replies="stream"
    ),
    "judge": Subject(
        seeds.write_judged,
        commands=([(*EVALUATE, "--responses", "replies.jsonl")],),
        replies="judge",
        is_judged=True,
        weight=3,
    ),
    "retriever": Subject(
        seeds.write_retrieved,
        commands=(
            [EVALUATE],
            [EVALUATE, ("report", "--json")],
            [(*EVALUATE, "--cleanup", "always")],
            [("retrievers", "check", "web", "--wait", "0", "--json")],
        ),
        replies="retriever",
        weight=5,
    ),
    "stored log": _stored(Target(f".evalspec/{_RUN}/samples.jsonl", "jsonl"), (*_LOOK, *_PROMOTED)),
    "stored inputs": _stored(Target(f".evalspec/{_RUN}/inputs.jsonl", "jsonl"), (*_LOOK, *_PROMOTED)),
    "stored run.json": _stored(Target(f".evalspec/{_RUN}/run.json", "json"), (*_LOOK, *_PROMOTED)),
    "stored report": _stored(Target(f".evalspec/{_RUN}/report.json", "json"), (*_LOOK, *_PROMOTED)),
    "sealed log": _stored(Target(f".evalspec/{_RUN}/samples.jsonl", "jsonl", _seal_lines), _LOOK),
    "sealed inputs": _stored(Target(f".evalspec/{_RUN}/inputs.jsonl", "jsonl", _seal_lines), _LOOK),
    "sealed run.json": _stored(Target(f".evalspec/{_RUN}/run.json", "json", _seal_document), _LOOK),
    "baseline": Subject(
        _write_gated, (Target("evals/baselines/main.json", "json"),), _COMPARE, (RECORDED, RECORDED, PROMOTE)
    ),
    "report": Subject(
        _write_gated,
        (Target("report.json", "json"),),
        ([("compare", "report.json", "latest", "--json")], [("compare", "latest", "report.json", "-o", "c.md")]),
        (RECORDED, RECORDED, ("report", "-o", "report.json")),
    ),
    "foreign report": Subject(
        _write_foreign,
        (Target("unrag.json", "json"), Target("agentspec.json", "json")),
        (
            [("compare", "unrag.json", "unrag-2.json", "--json")],
            [("compare", "agentspec-2.json", "agentspec.json", "--json")],
            [("compare", "unrag.json", "agentspec.json", "-o", "c.md")],
        ),
    ),
    "command line": Subject(seeds.write_answered, made_by=(RECORDED, RECORDED), arguments=_make_up, weight=10),
}
