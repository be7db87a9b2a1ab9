"""`spec.api.python`: the agent is code beside the manifest, of any form."""

import subprocess
import sys
import threading
from types import ModuleType

import pytest

from evalspec.api import public as api
from evalspec.inputs.user_code.modules import import_module


@pytest.fixture
def bot(project):
    """A project whose agent is `bot.py`. `bot(code, name)` writes it and names the agent in it."""
    project.samples(4)

    def write(code, name="answer", **samples):
        (project.folder / "bot.py").write_text(code)
        project.api["python"] = f"bot:{name}"
        return project

    return write


def measure(project, *arguments):
    done = project.evaluate("--json", *arguments)
    assert done.code in (0, 3), done.err
    return done.document["datasets"][0]


def errors_of(dataset):
    return [sample["error"] for sample in dataset["samples"]]


AGENTS = {
    "function": "def answer(question):\n    return 'Paris' if 'Capital of France' in question else '?'",
    "async": "async def answer(question):\n    return {'response': 'Paris'}",
    "generator": "def answer(question):\n    yield 'Pa'\n    yield 'ris'",
    "async generator": "async def answer(question):\n    yield {'response': 'Pa'}\n    yield {'response': 'ris'}",
    "returns a generator": "async def answer(question):\n    return iter(['Pa', 'ris'])",
    "object": "class Bot:\n    def __call__(self, question):\n        return 'Paris'\nanswer = Bot()",
    "async object": "class Bot:\n    async def __call__(self, question):\n        return 'Paris'\nanswer = Bot()",
    "class": "class answer:\n    def __call__(self, question):\n        return 'Paris'",
    "class with query": "class answer:\n    async def aquery(self, question):\n        return 'Paris'",
    "attribute": "class Bot:\n    def ask(self, question):\n        return 'Paris'\nclass answer:\n    ask = Bot().ask",
}


@pytest.mark.parametrize("kind", AGENTS)
def test_every_form_of_agent(bot, kind):
    project = bot(AGENTS[kind], "answer.ask" if kind == "attribute" else "answer")
    found = measure(project)
    assert found["metrics"]["string_match"]["value"] == 1
    assert found["samples"][0]["latencyMs"] > 0


STATEFUL = """
import threading
MADE, BOTH = [], threading.Barrier(2, timeout=30)

class answer:
    def __init__(self):
        self.thread = threading.get_ident()
        MADE.append(self)
        self.questions = None

    def reset(self):
        self.questions = []

    def __call__(self, question):
        self.questions.append(question)
        BOTH.wait()
        assert len(self.questions) == 1 and self.thread == threading.get_ident()
        return "Paris"
"""


def test_each_worker_has_an_instance_of_a_class_which_is_reset_before_each_sample(bot):
    assert errors_of(measure(bot(STATEFUL), "-j", "2")) == [None] * 4
    assert len(sys.modules["bot"].MADE) == 2


SHARED = """
import time

class Bot:
    busy = False

    def reset(self):
        assert not self.busy

    def __call__(self, question):
        assert not self.busy
        self.busy = True
        time.sleep(0.05)
        self.busy = False
        return "Paris"

answer = Bot()
"""


def test_workers_take_turns_with_an_object_that_has_a_state(bot):
    assert errors_of(measure(bot(SHARED), "-j", "4")) == [None] * 4


def test_after_a_timeout_a_class_is_instantiated_again(bot):
    code = """
import threading
forever, made = threading.Event(), []
class answer:
    def __init__(self):
        self.number = len(made)
        made.append(self)
    def __call__(self, question):
        return "Paris" if self.number else forever.wait()
"""
    found = measure(bot(code), "-j", "1", "--timeout", "6")
    assert errors_of(found) == ["the agent's function took longer than 6 s", None, None, None]


ENDLESS = {
    "large": "def answer(question):\n    while True:\n        yield 'x' * 1_000_000",
    "never waits": "async def answer(question):\n    while True:\n        yield 'x'",
    "refuses to be cancelled": """
import asyncio

async def answer(question):
    while True:
        try:
            yield "x"
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass
""",
}


@pytest.mark.parametrize(("kind", "said"), [
    ("large", "the agent's stream has more than 10,485,760 characters"),
    ("never waits", "the agent's function took longer than 1 s"),
    ("refuses to be cancelled", "the agent's function took longer than 1 s"),
])  # fmt: skip
def test_a_stream_without_an_end_fails_one_sample(bot, kind, said):
    assert set(errors_of(measure(bot(ENDLESS[kind]), "--timeout", "30" if kind == "large" else "1"))) == {said}


@pytest.mark.parametrize("act", ["return 'Paris'", "raise KeyError", "raise TimeoutError", "await asyncio.sleep(0.1)"])
def test_an_answer_after_the_timeout_is_too_late(bot, act):
    code = f"""
import asyncio

async def answer(question):
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        {act}
    return "Paris"
"""
    assert set(errors_of(measure(bot(code), "--timeout", "0.2"))) == {"the agent's function took longer than 0.2 s"}


def test_an_agent_that_ends_the_process_passes_no_gate(bot):
    project = bot("import os\ndef answer(question):\n    os._exit(0)")
    command = [sys.executable, "-m", "evalspec", "evaluate", "agent.yaml", "--json"]
    project.write()
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("code of the project called os._exit(0), so nothing was decided") == 1


def test_a_long_message_of_an_exception_is_cut(bot):
    done = bot("def answer(question):\n    raise ValueError('x' * 1_000_000)").evaluate()
    assert done.code == 3
    assert len(done.err + done.out) < 20_000


def test_a_class_that_cannot_be_created_is_an_agent_that_is_down(bot):
    done = bot(
        "class answer:\n    def __init__(self):\n        raise OSError('no index')\n    query = 1\n"
        "    def __call__(self, question): ..."
    ).evaluate()
    assert done.code == 3
    assert "the agent cannot be created: OSError: no index" in done.out + done.err


INVALID = [
    ("def answer(question): ...", "reply", "bot.py does not define 'reply'. known: answer"),
    ("answer = [1]", "answer", "bot:answer is a list. name a function"),
    (
        "class Bot:\n    def ask(self, question): ...",
        "Bot.ask",
        "bot:Bot.ask cannot be called with one question: missing a required argument: 'question'",
    ),
    ("class Bot:\n    def reset(self): ...", "Bot", "or a class with __call__(self, question)"),
    ("raise OSError('no key')\ndef answer(question): ...", "answer", "bot:answer cannot be imported: OSError: no key"),
]


@pytest.mark.parametrize(("code", "name", "said"), INVALID, ids=["name", "type", "method", "class", "import"])
def test_what_is_no_agent_is_reported_before_the_first_call(bot, code, name, said):
    done = bot(code, name).evaluate()
    assert done.code == 2
    assert "agent.yaml:7: spec.api.python: " in done.err
    assert said in done.err


@pytest.mark.parametrize("key", ["url", "command", "readyPath"])
def test_one_agent(bot, key):
    project = bot(AGENTS["function"])
    project.api[key] = ["x"] if key == "command" else "http://127.0.0.1:1"
    assert f"python and {key} name two agents. remove one of them" in project.validate().out


def test_validate_and_untrusted_runs_import_nothing(bot):
    project = bot("open('imported', 'w')\ndef answer(question): ...")
    assert project.validate().code == 0
    done = project.evaluate("--untrusted")
    assert done.code == 2
    assert "spec.api.python: --untrusted does not import the project's code: bot:answer" in done.err
    assert not (project.folder / "imported").exists()


def test_another_agent_in_place_of_the_code(bot, agent):
    project = bot("raise OSError")
    assert measure(project, "--url", agent.url)["samples"][0]["error"] is None
    assert {one.error for one in api.evaluate("agent.yaml", agent=lambda _: "Paris").datasets[0].samples} == {None}


def test_a_run_is_not_resumed_with_other_code(bot):
    project = bot("import words\ndef answer(question):\n    return words.WORD")
    (project.folder / "words.py").write_text("WORD = 'Paris'")
    assert project.evaluate().code == 0
    (project.folder / "words.py").write_text("WORD = 'Rome'")
    done = project.evaluate("--resume")
    assert done.code == 2
    assert "agent: the code of bot:answer changed" in done.err


def test_an_import_leaves_the_finders_that_other_threads_iterate_over(tmp_path):
    """Python skips a finder if one before it is removed meanwhile, and then finds no module."""
    (tmp_path / "finders_seen.py").write_text("import sys\nseen = sys.meta_path\n")
    before = sys.meta_path
    known = list(before)
    seen = import_module(tmp_path, "finders_seen").seen
    assert (before, sys.meta_path) == (known, known)
    assert seen is not before


def test_an_agent_may_import_what_takes_no_weak_reference(bot):
    """cffi, which cryptography uses, puts a library into `sys.modules` that is no module."""
    code = "import sys\nsys.modules['library'] = object()\ndef answer(question):\n    return 'Paris'\n"
    assert measure(bot(code))["metrics"]["string_match"]["value"] == 1


def test_calls_are_kept_as_json_and_as_they_were_made(bot):
    """An agent may go on using its own objects, and a date in an argument ended the whole run."""
    code = (
        "import datetime\nshared = {}\n"
        "def answer(question):\n"
        "    shared['question'] = question\n"
        "    shared['on'] = datetime.date(2026, 1, len(question) % 9 + 1)\n"
        "    return {'response': 'Paris', 'tool_calls': [{'name': 'find', 'arguments': shared}]}\n"
    )
    project = bot(code)
    project.evaluation["datasets"][0]["metrics"] = ["string_match"]
    assert measure(project, "-j", "1")["metrics"]["string_match"]["value"] == 1
    lines = [project("show", f"s{n}", "--json").document["attempts"][0] for n in range(4)]
    made = [line["tool_calls"][0]["arguments"] for line in lines]
    assert [one["question"] for one in made] == [line["user_input"] for line in lines]
    assert all(one["on"].startswith("datetime.date(") for one in made)


def test_modules_are_imported_while_other_threads_import(tmp_path):
    """As the libraries of a judge are. One folder takes the place of another each time."""
    stopping = threading.Event()

    def import_others():
        names = [f"other_{n}" for n in range(20)]
        while not stopping.is_set():
            sys.modules.update(dict.fromkeys(names, ModuleType("other")))
            for name in names:
                del sys.modules[name]

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twins.py").write_text(f"NAME = '{folder}'\n")
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=import_others)
    thread.start()
    sys.setswitchinterval(1e-5)
    try:
        assert [import_module(tmp_path / folder, "twins").NAME for folder in "ab" * 40] == [*"ab"] * 40
    finally:
        sys.setswitchinterval(interval)
        stopping.set()
        thread.join()
