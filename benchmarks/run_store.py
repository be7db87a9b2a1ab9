"""Measure the cost of the run log per sample, and the time to resume a killed run of 100,000 samples.

evalspec's store writes the log in this process, with replies of the size of write_project's contexts. The agent
measures the time to the first question: from the start of `evalspec evaluate --resume` to the first request.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import chdir
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from harness import ENVIRONMENT, EVALSPEC, describe_machine, print_goal, print_table, write_project

from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model import AgentReply, Exchange, Score
from evalspec.model.log import ReplyRecord, ScoresRecord
from evalspec.runs.planning.build import Plan, build_plan
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.outlining import outline_plan
from evalspec.runs.runner.fingerprint import compute_fingerprint
from evalspec.runs.runner.session import begin_run
from evalspec.runs.store.run_store import RunStore

LEFT = 10
"""Number of samples that the killed run had not sent."""

ANSWER = "To the mainland a parcel takes two working days, to an island four. " * 6


class Agent(ThreadingHTTPServer):
    """An agent that answers immediately, and records the time of the first question and the CPU time of the client."""

    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asking = 0
        self.first: tuple[float, float] | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, Agent)
        self.server.first = self.server.first or (time.perf_counter(), _cpu_of(self.server.asking))
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"response": "two working days"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def _cpu_of(process: int) -> float:
    """Return the CPU seconds of a running process (Linux only)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_killed_run(plan: Plan) -> tuple[float, Path]:
    """Write the log of a run that was killed near its end, and return the CPU milliseconds per sample."""
    now = datetime.now(UTC)
    session = begin_run(RunStore(Path(".evalspec")), plan, outline_plan(plan), compute_fingerprint(plan, now), now)
    samples = plan.datasets[0].samples[:-LEFT]
    with session.log as log:
        started = time.process_time()
        for sample in samples:
            reply = AgentReply(ANSWER, sample.retrieved_contexts, ("doc-1", "doc-2"), latency_ms=51.25)
            log.append(ReplyRecord.of("parcels", 1, Exchange(sample, reply)))
            log.append(ScoresRecord("parcels", sample.id, 1, {"string_match": Score.scored(1.0)}))
        spent = time.process_time() - started
    return spent * 1000 / len(samples), session.log.folder


def time_first_question(agent: Agent, folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds from the start of the command to the first question. Restores the run afterwards."""
    log = folder / "samples.jsonl"
    size = log.stat().st_size
    agent.first = None
    started = time.perf_counter()
    command = [EVALSPEC, "evaluate", "agent.yaml", "--resume", folder.name, "--json"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as child:
        agent.asking = child.pid
    if child.returncode or agent.first is None:
        sys.exit(f"the run was not resumed: exit code {child.returncode}")
    os.truncate(log, size)
    (folder / "report.json").unlink()
    asked, spent = agent.first
    return asked - started, spent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--samples", type=int, default=100_000)
    chosen = options.parse_args()
    agent = Agent()
    url = f"http://127.0.0.1:{agent.server_address[1]}"
    rows, costs, wall, cpu = [], [], 0.0, 0.0
    for count in (chosen.samples // 10, chosen.samples):
        with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
            write_project(Path(), count, url)
            plan = build_plan(load_manifest(Path("agent.yaml")), RunOptions())
            found = [write_killed_run(plan) for _ in range(3)]
            costs.append(median(cost for cost, _ in found))
            wall, cpu = map(
                median, zip(*(time_first_question(agent, found[-1][1]) for _ in range(chosen.rounds)), strict=True)
            )
            size = (found[-1][1] / "samples.jsonl").stat().st_size / 2**20
        rows.append([f"{count:,}", f"{costs[-1]:.3f}", f"{size:.0f}", f"{wall:.2f}", f"{cpu:.2f}"])
    print(f"{describe_machine('pydantic')}; medians of {chosen.rounds} rounds, of 3 for the log\n")
    print_table(["samples", "log: CPU ms / sample", "log MiB", "resume: s to the first question", "CPU s"], rows)
    print()
    print_goal("the log, CPU ms / sample", max(costs), 0.15)
    print_goal("the log of ten times the samples, per sample, relative to the smaller", costs[1] / costs[0], 1.25, " ×")
    print_goal(f"resume of {chosen.samples:,}: first question", wall, 3, " s")
    print_goal("the same in CPU, which depends less on other load", cpu, 3, " s")


if __name__ == "__main__":
    main()
