"""Judge calls, wall time and the effect of the cache, side by side with ragas alone.

python benchmarks/judge.py [--rounds 3] [--samples 50]

The judge is the scripted one of the tests, which answers after 200 ms in threads of this process; each measured command
is a process of its own. Embeddings come at once, from a second server: ragas waits for them within its event loop.
Four metrics are faithfulness, answer_relevancy, context_precision and context_recall over five
contexts. The time of importing ragas, which both have, is measured in the same run and subtracted where it says so.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import EVALSPEC, HERE, PYTHON, describe_machine, print_goal, print_table, run_child

sys.path.append(str(HERE.parent / "tests"))
from servers.scripted_judge import ScriptedJudge

LATENCY, CONCURRENCY = 0.2, 16
FOUR = "faithfulness, answer_relevancy, context_precision, {name: context_recall, reference: expected}"
SEVEN = f"{FOUR}, answer_correctness, noise_sensitivity, factual_correctness"
MANIFEST = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {{name: benchmark, version: 1.0.0, description: A generated project}}
spec:
  evaluation:
    framework: ragas
    judge: {{model: scripted, baseUrl: "{url}", apiKey: none, concurrency: {concurrency}}}
    embeddings: {{provider: openai-compatible, model: bag, baseUrl: "{vectors}"}}
    datasets: [{{name: rag, path: $file:rag.jsonl, metrics: [{metrics}]}}]
    ciGate: false
"""
RUN = (EVALSPEC, "evaluate", "agent.yaml", "--responses", "same", "-o", "report.json")
PEER = (PYTHON, str(HERE / "peer_ragas.py"))


def write_project(folder: Path, urls: tuple[str, str], metrics: str, samples: int, changed: int = -1) -> None:
    """Write a manifest, and samples with replies. `urls`: of judge and embeddings. `changed`: number of a sample."""
    manifest = MANIFEST.format(url=urls[0], vectors=urls[1], concurrency=CONCURRENCY, metrics=metrics)
    (folder / "agent.yaml").write_text(manifest, encoding="utf-8")
    contexts = [f"Refunds of plan {number} are paid within 30 days." for number in range(5)]
    with (folder / "rag.jsonl").open("w", encoding="utf-8") as lines:
        for number in range(samples):
            answer = f"Refunds of plan {number} are paid within {20 if number == changed else 30} days."
            sample = {
                "id": f"s{number}",
                "input": f"When are refunds of plan {number} paid?",
                "expected": f"Refunds of plan {number} are paid within 30 days.",
                "response": answer,
                "retrieved_contexts": contexts,
            }
            lines.write(json.dumps(sample) + "\n")


class Bench:
    """One judge, and a project in a folder. Commands take turns, so that a busy moment hits all of them."""

    def __init__(self, folder: Path, judge: ScriptedJudge, vectors: ScriptedJudge) -> None:
        self._folder, self._judge = folder, judge
        self.urls = judge.url, vectors.url
        self._found: dict[str, list[tuple[float, int]]] = {}

    def measure(self, name: str, *command: str) -> None:
        """Run a command, and keep its wall seconds and its chat calls."""
        self._judge.chats.clear()
        wall = run_child(command, self._folder).wall
        self._found.setdefault(name, []).append((wall, len(self._judge.chats)))

    def run(self, name: str, metrics: str, samples: int, several: str = "honoured") -> None:
        """Evaluate samples without a cache. `several`: what the judge makes of `n`."""
        shutil.rmtree(self._folder / ".evalspec", ignore_errors=True)
        self._judge.several = several
        self.write(metrics, samples)
        self.measure(name, *RUN)

    def write(self, metrics: str, samples: int, changed: int = -1) -> None:
        write_project(self._folder, self.urls, metrics, samples, changed)

    def medians(self) -> dict[str, tuple[float, int]]:
        """The median of the wall seconds of each command, and the calls of its last run."""
        return {name: (median(wall for wall, _ in runs), runs[-1][1]) for name, runs in self._found.items()}


def measure_round(bench: Bench, count: int, number: int) -> None:
    """Run each command once."""
    bench.measure("importing ragas", *PEER)
    for several in ("honoured", "ignored"):
        bench.run(f"1 sample, 4 metrics, n {several}", FOUR, 1, several)
        bench.run(f"1 sample, 7 metrics, n {several}", SEVEN, 1, several)
    bench.run(f"{count} samples, 4 metrics", FOUR, count)
    bench.measure(f"{count} samples, unchanged", *RUN)
    bench.write(FOUR, count, number % count)
    bench.measure(f"{count} samples, one changed", *RUN)
    bench.write(FOUR, count)
    bench.measure(f"ragas alone: {count} samples, 4 metrics", *PEER, "rag.jsonl", *bench.urls, str(CONCURRENCY))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--samples", type=int, default=50)
    arguments = options.parse_args()
    count = arguments.samples
    print(describe_machine("ragas"))
    with tempfile.TemporaryDirectory() as folder, ScriptedJudge() as judge, ScriptedJudge() as vectors:
        judge.delay = LATENCY
        bench = Bench(Path(folder), judge, vectors)
        for number in range(arguments.rounds):
            measure_round(bench, count, number)
        rows = bench.medians()
    imported, _ = rows["importing ragas"]
    whole, again = rows[f"{count} samples, 4 metrics"], rows[f"{count} samples, unchanged"]
    peer = rows[f"ragas alone: {count} samples, 4 metrics"]
    print_table(
        ("command", "calls", "wall, s", "less the import, s"),
        [(name, str(calls), f"{wall:.2f}", f"{wall - imported:.2f}") for name, (wall, calls) in rows.items()],
    )
    least = whole[1] * LATENCY / CONCURRENCY
    print_goal(
        f"{count} samples, less the import / (calls x latency / {CONCURRENCY})", (whole[0] - imported) / least, 1.3
    )
    print_goal("1 sample, 4 metrics, less the import", rows["1 sample, 4 metrics, n honoured"][0] - imported, 0.6, " s")
    print_goal("1 sample, 7 metrics, less the import", rows["1 sample, 7 metrics, n honoured"][0] - imported, 0.9, " s")
    print_goal(f"{count} samples, unchanged", again[0], 1, " s")
    print_goal("calls, unchanged", again[1], 0)
    print_goal("wall / wall of ragas alone", whole[0] / peer[0], 1)


if __name__ == "__main__":
    main()
