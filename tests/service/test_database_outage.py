"""PostgreSQL goes away under a running server and worker, and comes back."""

import json
import signal
import threading
from collections import Counter

import pytest

import evalspec
from servers.postgres import open_cluster
from servers.service import Server, count_takeovers, processes_of, wait_for, write_project

SAMPLES, AT_ONCE = 24, 2
PATHS = ["/v1/runs", "/v1/jobs", "/v1/audit", "/v1/gold", "/runs", "/datasets", "/gold"]


class Visitors:
    """Clients, each of which asks one route or page again and again until the end."""

    def __init__(self, server, paths):
        self._stop, self._server, self.answers = threading.Event(), server, []
        self.paths = set(paths)
        self._threads = [threading.Thread(target=self._ask, args=(path,)) for path in paths]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, path):
        headers = {} if path.startswith("/v1") else {"Accept": "text/html"}
        with self._server.client("admin") as client:
            while not self._stop.wait(0.25):
                self.answers.append((path, client.get(path, headers=headers)))

    def all_get(self, status):
        """Wait until each of them gets an answer of this status from now on."""
        first = len(self.answers)
        wait_for(lambda: {path for path, one in self.answers[first:] if one.status_code == status} == self.paths)


def follow(server, place, states):
    """Follow a job to its end by one stream of events."""
    with server.client("admin") as client, client.stream("GET", f"{place}/events", timeout=90) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                states.append(json.loads(line.removeprefix("data: ")))


@pytest.mark.parametrize("outlasts_lease", [False, True])
def test_postgresql_restarts_under_a_run_and_its_visitors(projects, agent, tmp_path, outlasts_lease):
    write_project(projects["shop"], agent.url, samples=SAMPLES)
    agent.delay = 0.4
    agent.answer_only(SAMPLES // 2)  # the run does not end before the database is back
    with open_cluster() as cluster:
        lease = "10" if outlasts_lease else "60"
        server = Server(projects, cluster.create_database(), tmp_path / "server.log", "--lease", lease).start()
        with server.client("admin") as client:
            place = client.post("/v1/runs", json={"concurrency": AT_ONCE}).headers["Location"]
            wait_for(lambda: len(agent.requests) >= 2)
            states = []
            follower = threading.Thread(target=follow, args=(server, place, states))
            with Visitors(server, [*PATHS, place]) as visitors:
                visitors.all_get(200)
                follower.start()
                wait_for(lambda: states)
                cluster.stop(signal.SIGQUIT if outlasts_lease else signal.SIGINT)
                visitors.all_get(503)
                assert client.get("/readyz").status_code == 503
                assert client.post("/v1/runs", json={}).status_code == 503
                if outlasts_lease:
                    wait_for(lambda: not processes_of(server, "job_process"))
                cluster.start()
                visitors.all_get(200)
                agent.delay = 0
                agent.answer_only(None)
                job = wait_for(lambda: (found := client.get(place).json())["finished_at"] and found)
                follower.join(60)
        failed = [one for _, one in visitors.answers if one.status_code != 200]
        assert {(one.status_code, one.headers["Retry-After"]) for one in failed} == {(503, "5")}
        assert all("the database does not answer; try again soon" in one.text for one in failed)
        takeovers = count_takeovers(server)
        assert server.stop() == 0
    assert states[-1] == job, "the stream survives, and sends the last state"
    assert (job["status"], job["progress"]["scored"]) == ("completed", SAMPLES)
    assert takeovers == int(outlasts_lease)
    asked = Counter(request.body["message"] for request in agent.requests if request.body)
    assert sum(asked.values()) - SAMPLES <= AT_ONCE * takeovers, "only calls in flight are repeated"
    runs = [folder.name for folder in (projects["shop"] / ".evalspec" / "runs").glob("2*")]
    assert runs == [job["run_id"]]
    assert evalspec.load_run(runs[0], store=projects["shop"] / ".evalspec").datasets[0].metrics["exact_match"].scored
    assert "Traceback" not in (tmp_path / "server.log").read_text()
