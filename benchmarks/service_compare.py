"""Measure the page that compares two large runs: until a worker has compared them, and from then on.

python benchmarks/service_compare.py --data /tmp/compare-data
"""

import argparse
import os
import shutil
import time
from pathlib import Path
from statistics import median

from harness import describe_machine, print_goal

import evalspec
from service import WORDS, Server, write_samples

WAITING = "A worker compares these runs"
FIRST_SECONDS, LATER_MS = 10, 200


def prepare(folder: Path, samples: int) -> list[str]:
    """A project with two runs of so many samples, whose ids are returned, oldest first."""
    runs = folder / ".evalspec" / "runs"
    if not runs.exists():
        write_samples(folder, samples)
        for share in (3, 4):
            evalspec.evaluate(folder / "agent.yaml", agent=build_agent(share), store=runs.parent, concurrency=20)
    return sorted(path.name for path in runs.glob("2*"))


def build_agent(share: int):
    wrong = f"Not Paris. {' '.join(WORDS * 5)}"
    return lambda question: "Paris" if len(question) % share else wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True, help="folder of the data, created on first use")
    options.add_argument("--samples", type=int, default=100_000)
    given = options.parse_args()
    given.data.mkdir(exist_ok=True)
    baseline, candidate = prepare(given.data, given.samples)
    print(f"{describe_machine('fastapi', 'uvicorn', 'sqlalchemy')}; load {os.getloadavg()[0]:.1f}\n")
    database = given.data / "service.db"
    database.unlink(missing_ok=True)
    shutil.rmtree(given.data / ".evalspec" / "index", ignore_errors=True)
    server = Server({"shop": given.data}, f"sqlite:///{database}", given.data / "server.log")
    server.start()
    try:
        with server.client("read", namespaces=("shop",)) as client:
            place = f"/compare?baseline={baseline}&candidate={candidate}"
            client.get("/v1/runs")
            started = time.perf_counter()
            while WAITING in client.get(place).text:
                time.sleep(0.1)
            print_goal("first comparison", time.perf_counter() - started, FIRST_SECONDS, " s")
            again = median(measure(client, place) for _ in range(20))
            print_goal("the same again, median of 20", again, LATER_MS, " ms")
    finally:
        server.stop()


def measure(client, place: str) -> float:
    started = time.perf_counter()
    assert client.get(place).status_code == 200
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    main()
