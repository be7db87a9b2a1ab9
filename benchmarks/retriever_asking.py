"""Send 225 queries, ten at a time, to a retriever that takes 20 ms, and compare with the ideal time.

The retriever, a separate process, measures the span from the first request to the last reply. Every expected document
is among the hits, so no query is searched deeper.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import EVALSPEC, HERE, PYTHON, Cost, cpu, describe_machine, print_goal, print_table, run_child, wall
from slow_agent import look, running_agent

QUERIES, LATENCY, CONCURRENCY = 225, 0.02, 10
IDEAL = math.ceil(QUERIES / CONCURRENCY) * LATENCY
MANIFEST = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {{name: benchmark, version: 1.0.0, description: A generated project}}
spec:
  evaluation:
    retrievers:
      slow:
        http:
          url: {url}
          search:
            path: /search
            request: {{query: "{{{{query}}}}", top_k: "{{{{topK}}}}"}}
            response: {{ids: "$.hits[*].id"}}
    datasets: [{{name: queries, path: queries.jsonl, retriever: slow, metrics: [nDCG@10, Recall@10]}}]
    thresholds: {{Recall@10: 1.0}}
    ciGate: true
"""


def write_project(folder: Path, url: str) -> None:
    """Write a manifest with the retriever, and the queries."""
    queries = (
        {"id": f"q{n}", "input": f"What of {n}?", "expected": "", "relevant": ["d3"]} for n in range(1, QUERIES + 1)
    )
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "agent.yaml").write_text(MANIFEST.format(url=url))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    rounds = options.parse_args().rounds
    spans: dict[str, list[float]] = {}
    costs: dict[str, list[Cost]] = {}
    with running_agent(LATENCY) as url, tempfile.TemporaryDirectory() as scratch:
        write_project(Path(scratch), url)
        bare = [PYTHON, str(HERE / "bare_httpx.py"), f"{url}/search", str(QUERIES), str(CONCURRENCY), "clients"]
        commands = {
            "evalspec": [EVALSPEC, "evaluate", "agent.yaml", "-j", str(CONCURRENCY)],
            "bare httpx, client per worker": bare,
        }
        for number in range(rounds + 1):
            for name, command in commands.items():
                look(url)
                cost = run_child(command, scratch)
                seen = look(url)
                if seen["requests"] != QUERIES:
                    sys.exit(f"{name}: {seen['requests']} requests were made")
                if number:
                    spans.setdefault(name, []).append(seen["span"])
                    costs.setdefault(name, []).append(cost)
    print(f"{describe_machine('httpx')}; {QUERIES} queries, {CONCURRENCY} at once; medians of {rounds} rounds\n")
    rows = [
        [
            name,
            f"{median(spans[name]):.3f}",
            f"{median(spans[name]) / IDEAL:.2f} ×",
            f"{wall(found):.2f}",
            f"{cpu(found):.2f}",
        ]
        for name, found in costs.items()
    ]
    print_table([f"ideal {IDEAL:.2f} s", "span s", "of the ideal", "wall s", "CPU s"], rows)
    print()
    print_goal("first request to last reply, against the ideal", median(spans["evalspec"]) / IDEAL, 1.3, " ×")


if __name__ == "__main__":
    main()
