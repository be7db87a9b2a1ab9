"""The queue: claims, leases, fences and limits, on both databases."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from evalspec.service import jobs, workers
from evalspec.service.database import read_clock
from evalspec.service.jobs import JobStatus, LeaseLost
from evalspec.service.lease_watch import LeaseWatch
from evalspec.service.problems import ApiProblem
from evalspec.service.settings import ServiceLimits

BOTH = {"shop": 100, "docs": 100}


@pytest.fixture
def add(engine):
    def enqueue(namespace="shop", calls=1, limits=None):
        id = jobs.create_id("run")
        given = limits or ServiceLimits()
        return jobs.enqueue(engine, namespace, "run", {}, "ana", id=id, calls=calls, limits=given)

    return enqueue


def test_the_oldest_job_is_claimed_once(engine, add):
    added = [add().id for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda n: jobs.claim(engine, f"w{n}", BOTH, 60).id, range(20)))
    assert sorted(claimed) == sorted(added)
    assert jobs.claim(engine, "w", BOTH, 60) is None


def test_a_job_whose_worker_is_gone_is_taken_over_and_the_first_worker_can_write_nothing(engine, add):
    add()
    first = jobs.claim(engine, "first", BOTH, 0.0)
    second = jobs.claim(engine, "second", BOTH, 60)
    assert (second.id, second.fence, second.stalls) == (first.id, first.fence + 1, 1)
    for write in (
        lambda: jobs.renew(engine, first, 60),
        lambda: jobs.finish(engine, first, JobStatus.COMPLETED, result={"runId": "x"}),
        lambda: jobs.note_run(engine, first, "x"),
    ):
        with pytest.raises(LeaseLost):
            write()
    jobs.release(engine, first, stalled=True)
    held = jobs.find_job(engine, "shop", first.id)
    assert (held.status, held.worker, held.run_id) == ("running", "second", None)
    jobs.finish(engine, second, JobStatus.COMPLETED, result={"runId": "y"})
    assert jobs.find_job(engine, "shop", first.id).result == {"runId": "y"}


def test_a_clock_that_was_set_back_delays_no_takeover(engine, add, monkeypatch):
    now, ahead = [0.0], read_clock
    lost, alive = add().id, add().id
    watch = LeaseWatch(60, clock=lambda: now[0])
    monkeypatch.setattr(jobs, "read_clock", lambda connection: ahead(connection) + 3600)
    jobs.claim(engine, "gone", BOTH, 60)
    held = jobs.claim(engine, "alive", BOTH, 60)
    monkeypatch.setattr(jobs, "read_clock", ahead)
    assert jobs.claim(engine, "w", BOTH, 60, watch) is None
    for now[0] in (30.0, 60.0):
        jobs.renew(engine, held, 600)  # of a worker with longer leases, which is distant too
        assert jobs.claim(engine, "w", BOTH, 60, watch) is None
    now[0] = 61.0
    most = {"shop": 2, "docs": 2}
    taken = jobs.claim(engine, "w", most, 60, watch)
    assert (taken.id, taken.fence, taken.stalls) == (lost, 2, 1)
    assert jobs.claim(engine, "w2", most, 60, watch) is None
    assert jobs.find_job(engine, "shop", alive).worker == "alive"


def test_progress_forgives_lost_workers_and_a_job_that_only_loses_them_fails(engine, add):
    add()
    for _ in range(jobs.MOST_STALLS - 1):
        jobs.claim(engine, "w", BOTH, 0.0)
    jobs.renew(engine, jobs.claim(engine, "w", BOTH, 0.0), 0.0, {"queried": 1})
    for _ in range(jobs.MOST_STALLS):
        last = jobs.claim(engine, "w", BOTH, 0.0)
    assert jobs.claim(engine, "w", BOTH, 0.0) is None
    failed = jobs.find_job(engine, "shop", last.id)
    assert (failed.status, failed.error) == ("failed", "10 workers in a row were lost before any progress")


def test_a_namespace_runs_only_so_many_jobs_and_does_not_hold_up_others(engine, add):
    for namespace in ("shop", "shop", "shop", "docs"):
        add(namespace)
    most = {"shop": 2, "docs": 2}
    with ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(lambda n: jobs.claim(engine, f"w{n}", most, 60), range(4)))
    assert sorted(job.namespace for job in claimed if job) == ["docs", "shop", "shop"]


def test_a_pending_job_is_cancelled_at_once_and_a_running_one_by_its_worker(engine, add):
    pending = add()
    assert jobs.cancel(engine, "shop", pending.id).status == "cancelled"
    running = add() and jobs.claim(engine, "w", BOTH, 60)
    assert jobs.cancel(engine, "shop", running.id).status == "running"
    assert jobs.renew(engine, running, 60) is True
    jobs.finish(engine, running, JobStatus.CANCELLED)
    assert jobs.cancel(engine, "shop", running.id).status == "cancelled"
    assert jobs.cancel(engine, "docs", running.id) is None, "another namespace's job does not exist"


def test_a_cancelled_job_whose_worker_is_gone_is_not_started_again(engine, add):
    add()
    lost = jobs.claim(engine, "w", BOTH, 0.0)
    jobs.cancel(engine, "shop", lost.id)
    assert jobs.claim(engine, "w2", BOTH, 60) is None
    assert jobs.find_job(engine, "shop", lost.id).status == "cancelled"


def test_limits_of_a_namespace(engine, add):
    limits = ServiceLimits(queued_jobs=2, calls_a_day=10)
    add(calls=6, limits=limits)
    with pytest.raises(ApiProblem, match="10 calls in 24 hours; 6 are used or planned, and this job needs 5"):
        add(calls=5, limits=limits)
    add(calls=4, limits=limits)
    with pytest.raises(ApiProblem, match="2 jobs of namespace shop are waiting"):
        add(calls=0, limits=limits)
    add("docs", calls=9, limits=limits)


def test_one_job_at_a_time_writes_a_run(engine):
    def resume(_):
        try:
            id = jobs.create_id("run")
            jobs.enqueue(engine, "shop", "run", {}, "ana", id=id, calls=1, limits=ServiceLimits(), run_id="a")
        except ApiProblem as problem:
            return problem.status
        return 202

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(resume, range(8))) == [202, *[409] * 7]
    assert resume(0) == 409
    jobs.finish(engine, jobs.claim(engine, "w", BOTH, 60), JobStatus.COMPLETED)
    assert resume(0) == 202


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_job_whose_process_is_killed_before_it_knows_what_to_do_is_started_again(engine, add, settings, monkeypatch):
    send = workers.send_line

    def kill_and_send(process, line):
        process.kill()
        process.wait()
        send(process, line)

    monkeypatch.setattr(workers, "send_line", kill_and_send)
    add()
    workers._execute(engine, settings, jobs.claim(engine, "w", BOTH, 60), threading.Event())
    again = jobs.claim(engine, "w", BOTH, 60)
    assert (again.error, again.stalls) == (None, 1)


def test_workers_and_checks_start_without_the_web_framework():
    modules = "evalspec.service.worker_process", "evalspec.service.push_check"
    code = f"import sys, {', '.join(modules)}; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
