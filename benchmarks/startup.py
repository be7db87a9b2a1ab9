"""Measure the start-up of evalspec's commands that send no requests, relative to `python -c pass`."""

import argparse
import tempfile
from pathlib import Path

from harness import (
    EVALSPEC,
    PEER_PYTHON,
    PYTHON,
    cpu,
    describe_machine,
    has_peers,
    interleave,
    peak,
    print_goal,
    print_table,
    wall,
    write_project,
)

BASE, VERSION, HELP, VALIDATE = "python -c pass", "evalspec --version", "evalspec --help", "evalspec validate, 1,000"
JUDGE = "judge: {model: gpt-6-luna, baseUrl: http://127.0.0.1:9/v1, apiKey: none}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        manifest = write_project(folder, 1000, metrics="faithfulness, context_recall, answer_relevancy", judge=JUDGE)
        launcher = folder / "launcher"
        launcher.write_text(Path(EVALSPEC).read_text().replace("from evalspec.__main__ import main", "main = int"))
        launcher.chmod(0o755)
        commands = {
            BASE: [PYTHON, "-c", "pass"],
            "its launcher alone": [str(launcher)],
            VERSION: [EVALSPEC, "--version"],
            HELP: [EVALSPEC, "--help"],
            "evalspec metrics": [EVALSPEC, "metrics"],
            VALIDATE: [EVALSPEC, "validate", str(manifest)],
        }
        if has_peers():
            commands["import pydantic_evals"] = [str(PEER_PYTHON), "-c", "import pydantic_evals"]
            commands["deepeval --version"] = [str(PEER_PYTHON.with_name("deepeval")), "--version"]
        costs = interleave(commands, rounds, cwd=folder)
    print(f"{describe_machine('click', 'pydantic', 'pyyaml')}; medians of {rounds} interleaved rounds\n")
    base = costs[BASE]
    rows = [
        [name, f"{wall(c):.3f}", f"{wall(c) / wall(base):.1f}", f"{cpu(c):.3f}", f"{peak(c):.0f}"]
        for name, c in costs.items()
    ]
    print_table(["command", "wall s", "× python -c pass", "CPU s", "peak MiB"], rows)
    print()
    print_goal("--version against python -c pass, wall", wall(costs[VERSION]) / wall(base), 1.2, " ×")
    print_goal("--help against python -c pass, wall", wall(costs[HELP]) / wall(base), 8, " ×")
    print_goal("validate on 1,000 samples, CPU", cpu(costs[VALIDATE]), 0.5, " s")


if __name__ == "__main__":
    main()
