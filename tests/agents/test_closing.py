"""Agents in Python with `close` or `aclose`: closed once, at the end, and never at the cost of a verdict."""

import asyncio
import importlib
import signal
import subprocess
import sys
from types import ModuleType

import pytest

from evalspec.api import public as api
from evalspec.api.checking import check
from evalspec.targets.agents import call_thread

LOG = """
import asyncio, threading, time
def log(*words):
    with open("log", "a") as file:
        print(*words, file=file)
"""
CLASS = (
    LOG
    + """
class answer:
    def __init__(self):
        self.thread = threading.get_ident()
        log("open")
    def __call__(self, question):
        time.sleep(0.02)
        return "Paris"
    def close(self):
        assert self.thread == threading.get_ident()
        log("close")
"""
)
OBJECT = (
    LOG
    + """
class Bot:
    is_open = True
    def __call__(self, question):
        assert self.is_open
        return "Paris"
    stream = __call__
    async def aclose(self):
        await asyncio.sleep(0)
        self.is_open = False
        log("aclose")
    def close(self):
        log("close")
answer = Bot()
"""
)


@pytest.fixture
def bot(project):
    """A project whose agent is `bot.py`. `bot(code, name)` writes it and names the agent in it."""
    project.samples(4)

    def write(code, name="answer"):
        (project.folder / "bot.py").write_text(code)
        project.api["python"] = f"bot:{name}"
        project.write()
        return project

    return write


def logged(project):
    log = project.folder / "log"
    return log.read_text().split() if log.exists() else []


def notices(done):
    return [note for note in done.document["notes"] if "closed" in note]


def test_each_instance_of_a_class_is_closed_in_its_thread(bot):
    both = "BOTH = threading.Barrier(2)\n"  # otherwise one of the workers may have answered all before the other begins
    project = bot(CLASS.replace('log("open")', 'log("open")\n        BOTH.wait()') + both)
    done = project.evaluate("--json", "-j", "2")
    assert (done.code, notices(done)) == (0, [])
    assert logged(project) == ["open", "open", "close", "close"]


@pytest.mark.parametrize("name", ["answer", "answer.stream"])
def test_an_object_is_closed_once_and_is_new_for_the_next_run(bot, name):
    project = bot(OBJECT, name)
    for _ in range(2):
        done = project.evaluate("--json", "-j", "3")
        assert [sample["error"] for sample in done.document["datasets"][0]["samples"]] == [None] * 4
    assert logged(project) == ["aclose", "aclose"]


def test_an_object_of_the_caller_stays_open_but_instances_do_not(bot, monkeypatch):
    project = bot(OBJECT)
    monkeypatch.syspath_prepend(str(project.folder))
    scope = {}
    exec(OBJECT.replace("answer =", "own ="), scope)
    exec(CLASS, scope)
    for _ in range(2):
        assert {sample.error for sample in api.evaluate("agent.yaml", agent=scope["own"]).datasets[0].samples} == {None}
    assert logged(project) == []
    api.evaluate("agent.yaml", agent=scope["answer"], concurrency=1)
    assert logged(project) == ["open", "close"]


def test_an_object_of_a_module_that_the_process_imported_first_stays_open(bot, monkeypatch):
    project = bot(OBJECT)
    monkeypatch.syspath_prepend(str(project.folder))
    sys.modules.pop("bot", None)
    own = importlib.import_module("bot")
    assert project.evaluate().code == 0
    assert logged(project) == []
    assert sys.modules.pop("bot") is own


def test_an_object_is_closed_when_nothing_is_left_to_ask(bot):
    project = bot(OBJECT)
    done = project.evaluate("--json")
    assert project.evaluate("--resume", done.document["runId"]).code == 0
    assert logged(project) == ["aclose", "aclose"]


def test_an_object_that_the_process_imported_after_a_run_stays_open(bot, monkeypatch):
    project = bot(OBJECT)
    monkeypatch.syspath_prepend(str(project.folder))
    assert project.evaluate().code == 0
    sys.modules.pop("bot", None)
    own = importlib.import_module("bot")
    assert project.evaluate().code == 0
    assert logged(project) == ["aclose"]
    assert sys.modules["bot"] is own


def test_runs_at_the_same_time_have_an_object_each(bot):
    project = bot(OBJECT.replace("assert self.is_open\n", "time.sleep(0.05)\n        assert self.is_open\n"))

    async def evaluate_twice():
        return await asyncio.gather(*(api.aevaluate("agent.yaml", concurrency=number) for number in (1, 4)))

    for run in asyncio.run(evaluate_twice()):
        assert {sample.error for sample in run.datasets[0].samples} == {None}
    assert logged(project) == ["aclose", "aclose"]


def test_runs_of_threads_have_an_object_each(bot):
    bot(OBJECT.replace("assert self.is_open\n", "time.sleep(0.05)\n        assert self.is_open\n"))
    code = """
from concurrent.futures import ThreadPoolExecutor
import evalspec
def evaluate(number):
    return [sample.error for sample in evalspec.evaluate("agent.yaml", concurrency=number).datasets[0].samples]
with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(evaluate, range(1, 5))))
"""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{[[None] * 4] * 4}\n", (done.returncode, done.stderr)


def test_a_module_with_agent_and_metric_is_imported_once_a_run(bot):
    project = bot(OBJECT + "log('imported')\ndef is_warm(exchange):\n    return True\n")
    project.evaluation["datasets"][0]["metrics"] = [{"name": "warm", "scorer": "bot:is_warm"}]
    for _ in range(2):
        assert project.evaluate("--sample-size", "1").code == 0
    assert logged(project) == ["imported", "aclose"] * 2


def test_an_object_is_closed_beside_another_module_of_that_name(bot, monkeypatch):
    project = bot(OBJECT)
    others = ModuleType("bot")
    monkeypatch.setitem(sys.modules, "bot", others)
    assert project.evaluate().code == 0
    assert logged(project) == ["aclose"]
    assert sys.modules["bot"] is others


@pytest.mark.parametrize("act", ["pass", "await asyncio.sleep(30)"])
def test_an_async_instance_is_closed_in_the_task_that_called_it(bot, act):
    code = f"""
class answer:
    async def __call__(self, question):
        self.task = asyncio.current_task()
        {act}
        return "Paris"
    async def aclose(self):
        log("own" if self.task is asyncio.current_task() else "other")
"""
    project = bot(LOG + code)
    project.evaluate("-j", "2", "--timeout", "0.1" if "sleep" in act else "9")
    assert set(logged(project)) == {"own"}


def test_an_agent_that_cancels_its_task_loses_no_samples_in_silence(bot):
    code = "async def answer(question):\n    asyncio.current_task().cancel()\n    await asyncio.sleep(1)\n"
    done = bot(f"import asyncio\n{code}").evaluate("-j", "2")
    assert done.code == 3
    assert "evalspec: the evaluated code cancelled the task that called it" in done.err


def test_a_check_closes_its_instance(project):
    scope = {}
    exec(CLASS, scope)
    check(input="?", agent=scope["answer"], metrics={"string_match": 1}, expected="Paris")
    assert logged(project) == ["open", "close"]
    exec(CLASS + "        1 / 0", scope)
    with pytest.warns(RuntimeWarning, match="cannot be closed: ZeroDivisionError"):
        check(input="?", agent=scope["answer"], metrics={"string_match": 1}, expected="Paris")


FAILING = {
    "raise OSError('no disk')": "OSError: no disk",
    "raise SystemExit(3)": "SystemExit: 3",
    "raise asyncio.CancelledError": "CancelledError",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "time.sleep(5)": "it took longer than 0.2 s",
}


@pytest.mark.parametrize("kind", ["class", "object", "async"])
@pytest.mark.parametrize("act", FAILING)
def test_an_agent_that_cannot_be_closed_is_a_notice(bot, monkeypatch, kind, act):
    if kind == "async" and "Keyboard" in act:
        pytest.skip("in the thread of the event loop this is Ctrl-C")
    monkeypatch.setattr(call_thread, "CLOSE_SECONDS", 0.2 if "sleep" in act else 60)
    act = act.replace("time.sleep", "await asyncio.sleep") if kind == "async" else act
    method = "async def aclose" if kind == "async" else "def close"
    code = f"""
import asyncio, time
class Bot:
    def __call__(self, question):
        return "Paris"
    {method}(self):
        {act}
answer = {"Bot" if kind == "class" else "Bot()"}
"""
    done = bot(code).evaluate("--json", "-j", "2")
    said = FAILING[act.replace("await asyncio.sleep", "time.sleep")]
    assert (done.code, notices(done)) == (0, [f"the agent cannot be closed: {said}"])


def test_an_instance_that_exceeds_the_timeout_is_closed_at_once(bot):
    code = CLASS.replace("time.sleep(0.02)", "released.wait()").replace("assert", "released.set() #")
    project = bot(code + "\nreleased = threading.Event()")
    project.evaluate("-j", "1", "--timeout", "0.3")
    log = logged(project)
    assert log.count("close") == log.count("open") > 1
    assert log.index("close") < 4


BUSY = (CLASS.replace("0.02", "30").replace("assert", "#"), OBJECT.replace("assert self", "time.sleep(30)#"))


@pytest.mark.parametrize("code", BUSY, ids=["class", "object"])
def test_ctrl_c_closes(bot, code):
    call = "def __call__(self, question):"
    project = bot(code.replace(call, f"{call}\n        log('called')"))
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "-j", "1"]
    with subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        while "called" not in logged(project):
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
    assert run.returncode == 130
    assert [word for word in logged(project) if "close" in word] in (["close"], ["aclose"])


def test_a_run_that_fails_closes_and_says_what_went_wrong_there(bot, monkeypatch):
    bot(CLASS.replace("assert self", "raise OSError('no disk')#"))
    said = []

    def progress(step):
        said.append(step.message)
        if step.asked and len(said) < 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        api.evaluate("agent.yaml", progress=progress, concurrency=1)
    assert "the agent cannot be closed: OSError: no disk" in said
