"""Measure child processes with the operating system's accounting, and print tables of medians."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from evalspec import __version__

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
EVALSPEC = str(Path(PYTHON).with_name("evalspec"))
PEER_PYTHON = HERE / ".peers" / "bin" / "python"
_MB_IN_RU_MAXRSS = 2**20 if sys.platform == "darwin" else 2**10

_SETTINGS = {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "NO_COLOR": "1", "CI": "1"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | _SETTINGS
"""The environment without PYTHON* settings. With PYTHONDONTWRITEBYTECODE, which is common in containers, imports would
not stay compiled, and each run would measure Python's compiler."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one process: wall seconds, CPU seconds (user + system), peak resident memory in MiB."""

    wall: float
    cpu: float
    peak: float


def run_child(command: Sequence[str], cwd: str | Path | None = None) -> Cost:
    """Run a command without output and return its cost. If it fails, print its errors and end the benchmark."""
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-2000:]
            sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{said}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / _MB_IN_RU_MAXRSS)


def interleave(
    commands: Mapping[str, Sequence[str]], rounds: int, cwd: str | Path | None = None
) -> dict[str, list[Cost]]:
    """Run all commands in turn (A B C A B C …), so that other load slows all of them. Each has one warm-up."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            cost = run_child(command, cwd)
            if number:
                costs[name].append(cost)
    return costs


def wall(costs: Sequence[Cost]) -> float:
    """Return the median of wall seconds."""
    return median(cost.wall for cost in costs)


def cpu(costs: Sequence[Cost]) -> float:
    """Return the median of CPU seconds."""
    return median(cost.cpu for cost in costs)


def peak(costs: Sequence[Cost]) -> float:
    """Return the median of peak memory in MiB."""
    return median(cost.peak for cost in costs)


def has_peers() -> bool:
    """Return whether benchmarks/peers.sh was run. Print a hint if it was not."""
    if PEER_PYTHON.exists():
        return True
    print("peers are skipped: run benchmarks/peers.sh to measure them too", file=sys.stderr)
    return False


def describe_machine(*packages: str) -> str:
    """Return one line about the machine and the versions."""
    versions = "".join(f", {name} {importlib.metadata.version(name)}" for name in packages)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}; evalspec {__version__}{versions}"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table. The first column is text, the others are numbers."""
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    ruler = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for row in (headers, ruler, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print(f"| {' | '.join(cells)} |")


def print_goal(what: str, measured: float, limit: float, unit: str = "") -> None:
    """Print whether a goal is reached."""
    print(
        f"{'reached' if measured <= limit else 'MISSED '}  {what}: {measured:.2f}{unit}, goal at most {limit:g}{unit}"
    )


def write_project(
    folder: Path, samples: int, url: str = "http://127.0.0.1:9", metrics: str = "string_match", judge: str = ""
) -> Path:
    """Write a manifest and a dataset. The answers of slow_agent.py contain every `expected`."""
    folder.mkdir(parents=True, exist_ok=True)
    passage = "A parcel to the mainland takes two working days, to an island four. " * 4
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as lines:
        for number in range(samples):
            sample = {
                "input": f"How many working days does parcel {number} take to the mainland?",
                "expected": "two working days",
                "context": [f"Parcel {number}. {passage}", passage],
                "reference_contexts": [passage],
                "tags": ["parcels", "even" if number % 2 == 0 else "odd"],
                "metadata": {"number": number},
            }
            lines.write(json.dumps(sample) + "\n")
    manifest = folder / "agent.yaml"
    manifest.write_text(
        f"""\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {{name: benchmark, version: 1.0.0, description: A generated project}}
spec:
  api: {{type: rest, url: "{url}", chatEndpoint: {{path: /chat}}}}
  evaluation:
    framework: ragas
    {judge}
    datasets: [{{name: parcels, path: $file:samples.jsonl, metrics: [{metrics}]}}]
    thresholds: {{{metrics.split(",")[0]}: 0.5}}
    ciGate: true
""",
        encoding="utf-8",
    )
    return manifest
