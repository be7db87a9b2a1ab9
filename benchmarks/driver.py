"""What a record costs the driver of a run on nodes: processor, log and messages. No Ray, no agent and no judge.

    python benchmarks/driver.py SAMPLES METRICS

The driver is the real one. Its nodes are a stand-in that answers each attempt at once with a reply of 1,000 characters,
and scores with a reason of 200. Only the driver's share of the processor's time is counted.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model import AgentReply, Exchange, Score, ScoreStatus
from evalspec.model.log import InputRecord, ReplyRecord, ScoresRecord
from evalspec.runs.cluster.driver import ClusterWorker
from evalspec.runs.cluster.messages import Done, FoundRecord, Task, decode, encode, hide, reveal
from evalspec.runs.planning.build import build_plan
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.runner.execute import execute
from evalspec.runs.store.run_store import RunStore

FOUND_AT_ONCE = 50


class Nodes:
    """A stand-in for bridge and nodes, in place of a stream to them. `bytes`: sent in both directions."""

    def __init__(self, redaction):
        self.redaction = redaction
        self.found, self.bytes, self.seconds = [], 0, 0.0

    def write(self, data):
        """Work on tasks, outside of the driver's time."""
        started = time.process_time()
        self.bytes += len(data)
        for task in decode(data[4:]):
            if isinstance(task, Task):
                self.found += self.work(task)
        self.seconds += time.process_time() - started

    def work(self, task):
        record = reveal(task.sample, self.redaction, InputRecord)
        exchange = Exchange(record.sample, AgentReply("a word " * 143, latency_ms=200.0))
        scores = {name: Score(ScoreStatus.SCORED, 0.5, "because " * 25) for name in task.metrics}
        yield FoundRecord(task.job, hide(ReplyRecord.of(record.dataset, task.job.attempt, exchange), self.redaction))
        scored = ScoresRecord(record.dataset, record.sample.id, task.job.attempt, scores)
        yield FoundRecord(task.job, hide(scored, self.redaction))
        yield Done(task.job)

    async def drain(self):
        """Nothing waits."""


def write_project(folder, samples, metrics):
    names = [f"m{number}" for number in range(metrics)]
    (folder / "own.py").write_text("def half(exchange):\n    return 0.5\n\ndef answer(_question):\n    return 1\n")
    entries = [{"name": name, "scorer": "own:half", "range": [0, 1]} for name in names]
    lines = ({"id": f"s{n}", "input": f"What is the rule of {n}? " * 8, "expected": "A rule."} for n in range(samples))
    (folder / "qa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    datasets = [{"name": "qa", "path": "$file:qa.jsonl", "metrics": entries}]
    spec = {"api": {"python": "own:answer"}, "evaluation": {"datasets": datasets}}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "driver"}}
    (folder / "agent.yaml").write_text(json.dumps({**head, "spec": spec}))


async def main(samples, metrics):
    from evalspec.api.evaluation import Evaluation

    plan = build_plan(load_manifest(Path("agent.yaml")), RunOptions(concurrency=64))
    nodes = Nodes(plan.loaded.references.redaction)

    @asynccontextmanager
    async def open_nodes(plan, receiver, progress, _tracing=None):
        worker = ClusterWorker(plan, receiver, progress, nodes, asyncio.Semaphore(512), None)

        async def listen():
            while True:
                await asyncio.sleep(0)
                found, nodes.found = nodes.found, []
                for start in range(0, len(found), FOUND_AT_ONCE):
                    started = time.process_time()
                    data = encode(found[start : start + FOUND_AT_ONCE])
                    nodes.seconds += time.process_time() - started
                    nodes.bytes += len(data)
                    for message in decode(data):
                        worker.receive(message)

        listening = asyncio.create_task(listen())
        yield worker
        listening.cancel()

    session = Evaluation(plan, RunStore(Path(".evalspec"))).begin()
    started, began = time.process_time(), time.perf_counter()
    with session.log as log:
        await execute(session, Silent(), None, open_nodes)
        spent, passed = time.process_time() - started - nodes.seconds, time.perf_counter() - began
        stored = sum(path.stat().st_size for path in log.place.iterdir() if path.is_file())
    records = 2 * samples
    print(f"{samples} samples x {metrics} metrics, {records} records, {passed:.1f} s")
    print(f"driver: {1e6 * spent / samples:.0f} us of processor a sample, {1e6 * spent / records:.0f} a record")
    print(f"log: {stored / samples:.0f} bytes a sample, {stored / records:.0f} a record")
    print(f"messages: {nodes.bytes / samples:.0f} bytes a sample")
    print(f"most memory: {peak_memory() >> 20} MiB")


def peak_memory():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Silent:
    """Shows no progress."""

    def __call__(self, *, asked, scored, failed): ...
    def ingested(self, done, total): ...
    def judge_waits(self, seconds): ...
    def say(self, line): ...


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_project(Path(place), int(sys.argv[1]), int(sys.argv[2]))
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
