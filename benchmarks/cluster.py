"""What nodes of Ray gain and cost, side by side with a run in one process.

    python benchmarks/cluster.py judge      # first to last call of a judge of 200 ms, on 1, 2 and 4 nodes
    python benchmarks/cluster.py metric     # a metric of 3 ms of CPU, on 2 nodes and in one process
    python benchmarks/cluster.py cost       # CPU of all processes a sample, and the largest process

Nodes are raylets of one machine, as in the tests. It refuses to report if another process has used more than a tenth of
a core meanwhile. The CPU is that of the whole machine, so that Ray's own processes count.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic

from harness import ENVIRONMENT, EVALSPEC, HERE, Cost, describe_machine, print_table, run_child
from slow_agent import look, running_agent

sys.path.append(str(HERE.parent / "tests"))
from servers.ray_nodes import TOKEN, RayNodes

MOST_OTHERS = 0.1
"""Cores that other processes may use."""
_TICKS = os.sysconf("SC_CLK_TCK")
SCORER = """
import os, time
from pathlib import Path

def burn(exchange):
    begin, end = time.monotonic(), time.thread_time() + 0.003
    while time.thread_time() < end:
        sum(range(1000))
    with Path(os.environ["TIMES"]).open("a") as times:
        times.write(f"{begin}\\n{time.monotonic()}\\n")
    return 1.0

def half(exchange):
    return 0.5
"""


def list_processes() -> dict[int, tuple[int, float]]:
    """Return parent and CPU seconds of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS
    return found


@contextmanager
def quiet() -> Iterator[list[float]]:
    """Yield a list that gets the CPU seconds of the machine, less those of processes that were there before.

    Ends the program if these used more than a tenth of a core.
    """
    cost: list[float] = []
    before, started, busy = list_processes(), monotonic(), _read_busy()
    yield cost
    after, seconds = list_processes(), monotonic() - started
    others = sum(
        after[pid][1] - used for pid, (_, used) in before.items() if pid in after and pid not in _list_own(after)
    )
    if others / seconds > MOST_OTHERS:
        sys.exit(f"other processes used {others / seconds:.2f} cores; nothing is reported")
    cost.append(_read_busy() - busy - others)


def _list_own(processes: dict[int, tuple[int, float]]) -> set[int]:
    """Return this process and its descendants."""
    own = {os.getpid()}
    while more := {pid for pid, (parent, _) in processes.items() if parent in own} - own:
        own |= more
    return own


def _read_busy() -> float:
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / _TICKS


def write_project(folder: Path, samples: int, metrics: Sequence[object], judge: dict[str, object]) -> None:
    """Write a manifest with samples and their replies."""
    (folder / "own.py").write_text(SCORER)
    datasets = [{"name": "qa", "path": "$file:qa.jsonl", "metrics": metrics}]
    evaluation = {"datasets": datasets, "ciGate": {"enabled": False, "judge": {"controls": False}}} | judge
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "cluster"}}
    (folder / "agent.yaml").write_text(json.dumps({**head, "spec": {"evaluation": evaluation}}))
    answer = "To the mainland a parcel takes two working days."
    for name, keys in {"qa.jsonl": {"expected": "two working days"}, "replies.jsonl": {"response": answer}}.items():
        rows = (
            {"id": f"s{n}", **({"input": f"Parcel {n}?"} if name == "qa.jsonl" else {}), **keys} for n in range(samples)
        )
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def evaluate(folder: Path, nodes: int, *options: str) -> Cost:
    """Run on so many raylets; 0: in one process. Starting Ray is no part of it."""
    shutil.rmtree(folder / ".evalspec", ignore_errors=True)
    command = [EVALSPEC, "evaluate", "agent.yaml", "--responses", "replies.jsonl", *options]
    if not nodes:
        return run_child(command, folder)
    ENVIRONMENT.update(TOKEN)
    raylets = RayNodes([{name: ENVIRONMENT[name] for name in ("TIMES",) if name in ENVIRONMENT}] * nodes)
    try:
        return run_child([*command, "--on", raylets.address], folder)
    finally:
        raylets.close()


def measure_judge(folder: Path, rounds: int) -> None:
    """Print the time from the first to the last call, 8 at once on each node."""
    spans: dict[int, list[float]] = {0: [], 1: [], 2: [], 4: []}
    with running_agent(0.2) as url, quiet():
        for _ in range(rounds):
            for nodes, found in spans.items():
                judge = {"model": "m", "baseUrl": url, "apiKey": "none", "concurrency": 8 * (nodes or 1)}
                metrics = [
                    {"name": f"rubric{n}", "rubric": f"Is part {n} right?", "labels": {"good": 1, "bad": 0}}
                    for n in range(4)
                ]
                write_project(folder, 500, metrics, {"judge": judge, "run": {"nodes": nodes or 1}})
                look(url)
                evaluate(folder, nodes, "--no-cache", "-j", str(8 * (nodes or 1)))
                seen = look(url)
                assert seen["requests"] == 2000, seen
                found.append(seen["span"])
    one = median(spans[1])
    rows = [[str(n) if n else "one process", f"{median(s):.1f}", f"{one / median(s):.2f}"] for n, s in spans.items()]
    print_table(["nodes", "first to last call, s", "times one node"], rows)


def measure_metric(folder: Path, rounds: int) -> None:
    """Print the time from the first to the last score, each with 3 ms of CPU."""
    write_project(folder, 2000, [{"name": "burn", "scorer": "own:burn", "range": [0, 1]}], {"run": {"nodes": 2}})
    spans: dict[int, list[float]] = {0: [], 2: []}
    ENVIRONMENT.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with quiet():
        for _ in range(rounds):
            for nodes, found in spans.items():
                times = folder / "times.txt"
                times.unlink(missing_ok=True)
                ENVIRONMENT["TIMES"] = str(times)
                evaluate(folder, nodes)
                seconds = [float(line) for line in times.read_text().split()]
                found.append(max(seconds) - min(seconds))
    rows = [[str(n) if n else "one process", f"{median(s):.2f}"] for n, s in spans.items()]
    print_table(["nodes", "first to last score, s"], rows)
    print(f"two nodes are {median(spans[0]) / median(spans[2]):.2f} times as fast")


def measure_cost(folder: Path, rounds: int, sizes: tuple[int, int]) -> None:
    """Print the CPU of a sample: the difference of two sizes. And the largest of the processes that were waited for."""
    metrics = ["string_match", {"name": "half", "scorer": "own:half", "range": [0, 1]}]
    costs: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for nodes in (0, 1, 2):
            for size in sizes:
                write_project(folder, size, metrics, {"run": {"nodes": nodes or 1}})
                with quiet() as used:
                    peak = evaluate(folder, nodes).peak
                costs.setdefault((nodes, size), []).append((used[0], peak))
    rows = []
    for nodes in (0, 1, 2):
        few, many = (median(cpu for cpu, _ in costs[nodes, size]) for size in sizes)
        largest = median(peak for _, peak in costs[nodes, sizes[1]])
        each = f"{1000 * (many - few) / (sizes[1] - sizes[0]):.3f}"
        rows.append([str(nodes) if nodes else "one process", each, f"{largest:.0f}"])
    print_table(["nodes", "CPU a sample, ms", f"largest process with {sizes[1]:,} samples, MiB"], rows)


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", choices=("judge", "metric", "cost"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--sizes", type=int, nargs=2, default=(1_000, 20_000), help="samples, of `cost`")
    given = options.parse_args()
    print(f"{describe_machine('ray')}; medians of {given.rounds} rounds\n")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if given.part == "judge":
            measure_judge(folder, given.rounds)
        elif given.part == "metric":
            measure_metric(folder, given.rounds)
        else:
            measure_cost(folder, given.rounds, tuple(given.sizes))


if __name__ == "__main__":
    main()
