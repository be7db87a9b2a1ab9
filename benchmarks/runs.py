"""Measure CPU and peak memory of whole runs.

The runs have one sample, 100,000 recorded replies of 500 characters, and 100,000 samples over HTTP with `report` and
`rescore` of that run. The agent is slow_agent.py, a separate process, which answers immediately. The runs of one sample
are interleaved with a script that imports what such a run needs and posts once: their CPU is a ratio of medians.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from harness import (
    EVALSPEC,
    PYTHON,
    cpu,
    describe_machine,
    interleave,
    peak,
    print_goal,
    print_table,
    run_child,
    wall,
    write_project,
)
from slow_agent import running_agent

ONE = "string_match, exact_match"
TWO = "string_match, rouge"
FIVE = "string_match, exact_match, rouge, latency_p95, error_rate"
ONE_NAMES = ("1 sample over HTTP", "a script that imports the same and posts once")
POST_ONCE = """
import sys, click, httpx, msgspec, pydantic, yaml
httpx.post(sys.argv[1] + "/chat", json={"message": "How long?"}).raise_for_status()
"""
ANSWER = "To the mainland a parcel takes two working days."
WORDS = (*ANSWER.rstrip(".").split(), "unless", "customs", "keeps", "it", "longer")


def write_replies(path: Path, samples: Path) -> Path:
    """Write a recorded reply of 500 characters for each sample of a dataset with ids."""
    chance = Random(1)
    with path.open("w", encoding="utf-8") as lines, samples.open(encoding="utf-8") as questions:
        for number, question in enumerate(questions):
            text = f"{ANSWER} {' '.join(chance.choices(WORDS, k=150))}"[:500]
            reply = {"id": json.loads(question)["id"], "response": text, "latencyMs": 50 + number % 7}
            lines.write(json.dumps(reply) + "\n")
    return path


def write_identified(folder: Path, count: int, url: str, metrics: str) -> Path:
    """Write the project of the harness with an id for each sample, which recorded replies need."""
    manifest = write_project(folder, count, url, metrics)
    samples, identified = folder / "samples.jsonl", folder / "identified.jsonl"
    with samples.open(encoding="utf-8") as lines, identified.open("w", encoding="utf-8") as written:
        written.writelines(json.dumps({"id": f"p{n}"} | json.loads(line)) + "\n" for n, line in enumerate(lines))
    identified.replace(samples)
    return manifest


def measure(folder: Path, count: int, rounds: int, parts: Sequence[str]) -> list[tuple[str, float, float, float]]:
    """Return name, CPU seconds, wall seconds and peak MiB of each command. Later commands need earlier ones."""
    rows = []

    def run(name: str, times: int, *arguments: str | Path, inside: Path) -> None:
        command = [EVALSPEC, *map(str, arguments)]
        costs = [run_child(command, inside) for _ in range(times)]
        rows.append((name, cpu(costs), wall(costs), peak(costs)))
        print(f"{name}: {rows[-1]}", file=sys.stderr)

    with running_agent(0.0) as url:
        if "one" in parts:
            one = write_identified(folder / "one", 1, url, ONE).parent
            write_replies(one / "replies.jsonl", one / "samples.jsonl")
            posting = [PYTHON, "-c", POST_ONCE, url]
            costs = interleave({"one": [EVALSPEC, "evaluate", "agent.yaml"], "post": posting}, 5 * rounds, cwd=one)
            rows += [(name, cpu(c), wall(c), peak(c)) for name, c in zip(ONE_NAMES, costs.values(), strict=True)]
            run("1 recorded reply", 5 * rounds, "evaluate", "agent.yaml", "--responses", "replies.jsonl", inside=one)
        if "recorded" in parts:
            recorded = write_identified(folder / "recorded", count, url, TWO).parent
            write_replies(recorded / "replies.jsonl", recorded / "samples.jsonl")
            options = ("--responses", "replies.jsonl", "--json")
            run(f"{count:,} recorded replies", rounds, "evaluate", "agent.yaml", *options, inside=recorded)
        if "http" in parts:
            asked = write_identified(folder / "asked", count, url, FIVE).parent
            run(f"{count:,} over HTTP", 1, "evaluate", "agent.yaml", "--json", inside=asked)
            run("report", rounds, "report", "--json", inside=asked)
            run("rescore", rounds, "rescore", "latest", "agent.yaml", "--json", inside=asked)
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--samples", type=int, default=100_000)
    options.add_argument("--parts", nargs="+", choices=("one", "recorded", "http"), default=("one", "recorded", "http"))
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = measure(Path(scratch), chosen.samples, chosen.rounds, chosen.parts)
    print(f"{describe_machine('msgspec')}; medians of {chosen.rounds} rounds, one of the run over HTTP\n")
    print_table(["command", "CPU s", "wall s", "peak MiB"], [[n, *(f"{x:.2f}" for x in rest)] for n, *rest in rows])
    if "one" in chosen.parts:
        print()
        print_goal("1 sample against the script, CPU", rows[0][1] / rows[1][1], 1.35, " ×")


if __name__ == "__main__":
    main()
