"""Measure 200 samples with one check each, on an agent that takes 50 ms: time relative to the ideal, and CPU.

Each contender runs on 200 samples and on 1 sample. The difference is the cost of the samples without start-up. The
agent, a separate process, measures the span from the first request to the last reply.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from harness import (
    EVALSPEC,
    HERE,
    PEER_PYTHON,
    PYTHON,
    Cost,
    cpu,
    describe_machine,
    has_peers,
    print_goal,
    print_table,
    run_child,
    wall,
    write_project,
)
from slow_agent import look, running_agent

SAMPLES, LATENCY, CONCURRENCIES = 200, 0.05, (10, 50)
OURS = "evalspec"


def contenders(url: str, folder: Path, concurrency: int, samples: int) -> dict[str, list[str]]:
    """Return the commands that do the same task."""
    manifest = write_project(folder / str(samples), samples, url)
    bare = [PYTHON, str(HERE / "bare_httpx.py"), f"{url}/chat", str(samples), str(concurrency)]
    commands = {
        OURS: [EVALSPEC, "evaluate", str(manifest), "-j", str(concurrency)],
        "bare httpx, client per worker": [*bare, "clients"],
        "bare httpx, one client": [*bare, "pool"],
    }
    if PEER_PYTHON.exists():
        script = str(HERE / "peer_pydantic_evals.py")
        commands["pydantic-evals"] = [str(PEER_PYTHON), script, f"{url}/chat", str(samples), str(concurrency)]
    return commands


class Measured:
    """All rounds of one contender at one concurrency."""

    def __init__(self) -> None:
        self.full: list[Cost] = []
        self.single: list[Cost] = []
        self.spans: list[float] = []
        self.peaks: list[int] = []

    def run(self, full: Sequence[str], single: Sequence[str], url: str, cwd: Path) -> None:
        """Run one round."""
        self.single.append(run_child(single, cwd))
        look(url)
        self.full.append(run_child(full, cwd))
        seen = look(url)
        if seen["requests"] != SAMPLES:
            sys.exit(f"{' '.join(full)}: {seen['requests']} requests were made")
        self.spans.append(seen["span"])
        self.peaks.append(seen["peak"])

    @property
    def span(self) -> float:
        """Return the median seconds from the first request to the last reply."""
        return median(self.spans)

    @property
    def milliseconds_a_sample(self) -> float:
        """Return the CPU milliseconds per sample without start-up."""
        return (cpu(self.full) - cpu(self.single)) / (SAMPLES - 1) * 1000


def measure(url: str, folder: Path, concurrency: int, rounds: int) -> dict[str, Measured]:
    """Run all contenders in turn, round by round. The first round is a warm-up."""
    full = contenders(url, folder, concurrency, SAMPLES)
    single = contenders(url, folder, concurrency, 1)
    for name in full:
        Measured().run(full[name], single[name], url, folder)
    found = {name: Measured() for name in full}
    for _ in range(rounds):
        for name, measured in found.items():
            measured.run(full[name], single[name], url, folder)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=9)
    rounds = options.parse_args().rounds
    has_peers()
    rows, ours = [], {}
    with tempfile.TemporaryDirectory() as scratch, running_agent(LATENCY) as url:
        for concurrency in CONCURRENCIES:
            ideal = SAMPLES * LATENCY / concurrency
            found = measure(url, Path(scratch), concurrency, rounds)
            ours[concurrency] = found[OURS]
            rows += [
                [
                    name,
                    str(concurrency),
                    f"{m.span:.2f}",
                    f"{m.span / ideal:.2f}",
                    f"{max(m.peaks)}",
                    f"{m.milliseconds_a_sample:.1f}",
                    f"{cpu(m.single):.2f}",
                    f"{wall(m.full):.2f}",
                ]
                for name, m in found.items()
            ]
    print(f"{describe_machine('httpx', 'click', 'pydantic')}; medians of {rounds} interleaved rounds\n")
    headers = ["tool", "-j", "span s", "× ideal", "peak", "CPU ms / sample", "start-up CPU s", "wall s"]
    print_table(headers, rows)
    print()
    print_goal("span at -j 10 against the ideal 1.0 s", ours[10].span / 1.0, 1.25, " ×")
    print_goal("CPU per sample without start-up at -j 50", ours[50].milliseconds_a_sample, 4, " ms")


if __name__ == "__main__":
    main()
