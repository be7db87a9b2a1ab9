"""Measure the service: 10,000 runs and one of 100,000 samples, read by API and as pages, by one client and by 20.

On SQLite and on PostgreSQL. One client shows what a request costs: the median wall time, and CPU time of the server.

    python benchmarks/service.py --data /tmp/service-data

The data are created on first use, which takes some minutes. PostgreSQL is a throwaway cluster of the system's binaries.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from statistics import median

from harness import describe_machine, print_goal, print_table

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

import evalspec  # noqa: E402
from servers.postgres import open_cluster  # noqa: E402
from servers.service import Server, write_project  # noqa: E402
from stored_log import seal_line  # noqa: E402

GOALS = {"list": 50, "run": 100, "samples": 100, "runs_page": 100, "run_page": 100, "sample_page": 50}
"""Milliseconds: of the p95 of 20 clients, and 100 at most of the median of one."""
PAGES = 10
"""Runs whose pages are visited."""
SAMPLES, LARGE = 20, 100_000
EVALUATED = 100
"""Small runs that are evaluated. The others are copies under ids of their own."""
REQUESTS = 40
"""Of each kind, by one client."""
WORDS = ("refund", "invoice", "plan", "seat", "limit", "token", "export", "region", "backup", "audit", "holiday")


def write_samples(folder: Path, count: int) -> None:
    write_project(folder)
    chosen = random.Random(count)
    with (folder / "qa.jsonl").open("w") as file:
        for n in range(count):
            words = " ".join(chosen.choices(WORDS, k=40))
            sample = {"id": f"s{n}", "input": f"Question {n}: {words}?", "expected": "Paris"}
            more = {"tags": [f"tag{n % 50}"], "metadata": {"level": n % 5, "customer": f"c{n % 1000}"}}
            file.write(json.dumps(sample | more) + "\n")


def prepare(folder: Path, runs: int) -> None:
    """A project with so many small runs and a large one."""
    store = folder / ".evalspec"
    known = len(list((store / "runs").glob("2*"))) if store.exists() else 0
    text = " ".join(WORDS * 5)

    def agent(question: str) -> str:
        return "Paris" if len(question) % 3 else f"Not Paris. {text}"

    if known == 0:
        write_samples(folder, LARGE)
        evalspec.evaluate(folder / "agent.yaml", agent=agent, store=store, concurrency=20)
        known = 1
    write_samples(folder, SAMPLES)
    for _ in range(known, min(runs, EVALUATED) + 1):
        evalspec.evaluate(folder / "agent.yaml", agent=agent, store=store)
    small = sorted((store / "runs").glob("2*"))[1:]
    for number in range(len(small), runs):
        copy_run(small[number % EVALUATED], number)


def copy_run(run: Path, number: int) -> None:
    """Copy a run to one with another id, whose report and log agree."""
    copy = run.with_name(f"{run.name[:-8]}{number:08x}")
    shutil.copytree(run, copy)
    report = (run / "report.json").read_bytes().replace(run.name.encode(), copy.name.encode())
    (copy / "report.json").write_bytes(report)
    *lines, last = (run / "samples.jsonl").read_bytes().splitlines(keepends=True)
    record = json.loads(last) | {"run": copy.name, "sha256": sha256(report).hexdigest()}
    place = record.pop("number")
    del record["crc"]
    (copy / "samples.jsonl").write_bytes(b"".join(lines) + seal_line(json.dumps(record), place).encode() + b"\n")


class Reader(threading.Thread):
    """A client that sends a request each second, with a connection that stays open."""

    def __init__(self, port: int, token: str, runs: list[str], large: str, seconds: float, seed: int) -> None:
        super().__init__()
        self.runs, self.large, self.seconds = runs, large, seconds
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}"}
        self.chosen = random.Random(seed)
        self.took: dict[str, list[float]] = defaultdict(list)
        self.failed: list[str] = []

    def run(self) -> None:
        began = time.monotonic() + self.chosen.random()
        for n in range(int(self.seconds)):
            time.sleep(max(0.0, began + n - time.monotonic()))
            self.ask(self.chosen.choice(list(GOALS)))
        self.connection.close()

    def ask(self, kind: str) -> None:
        path = getattr(self, f"ask_{kind}")()
        started = time.perf_counter()
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        answer.read()
        self.took[kind].append(1000 * (time.perf_counter() - started))
        if answer.status != 200:
            self.failed.append(f"{answer.status} {path}")

    def ask_list(self) -> str:
        return self.chosen.choice(["/v1/runs", "/v1/runs?verdict=NOT_GATED&dataset=qa", "/v1/runs?limit=100"])

    def ask_run(self) -> str:
        return f"/v1/runs/{self.chosen.choice([*self.runs, self.large])}"

    def ask_runs_page(self) -> str:
        return self.chosen.choice(["/runs", "/runs?verdict=NOT_GATED&dataset=qa"])

    def ask_run_page(self) -> str:
        return f"/runs/{self.chosen.choice([*self.runs[-PAGES:], self.large])}"

    def ask_sample_page(self) -> str:
        return f"/runs/{self.large}/sample?dataset=qa&id=s{self.chosen.randrange(LARGE)}"

    def ask_samples(self) -> str:
        word = self.chosen.choice(WORDS)
        filters = ["", "tag=tag7", f"text={word}", f"text=question {self.chosen.randrange(LARGE)}", "slice=level=3"]
        more = ["metric=exact_match&tag=tag3", f"slice=customer=c{self.chosen.randrange(1000)}&tag=tag1", "failed=true"]
        return f"/v1/runs/{self.large}/samples?{self.chosen.choice(filters + more).replace(' ', '%20')}"


def read_cpu(pid: int) -> float:
    """The CPU time of a process in ms, in steps of 10."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_alone(server: Server, runs: list[str], large: str) -> dict[str, str]:
    """What each kind of request costs without others: the median time, and the server's CPU time, in ms."""
    reader = Reader(server.port, server.token("read"), runs, large, 0, 0)
    costs = {}
    for kind in GOALS:
        before = read_cpu(server.process.pid)
        for _ in range(REQUESTS):
            reader.ask(kind)
        cpu = (read_cpu(server.process.pid) - before) / REQUESTS
        costs[kind] = f"{median(reader.took[kind]):.0f} / {cpu:.0f}"
        print_goal(f"median of {kind} for one client", median(reader.took[kind]), 100, " ms")
    assert not reader.failed, reader.failed[:3]
    return costs


def describe_sizes(folder: Path, database: str, runs: int) -> str:
    """Bytes for each small run and for each sample of the large one: of the files, the database and the index."""
    store = folder / ".evalspec"
    first, *_, last = sorted((store / "runs").glob("2*"))
    kept = count_bytes(store / "index") / LARGE if (store / "index").exists() else 0
    rows = f"database {measure_database(database) / runs:,.0f} B a run"
    sizes = [f"{count_bytes(run) / samples:,.0f} of {samples:,}" for run, samples in ((last, SAMPLES), (first, LARGE))]
    return f"{rows}; files, B a sample: {', '.join(sizes)}; index of samples {kept:,.0f} B a sample"


def count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_database(url: str) -> int:
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    import psycopg

    with psycopg.connect(url) as connection:
        ((size,),) = connection.execute("SELECT pg_database_size(current_database())").fetchall()
    return int(size)


def read_peak(pid: int) -> float:
    """The peak resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measure_start(server: Server) -> float:
    started = time.perf_counter()
    server.start()
    return time.perf_counter() - started


def wait_until_indexed(server: Server, count: int) -> float:
    """Seconds until all runs are listed and the samples of the large one can be read."""
    started = time.perf_counter()
    with server.client("read", namespaces=("shop",)) as client:
        client.timeout = 900
        listed: list[str] = []
        cursor = None
        while True:
            page = client.get("/v1/runs", params={"limit": 500, **({"cursor": cursor} if cursor else {})}).json()
            listed += [run["runId"] for run in page["runs"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert len(listed) == count, len(listed)
        while client.get(f"/v1/runs/{listed[-1]}/samples").status_code == 503:
            time.sleep(0.2)
    return time.perf_counter() - started


def measure(folder: Path, database: str, name: str, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The row of 20 clients, and that of one."""
    server = Server({"shop": folder}, database, folder / f"{name}.log")
    runs = sorted(path.name for path in (folder / ".evalspec" / "runs").glob("2*"))
    shutil.rmtree(folder / ".evalspec" / "index", ignore_errors=True)
    server.start()
    indexed = wait_until_indexed(server, len(runs))
    peaks = [read_peak(server.process.pid)]
    print(f"{name}: {read_cpu(server.process.pid) / 1000:.1f} s of CPU time to index {len(runs):,} runs")
    print(f"{name}: {describe_sizes(folder, database, len(runs))}")
    server.stop()
    start = min(measure_and_stop(server) for _ in range(3))
    server.start()
    alone = measure_alone(server, runs[1:], runs[0])
    tokens = [server.token("read") for _ in range(options.clients)]
    clients = [
        Reader(server.port, token, runs[1:], runs[0], options.seconds, seed) for seed, token in enumerate(tokens)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    peak = max(*peaks, read_peak(server.process.pid))
    server.stop()
    row = [name, f"{start:.2f}", f"{indexed:.1f}", f"{peak:.0f}"]
    for kind, goal in GOALS.items():
        took = sorted(value for client in clients for value in client.took[kind])
        p95 = took[int(0.95 * len(took))]
        row.append(f"{median(took):.0f} / {p95:.0f} / {took[-1]:.0f}")
        print_goal(f"{name}: p95 of {kind}", p95, goal, " ms")
    print_goal(f"{name}: ready", start, 1.5, " s")
    print_goal(f"{name}: peak memory of the server", peak, 250, " MiB")
    failed = [failure for client in clients for failure in client.failed]
    print(f"{name}: {len(failed)} failed requests {failed[:3]}")
    return row, [name, *alone.values()]


def measure_and_stop(server: Server) -> float:
    took = measure_start(server)
    server.stop()
    return took


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True, help="folder of the data, created on first use")
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--clients", type=int, default=20)
    options.add_argument("--seconds", type=float, default=60)
    given = options.parse_args()
    prepare(given.data, given.runs)
    print(f"{describe_machine('fastapi', 'uvicorn', 'sqlalchemy')}; load {os.getloadavg()[0]:.1f}\n")
    measured = []
    database = given.data / "service.db"
    database.unlink(missing_ok=True)
    measured.append(measure(given.data, f"sqlite:///{database}", "SQLite", given))
    with contextlib.suppress(subprocess.CalledProcessError), open_cluster() as cluster:
        measured.append(measure(given.data, cluster.create_database(), "PostgreSQL", given))
    print()
    many, one = zip(*measured, strict=True)
    print_table(
        ["database", "ready s", "indexed s", "peak MiB", *(f"{kind} ms p50 / p95 / max" for kind in GOALS)], many
    )
    print("\nOne client, ms: median / CPU time of the server")
    print_table(["database", *GOALS], one)


if __name__ == "__main__":
    main()
