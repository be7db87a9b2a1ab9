"""Compare retrieval measures with other tools, from Python objects and TREC files, small and large.

Each tool computes Precision, Recall and nDCG at 1, 5, 10 and 20, AP and RR, or only the measures at cut-offs. The goals
are in CPU seconds, because wall time on shared cores depends on other load. Both are printed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from harness import (
    ENVIRONMENT,
    EVALSPEC,
    HERE,
    PEER_PYTHON,
    PYTHON,
    Cost,
    cpu,
    describe_machine,
    has_peers,
    interleave,
    peak,
    print_goal,
    print_table,
    wall,
)
from retrieval_data import Collection, write_collection

SEED = 20
LISTS, VOUCHED, SCORES = "evalspec, lists", "evalspec, lists, distinct=True", "evalspec, {id: score}"
PYTREC, FLOOR, RANX = "pytrec_eval, {id: score}", "isdisjoint, lists", "ranx, {id: score}"
WORKERS = {LISTS: "lists", VOUCHED: "vouched", SCORES: "scores", PYTREC: "pytrec_eval", FLOOR: "floor", RANX: "ranx"}
SCORE, READ, TREC = "evalspec score", "pytrec_eval", "trec_eval's C code"

METRICS = [f"{name}@{k}" for name in ("Precision", "Recall", "nDCG") for k in (1, 5, 10, 20)] + ["AP", "RR"]
READ_WITH_PYTREC_EVAL = """
import sys, pytrec_eval
with open(sys.argv[1]) as lines:
    qrels = pytrec_eval.parse_qrel(lines)
with open(sys.argv[2]) as lines:
    run = pytrec_eval.parse_run(lines)
names = {"P.1,5,10,20", "recall.1,5,10,20", "ndcg_cut.1,5,10,20", "map", "recip_rank"}
values = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
for name in sorted(next(iter(values.values()))):
    print(name, pytrec_eval.compute_aggregated_measure(name, [row[name] for row in values.values()]))
"""


class Worker:
    """A process that has loaded one tool and its objects."""

    def __init__(self, name: str, collection: Collection) -> None:
        python = str(PEER_PYTHON) if name == RANX else PYTHON
        command = [python, str(HERE / "retrieval_worker.py"), WORKERS[name], str(collection.objects)]
        self._child = subprocess.Popen(
            command,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def measure(self, measures: str) -> tuple[Cost, float]:
        """Run one round, and return its cost and the mean nDCG@10."""
        assert self._child.stdin and self._child.stdout
        print(measures, file=self._child.stdin, flush=True)
        answer = self._child.stdout.readline()
        if not answer:
            sys.exit(f"{self._child.args} ended with {self._child.wait()}")
        spent, used, mean = json.loads(answer)
        return Cost(spent, used, 0), mean

    def close(self) -> None:
        assert self._child.stdin
        self._child.stdin.close()
        self._child.wait()


def measure_objects(
    collection: Collection, tools: dict[str, Sequence[str]], rounds: int
) -> dict[str, dict[str, list[Cost]]]:
    """Return the costs of the tools for each set of measures. Tools run in turn after one warm-up round."""
    found: dict[str, dict[str, list[Cost]]] = {kind: {name: [] for name in names} for kind, names in tools.items()}
    means = set()
    workers = {name: Worker(name, collection) for name in {*chain.from_iterable(tools.values())}}
    for number in range(rounds + 1):
        for kind, costs in found.items():
            for name in costs:
                cost, mean = workers[name].measure(kind)
                if number:
                    costs[name].append(cost)
                if name not in (RANX, FLOOR):
                    means.add(mean)
    for worker in workers.values():
        worker.close()
    if max(means) - min(means) > 1e-9:
        sys.exit(f"the tools do not agree on nDCG@10: {sorted(means)}")
    return found


def file_commands(collection: Collection) -> dict[str, list[str]]:
    """Return the commands that read two TREC files and print means, each a whole process."""
    files = [str(collection.qrels), str(collection.run)]
    chosen = [part for metric in METRICS for part in ("-m", metric)]
    return {
        SCORE: [EVALSPEC, "score", *files, *chosen],
        READ: [PYTHON, "-c", READ_WITH_PYTREC_EVAL, *files],
        TREC: [PYTHON, str(HERE / "peer_trec_eval.py"), *files],
    }


def imports_numpy(command: Sequence[str]) -> bool:
    """Return whether a script of this Python imports numpy."""
    done = subprocess.run(
        [PYTHON, "-X", "importtime", *command], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return "numpy" in done.stderr


def show(work: str, costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print a table of medians. The last columns are relative to the first tool. Peaks are known for processes only."""
    ours = next(iter(costs.values()))
    with_peak = peak(ours) > 0
    rows = []
    for name, c in costs.items():
        memory = [f"{peak(c):.0f}"] * with_peak
        times = [f"{wall(c) / wall(ours):.2f}", f"{cpu(c) / cpu(ours):.2f}"]
        rows.append([name, f"{wall(c):.3f}", f"{cpu(c):.3f}", *memory, *times])
    print()
    print_table([work, "wall s", "CPU s", *["peak MiB"] * with_peak, "× wall", "× CPU"], rows)


def compare(what: str, costs: Mapping[str, Sequence[Cost]], ours: str, theirs: str, times: float) -> None:
    """Print whether evalspec reaches the speed-up in CPU time, and the speed-up in wall time."""
    factor = cpu(costs[theirs]) / cpu(costs[ours])
    said = "reached" if factor >= times else "MISSED "
    clock = wall(costs[theirs]) / wall(costs[ours])
    print(f"{said}  {what}, {ours}: {factor:.2f} × as fast as {theirs} ({clock:.2f} × by wall), goal {times:g} ×")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5, help="small files take four times so many")
    rounds = options.parse_args().rounds
    tools = [LISTS, VOUCHED, SCORES, PYTREC, FLOOR]
    with_ranx = [*tools, *[RANX] * has_peers()]
    with tempfile.TemporaryDirectory() as scratch:
        small = write_collection(Path(scratch) / "small", 50, 10, SEED)
        deep = write_collection(Path(scratch) / "deep", 7000, 1000, SEED)
        broad = write_collection(Path(scratch) / "broad", 100_000, 100, SEED)
        print(f"{describe_machine('numpy', 'pytrec-eval-terrier')}; medians of {rounds} interleaved rounds", flush=True)
        size = deep.run.stat().st_size
        few = interleave(file_commands(small) | {"python -c pass": [PYTHON, "-c", "pass"]}, 4 * rounds)
        numpy_free = not imports_numpy(file_commands(small)[SCORE])
        files = interleave(file_commands(deep), rounds)
        objects = measure_objects(deep, {"all": with_ranx, "cut": tools}, rounds)
        whole, cut = objects["all"], objects["cut"]
        many = measure_objects(broad, {"all": tools}, rounds)["all"]
    show("50 × 10, files", few)
    show("7,000 × 1,000, objects", whole)
    show("100,000 × 100, objects", many)
    show(f"7,000 × 1,000, files, {size / 1e6:.0f} MB", files)
    show("7,000 × 1,000, objects, cut-offs only", cut)
    print()
    compare("50 × 10, files", few, SCORE, READ, 2)
    print(f"{'reached' if numpy_free else 'MISSED '}  50 × 10, files: numpy is {'not ' * numpy_free}imported")
    for ours in (LISTS, VOUCHED, SCORES):
        compare("7,000 × 1,000, objects", whole, ours, PYTREC, 7)
        if RANX in whole:
            compare("7,000 × 1,000, objects", whole, ours, RANX, 25)
    for ours in (LISTS, VOUCHED):
        floor = cpu(whole[ours]) / cpu(whole[FLOOR])
        print_goal(f"7,000 × 1,000, objects, {ours} against {FLOOR}, CPU", floor, 1.5, " ×")
    for ours in (LISTS, VOUCHED, SCORES):
        compare("100,000 × 100, objects", many, ours, PYTREC, 4)
    compare("7,000 × 1,000, files", files, SCORE, READ, 2.5)
    compare("7,000 × 1,000, files", files, SCORE, TREC, 2)
    print_goal("7,000 × 1,000, files: peak memory against the file", peak(files[SCORE]) * 2**20 / size, 1.5, " ×")
    for ours in (LISTS, VOUCHED):
        compare("7,000 × 1,000, cut-offs only", cut, ours, PYTREC, 50)


if __name__ == "__main__":
    main()
