"""An agent that is a function of this process: whatever it does is at most a failed reply."""

import asyncio
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import pytest

from evalspec.api import public as api
from evalspec.base.errors import StoreError


@pytest.fixture
def qa(project):
    """A project with twelve samples and no url."""
    project.samples(12)
    project.write()
    return project


def errors_of(run):
    return {sample.error for sample in run.datasets[0].samples}


def test_every_call_has_a_thread_and_its_own_time(qa):
    all_at_once = threading.Barrier(12)
    run = api.evaluate("agent.yaml", agent=lambda question: str(all_at_once.wait()), concurrency=12, timeout=60)
    assert errors_of(run) == {None}
    run = api.evaluate("agent.yaml", agent=lambda question: time.sleep(0.6) or "Paris", concurrency=1, timeout=6)
    assert errors_of(run) == {None}, "all together take longer than one may"


def test_calls_that_never_return_hold_nothing(qa):
    program = """
import threading
from evalspec.api import public as api
release, calls = threading.Event(), iter(range(100))
def agent(question):
    if next(calls) < 6:
        release.wait()
    return "Paris"
run = api.evaluate("agent.yaml", agent=agent, concurrency=6, timeout=6)
print(sum(sample.error is None for sample in run.datasets[0].samples))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("6\n", ""), "and the process ends"


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")


CIRCULAR: dict[str, Any] = {"response": "x"}
CIRCULAR["usage"] = CIRCULAR
RAISED = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    asyncio.CancelledError(),
    TimeoutError("the database"),
    BaseExceptionGroup("several", [SystemExit()]),
    pytest.fail.Exception("no"),
    Unspeakable(),
    StoreError("not ours"),
]
RETURNED = [
    ({1: 2, "response": "x"}, "unknown key '1'"),
    (CIRCULAR, "Circular"),
    (api.evaluate, "type function"),
    ({"response": {("a",): 1}}, "TypeError"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_a_function_raises_fails_its_sample(qa, error, kind):
    if kind == "async" and isinstance(error, KeyboardInterrupt):
        pytest.skip("in the thread of the event loop this is Ctrl-C")

    def agent(question):
        raise error

    async def later(question):
        raise error

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = api.evaluate("agent.yaml", agent=agent if kind == "sync" else later)
    (said,) = errors_of(run)
    name = "RuntimeError" if kind == "async" and isinstance(error, StopIteration) else type(error).__name__
    assert f"raised {name}" in said and "took longer" not in said
    assert qa.capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("result", "said"), RETURNED, ids=[said for _, said in RETURNED])
def test_whatever_a_function_returns_fails_its_sample(qa, result, said):
    run = api.evaluate("agent.yaml", agent=lambda question: result)
    assert said in next(iter(errors_of(run)))


def test_what_progress_raises_is_raised_as_it_is(qa):
    def progress(step):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        api.evaluate("agent.yaml", agent=lambda question: "Paris", progress=progress)


def test_a_cancelled_run_stops(qa):
    calls, is_over = [], threading.Event()

    async def cancel():
        task = asyncio.create_task(
            api.aevaluate("agent.yaml", agent=lambda q: calls.append(q) or is_over.wait(), concurrency=1)
        )
        while not calls:
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancel())
    finally:
        is_over.set()
    assert len(calls) == 1


def test_ctrl_c_in_a_notebook_stops_the_run(qa):
    program = """
import asyncio, signal, threading, time
from evalspec.api import public as api
calls = []
def agent(question):
    calls.append(question)
    if len(calls) == 3:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(0.1)
    return "Paris"
async def notebook():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        api.evaluate("agent.yaml", agent=agent, concurrency=1, repeat=100)
    except KeyboardInterrupt:
        made = len(calls)
        time.sleep(0.5)
        print("stopped", 3 <= made == len(calls))
asyncio.run(notebook())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert (done.stdout, done.stderr) == ("stopped True\n", "")


def test_an_agent_that_changes_the_folder_loses_no_run(qa, monkeypatch):
    (qa.folder / "elsewhere").mkdir()
    run = api.evaluate("agent.yaml", agent=lambda question: monkeypatch.chdir(qa.folder / "elsewhere") or "Paris")
    assert api.load_run(run.id, store=qa.folder / ".evalspec") == run
    assert not list((qa.folder / "elsewhere").iterdir())
