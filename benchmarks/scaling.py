"""Measure CPU and memory for ten times the samples. The agent answers immediately, so only evalspec's time counts."""

import argparse
import tempfile
from pathlib import Path

from harness import (
    EVALSPEC,
    cpu,
    describe_machine,
    interleave,
    peak,
    print_goal,
    print_table,
    wall,
    write_project,
)
from slow_agent import running_agent

SIZES = (1, 400, 4000)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("-j", "--concurrency", type=int, default=10)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, running_agent(0.0) as url:
        folder = Path(scratch)
        commands = {}
        for size in SIZES:
            manifest = write_project(folder / str(size), size, url)
            commands[size] = [EVALSPEC, "evaluate", str(manifest), "-j", str(chosen.concurrency)]
        costs = interleave({f"{size:,}": command for size, command in commands.items()}, chosen.rounds, cwd=folder)
    print(f"{describe_machine('httpx', 'pydantic')}; medians of {chosen.rounds} interleaved rounds\n")
    rows = [[name, f"{cpu(c):.2f}", f"{wall(c):.2f}", f"{peak(c):.0f}"] for name, c in costs.items()]
    print_table(["samples", "CPU s", "wall s", "peak MiB"], rows)
    print()
    start, small, large = (cpu(found) for found in costs.values())
    print_goal("CPU of 4,000 samples relative to 400", large / small, 11, " ×")
    print_goal("the same without start-up", (large - start) / (small - start), 11, " ×")


if __name__ == "__main__":
    main()
