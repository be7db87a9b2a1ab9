"""Measure large inputs: `validate` and `convert` of a million lines, a compressed reply, many runs and many hits.

Memory is the peak of the process. The reply decompresses to 1.6 GiB. It is compared with the same command and a plain
reply.
"""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
    write_project,
)

FORMATS = {"jsonl": "out.jsonl", "mixpeek": "out.json", "unrag": "out.json", "trec": "out", "autorag": "out"}
RUNS = 1000
QUERIES, HITS = 225, 100
INFLATED_MIB = 1600
HEAD = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: benchmark, version: 1.0.0, description: A generated project}
spec:"""
LINES = f"""{HEAD}
  evaluation:
    datasets: [{{name: large, path: large.jsonl, metrics: [string_match]}}]
    thresholds: {{string_match: 0.5}}
"""
PARSING = "import json\nwith open('large.jsonl', 'rb') as lines:\n    for line in lines: json.loads(line)"
CORPUS = f"""{HEAD}
  evaluation:
    retrievers: {{words: {{builtin: bm25, topK: 100}}}}
    datasets: [{{name: faq, path: queries.jsonl, corpus: corpus.jsonl, retriever: words, metrics: [nDCG@10]}}]
    thresholds: {{nDCG@10: 0}}
    ciGate: true
"""


def _write_lines(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for n in range(count):
            line = {
                "id": f"s{n}",
                "input": f"What is the capital of place number {n}?",
                "expected": f"City {n} has been the capital since 19{n % 100:02}",
                "relevant": [f"d{n}", f"d{n + 1}"],
                "metadata": {"tenant": f"t{n % 50}"},
            }
            lines.write(json.dumps(line) + "\n")


def measure_validate(folder: Path, count: int, rounds: int) -> None:
    """Measure `validate` of a large dataset, compared with a loop of json.loads over its lines."""
    (folder / "agent.yaml").write_text(LINES)
    commands = {"validate": [EVALSPEC, "validate", "agent.yaml"], "json.loads in a loop": [PYTHON, "-c", PARSING]}
    costs = interleave(commands, rounds, folder)
    rows = [(name, f"{cpu(found):.1f}", f"{peak(found):.0f}") for name, found in costs.items()]
    print_table((f"{count:,} lines", "CPU s", "peak MiB"), rows)
    ratio = cpu(costs["validate"]) / cpu(costs["json.loads in a loop"])
    print_goal(f"validate of {count:,} lines, CPU", cpu(costs["validate"]), 5, " s")
    print_goal("the same against json.loads in a loop", ratio, 1.8, " ×")
    print_goal("the same, peak", peak(costs["validate"]), 250, " MiB")


def measure_convert(folder: Path, count: int) -> None:
    """Measure the peak memory of each conversion."""
    rows, peaks = [], []
    for name, target in FORMATS.items():
        cost = run_child([EVALSPEC, "convert", "large.jsonl", target, "--to", name, "--lossy", "--force"], folder)
        rows.append((f"convert --to {name}", f"{cost.peak:.0f}", f"{cost.cpu:.0f}"))
        peaks.append(cost.peak)
        written = folder / target
        shutil.rmtree(written) if written.is_dir() else written.unlink()
    print_table(("command", "peak MiB", "CPU s"), rows)
    print_goal(f"the highest peak of converting {count:,} lines", max(peaks), 300, " MiB")


class _Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        inflating = self.path == "/inflating"
        body = _BOMB if inflating else b'{"response": "two working days"}'
        self.send_response(200)
        if inflating:
            self.send_header("Content-Encoding", "gzip, gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def _agent() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Agent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _make_bomb() -> bytes:
    return gzip.compress(gzip.compress(bytes(INFLATED_MIB * 2**20)))


def measure_reply(folder: Path, rounds: int) -> None:
    """Measure the extra cost of a reply that decompresses to 1.6 GiB.

    evalspec rejects the reply, so the gate is INCOMPLETE: exit code 3.
    """
    script = f"import subprocess, sys; sys.exit(subprocess.run([{EVALSPEC!r}, *sys.argv[1:]]).returncode not in (0, 3))"
    with _agent() as url:
        for path in ("inflating", "plain"):
            manifest = write_project(folder / path, 1, url)
            manifest.write_text(manifest.read_text().replace("path: /chat", f"path: /{path}, maxRetries: 0"))
        commands = {
            path: [sys.executable, "-c", script, "evaluate", f"{path}/agent.yaml"] for path in ("inflating", "plain")
        }
        costs = interleave(commands, rounds, folder)
    print_goal(
        f"a reply of {len(_BOMB) / 1000:.1f} KB that inflates to {INFLATED_MIB} MiB, CPU over a plain one",
        cpu(costs["inflating"]) - cpu(costs["plain"]),
        1,
        " s",
    )


def measure_list(folder: Path, rounds: int) -> None:
    """Measure `runs list` of many copies of one run."""
    with _agent() as url:
        write_project(folder, 20, f"{url}")
        run_child([EVALSPEC, "evaluate", "agent.yaml"], folder)
    runs = folder / ".evalspec" / "runs"
    (run,) = (path for path in runs.iterdir() if not path.is_symlink())
    for number in range(RUNS - 1):
        shutil.copytree(run, runs / f"20260101T{number:06}.000Z-{number:08x}")
    costs = interleave({"list": [EVALSPEC, "runs", "list"]}, rounds, folder)
    print_goal(f"runs list of {RUNS:,} runs, CPU", cpu(costs["list"]), 0.5, " s")


def measure_hits(folder: Path) -> None:
    """Measure the disk space of a retriever's run with many hits, compared with its corpus."""
    text = "A parcel to the mainland takes two working days, to an island four. " * 16
    documents = [{"id": f"d{n}", "text": f"Parcel {n % HITS} of {n}. {text}"} for n in range(10 * HITS)]
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    with (folder / "queries.jsonl").open("w") as lines:
        for n in range(QUERIES):
            query = {"id": f"q{n}", "input": f"parcel {n % HITS} mainland", "expected": "", "relevant": [f"d{n}"]}
            lines.write(json.dumps(query) + "\n")
    (folder / "agent.yaml").write_text(CORPUS)
    run_child([EVALSPEC, "evaluate", "agent.yaml"], folder)
    taken = sum(path.stat().st_size for path in folder.glob(".evalspec/runs/2*/*"))
    corpus = (folder / "corpus.jsonl").stat().st_size
    print(f"{QUERIES} queries × {HITS} hits: the run takes {taken / 1e6:.1f} MB, its corpus {corpus / 1e6:.1f} MB")
    print_goal("the run against its corpus", taken / corpus, 3, " ×")


_BOMB = _make_bomb()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--lines", type=int, default=1_000_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        measure_reply(folder, given.rounds)
        measure_list(folder / "listed", given.rounds)
        measure_hits(folder / "hits")
        _write_lines(folder / "large.jsonl", given.lines)
        measure_validate(folder, given.lines, given.rounds)
        measure_convert(folder, given.lines)
    print(describe_machine("pyarrow"))


if __name__ == "__main__":
    main()
