"""Generate test collections: judgements and runs, as TREC files and as JSON of a program's objects."""

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

Qrels = dict[str, dict[str, int]]
Scored = dict[str, list[tuple[str, float]]]

_DOCUMENTS = 8_000_000
_HIGHEST_SCORE = 300_000
_GRADES = (0, 1, 1, 2, 3)
_SHARE_FOUND = 0.5


@dataclass(frozen=True, slots=True)
class Collection:
    """The files of one collection."""

    folder: Path

    @property
    def qrels(self) -> Path:
        return self.folder / "qrels.txt"

    @property
    def run(self) -> Path:
        return self.folder / "run.txt"

    @property
    def objects(self) -> Path:
        """JSON with `qrels`, {query: {document: grade}}, and `run`, {query: {document: score}} in order of rank."""
        return self.folder / "objects.json"


def write_collection(folder: Path, queries: int, depth: int, seed: int) -> Collection:
    """Write a collection with about six judged documents per query, half of them retrieved.

    Scores have four decimals and occasional ties. Every tenth ranking is short. Of the queries, 2 % are missing in the
    run, 1 % have no judgements, and 1 % have no relevant documents. A separate process does the work, because a child's
    peak memory includes that of its parent.
    """
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, __file__, str(folder), str(queries), str(depth), str(seed)], check=True)
    return Collection(folder)


def _write(made: Collection, queries: int, depth: int, seed: int) -> None:
    qrels, run = _draw(queries, depth, random.Random(seed))
    with made.qrels.open("w") as lines:
        for query, judged in qrels.items():
            lines.writelines(f"{query} 0 {document} {grade}\n" for document, grade in judged.items())
    with made.run.open("w") as lines:
        for query, ranking in run.items():
            ranked = enumerate(ranking, 1)
            lines.writelines(f"{query} Q0 {document} {rank} {score:.4f} run\n" for rank, (document, score) in ranked)
    objects = {"qrels": qrels, "run": {query: dict(ranking) for query, ranking in run.items()}}
    made.objects.write_text(json.dumps(objects))


def _draw(queries: int, depth: int, chance: random.Random) -> tuple[Qrels, Scored]:
    qrels: Qrels = {}
    run: Scored = {}
    for number in range(1, queries + 1):
        length = depth if chance.random() > 0.1 else chance.randint(1, depth)
        documents = [f"d{name}" for name in chance.sample(range(1, _DOCUMENTS), length + 8)]
        retrieved, others = documents[:length], documents[length:]
        if chance.random() > 0.01:
            grades = _GRADES if chance.random() > 0.01 else (0,)
            judged = [_pick(retrieved if chance.random() < _SHARE_FOUND else others, chance) for _ in range(6)]
            qrels[f"q{number}"] = {document: chance.choice(grades) for document in judged}
        if chance.random() > 0.02:
            scores = [chance.randrange(_HIGHEST_SCORE) / 10_000 for _ in retrieved]
            run[f"q{number}"] = sorted(
                zip(retrieved, scores, strict=True), key=lambda item: (item[1], item[0]), reverse=True
            )
    return qrels, run


def _pick(documents: list[str], chance: random.Random) -> str:
    return documents[chance.randrange(len(documents))]


if __name__ == "__main__":
    _write(Collection(Path(sys.argv[1])), *map(int, sys.argv[2:]))
