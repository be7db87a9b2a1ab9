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
from collections.abc import Callable
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
    """One judge, and a project in a folder. Each measurement returns the median of wall seconds, and the chat calls."""

    def __init__(self, folder: Path, judge: ScriptedJudge, vectors: ScriptedJudge, rounds: int) -> None:
        self._folder, self._judge, self._rounds = folder, judge, rounds
        self.urls = judge.url, vectors.url

    def measure(self, prepare: Callable[[], None], *command: str) -> tuple[float, int]:
        walls, calls = [], 0
        for _ in range(self._rounds):
            prepare()
            self._judge.chats.clear()
            walls.append(run_child(command, self._folder).wall)
            calls = len(self._judge.chats)
        return median(walls), calls

    def forget(self) -> None:
        """Remove the runs and the cache."""
        shutil.rmtree(self._folder / ".evalspec", ignore_errors=True)

    def write(self, metrics: str, samples: int, changed: int = -1) -> None:
        write_project(self._folder, self.urls, metrics, samples, changed)

    def run(self, metrics: str, samples: int) -> tuple[float, int]:
        self.write(metrics, samples)
        return self.measure(self.forget, *RUN)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--samples", type=int, default=50)
    arguments = options.parse_args()
    count = arguments.samples
    print(describe_machine("ragas"))
    with tempfile.TemporaryDirectory() as folder, ScriptedJudge() as judge, ScriptedJudge() as vectors:
        judge.delay = LATENCY
        bench = Bench(Path(folder), judge, vectors, arguments.rounds)
        imported, _ = bench.measure(lambda: None, *PEER)
        rows = {}
        for several in ("honoured", "ignored"):
            judge.several = several
            rows[f"1 sample, 4 metrics, n {several}"] = bench.run(FOUR, 1)
            rows[f"1 sample, 7 metrics, n {several}"] = bench.run(SEVEN, 1)
        judge.several = "honoured"
        rows[f"{count} samples, 4 metrics"] = whole = bench.run(FOUR, count)
        rows[f"{count} samples, unchanged"] = again = bench.measure(lambda: None, *RUN)
        changes = iter(range(count))
        rows[f"{count} samples, one changed"] = bench.measure(lambda: bench.write(FOUR, count, next(changes)), *RUN)
        bench.write(FOUR, count)
        peer = bench.measure(lambda: None, *PEER, "rag.jsonl", *bench.urls, str(CONCURRENCY))
        rows[f"ragas alone: {count} samples, 4 metrics"] = peer
    rows["importing ragas"] = imported, 0
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
