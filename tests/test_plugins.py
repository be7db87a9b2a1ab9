"""A plug-in of another package: the one of examples/plugin, as it is and broken in every way."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from evalspec.api import plugins
from evalspec.api.plugins import (
    DatasetFormat,
    ExportConfig,
    Exporter,
    Hit,
    Problem,
    Reporter,
    Retrieval,
    ServiceError,
    Wire,
    Written,
    metric,
)
from evalspec.base.registry import Registry
from evalspec.inputs.datasets.base import DATASETS, DatasetContent
from evalspec.inputs.manifest.retriever_schema import Bm25Options
from evalspec.model import AgentReply, Exchange, Sample
from evalspec.reports.base import REPORTERS
from evalspec.reports.exports.base import EXPORTERS
from evalspec.scoring.judge.wire import JUDGE_WIRES
from evalspec.scoring.metrics.base import METRICS
from evalspec.targets.agents.wire import WIRES
from evalspec.targets.retrievers.opening import RETRIEVERS
from warm.command import WarmCommand

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugin"
REGISTRIES: tuple[Registry[Any], ...] = (METRICS, DATASETS, REPORTERS, EXPORTERS, WIRES, JUDGE_WIRES, RETRIEVERS)
ANSWERED = Exchange(Sample("s", "Who pays?"), AgentReply("You do [1]."))


class Site(NamedTuple):
    """A folder with an installed plug-in, and a project that uses it."""

    path: Path

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(self.path), str(ROOT)])}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.path, env=environ, capture_output=True, text=True, check=False)

    def evalspec(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "evalspec", *arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The example as setuptools installs it, without pip and the network."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    site = tmp_path_factory.mktemp("site")
    steps = [word for step in ("install_lib", "install_egg_info") for word in (step, "--install-dir", str(site))]
    command = [sys.executable, "-W", "ignore", "-c", "import setuptools; setuptools.setup()", "-q", *steps]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return site


@pytest.fixture
def site(built, tmp_path):
    return write_site(built, tmp_path)


def write_site(built, tmp_path):
    """The plug-in in a project: frequent questions, recorded replies, documents, a metric, and a retriever."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    (tmp_path / "qa.faq").write_text("Q: Who pays?\nA: You do.\n\nQ: When?\nA: Now.\n")
    replies = [{"id": "q1", "response": "You do [1]."}, {"id": "q4", "response": "Now [1] [2]."}]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    (tmp_path / "ranked.jsonl").write_text(
        '{"id": "r1", "input": "Who pays?", "expected": "All", "relevant": ["eval:faq:d1"]}\n'
    )
    (tmp_path / "documents.jsonl").write_text('{"id": "eval:faq:d1", "text": "Everybody pays."}\n')
    write_manifest(tmp_path)
    return Site(tmp_path)


def write_manifest(folder, *more, limits=None):
    metrics = ["cites_source", {"name": "cites_source", "at_least": 2}, *more]
    evaluation = {
        "datasets": [{"name": "qa", "path": "qa.faq", "metrics": metrics}],
        "thresholds": limits or {"cites_source()": 1, "cites_source(at_least=2)": 0.5},
        "ciGate": {"minSamples": 1},
    }
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
    (folder / "agent.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))
    asked = {"name": "ranked", "path": "ranked.jsonl", "metrics": ["Recall@1"], "corpus": "documents.jsonl"}
    asked |= {"retriever": "mine", "scopePrefix": "eval:faq:"}
    evaluation = {"datasets": [asked], "retrievers": {"mine": {"builtin": "shared_words", "shortest": 2}}}
    (folder / "search.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))


EVALUATE = ("evaluate", "agent.yaml", "--responses", "replies.jsonl")


def test_the_example_passes_its_own_tests(site, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each plug-in of this environment takes long to import
    done = site.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(EXAMPLE / "tests"))
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_a_run_with_all_of_its_parts(site):
    done = site.evalspec(*EVALUATE, "-o", "run.tap", "--json")
    assert done.returncode == 0, done.stderr
    (dataset,) = json.loads(done.stdout)["datasets"]
    values = {name: summary["value"] for name, summary in dataset["metrics"].items()}
    assert values == {"cites_source": 1, "cites_source(at_least=2)": 0.5}
    report = "1..2\nok 1 - qa: cites_source\nok 2 - qa: cites_source(at_least=2)\n"
    assert (site.path / "run.tap").read_text() == report
    done = site.evalspec("evaluate", "search.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["datasets"][0]["metrics"]["Recall@1"]["value"] == 1


BROKEN = {
    "import": ("import re\n", "import re\n\n1 / 0\n", EVALUATE, 2, "plugin failed: ZeroDivisionError"),
    "name taken": (
        "@metric\n",
        '@metric(name="exact_match")\n',
        ("metrics",),
        2,
        "evalspec.metrics: plugin failed: ValueError: metric 'exact_match' is registered twice",
    ),
    "suffix taken": (
        '".tap"',
        '".JSON"',
        ("report", "-o", "r.tap"),
        2,
        "evalspec.reporters: plugin failed: ValueError: reporter '.JSON' is registered twice",
    ),
    "nothing registered": (
        'registry.add("shared_words"',
        'str("shared_words"',
        ("validate", "search.yaml"),
        2,
        "evalspec.retrievers: plugin failed: TypeError: ",
    ),
    "signature": (
        "*, at_least: int = 1",
        "at_least: int = 1",
        ("validate", "agent.yaml"),
        2,
        "does not fit: it gets an exchange; write def cites_source(exchange, *, at_least: int = 1)",
    ),
    "type of a parameter": (
        "at_least: int = 1",
        "at_least: list",
        ("validate", "agent.yaml"),
        2,
        "the argument 'at_least: list' of cites_source is no parameter: it takes str, int, float, bool or Literal; "
        "write def cites_source(exchange, *, at_least: str)",
    ),
    "metric raises": ("return len(set(", "return {}['x'] or len(set(", EVALUATE, 3, "evalspec-faq 1.0: KeyError: 'x'"),
    "metric returns text": (
        "return len(",
        "return 'yes' or len(",
        EVALUATE,
        3,
        "evalspec-faq 1.0: the scorer returned the str 'yes'; it must return a number, a bool, None or a Score",
    ),
    "metric out of bounds": ("return len(", "return 7 or len(", EVALUATE, 3, "1.0: cites_source gave 7, outside its"),
    "reader raises": ("if question:", "if 1 / 0:", EVALUATE, 2, "dataset format 'faq' failed: ZeroDivisionError"),
    "reader yields text": (
        'yield Sample(f"q{asked_at}", question, (text,), line=asked_at)',
        "yield question",
        EVALUATE,
        2,
        "dataset format 'faq' failed: TypeError: it returned str, not Sample",
    ),
    "writer counts nothing": (
        "return Written(len(texts))",
        "return len(texts)",
        ("convert", "qa.faq", "copy.faq", "--to", "faq"),
        2,
        "dataset format 'faq' failed: TypeError: it returned int, not Written",
    ),
    "report is a number": (
        'return "\\n".join([f"1..',
        'return len([f"1..',
        (*EVALUATE, "-o", "r.tap"),
        3,
        "reporter 'tap' failed: TypeError: it returned int, not str",
    ),
    "factory makes nothing": (
        'SharedWords(options.model_extra.get("shortest", 3))',
        "None",
        ("evaluate", "search.yaml"),
        2,
        "builtin retriever 'shared_words' failed: TypeError: it returned NoneType, which has no method search",
    ),
    "ingest returns a number": ("return ()", "return 5", ("evaluate", "search.yaml"), 3, "returned int, not Sequence"),
    "search returns a list": (
        "return Retrieval(",
        "return list(",
        ("evaluate", "search.yaml"),
        3,
        "builtin retriever 'shared_words' failed: TypeError: it returned list, not Retrieval",
    ),
    "search is not async": (
        "async def search",
        "def search",
        ("evaluate", "search.yaml"),
        3,
        "builtin retriever 'shared_words' failed: TypeError: it returned Retrieval, not Awaitable",
    ),
}  # fmt: skip
"""What is replaced in the module, by what, the command that then fails, its exit code, and what it says."""


@pytest.fixture(scope="module")
def warm(built, tmp_path_factory):
    """The folder of a project with the plug-in, and what runs commands there without the start of Python."""
    folder = write_site(built, tmp_path_factory.mktemp("warm")).path
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(folder))
        with WarmCommand(tmp_path_factory.mktemp("output"), ("httpx", "numpy.random", "rich.live")) as command:
            yield folder, command


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_part_is_one_clear_line_with_the_name_of_its_package(built, warm, fault):
    old, new, command, code, said = BROKEN[fault]
    folder, evalspec = warm
    text = (built / "evalspec_faq.py").read_text()
    assert old in text
    (folder / "evalspec_faq.py").write_text(text.replace(old, new))
    done = evalspec(folder, *command)
    printed = " ".join((done.out + done.err).decode().split())
    assert done.code == code, printed
    assert said in printed
    assert "evalspec-faq 1.0: " in printed
    assert "bug" not in printed


OWN_REPLIES = {
    "agentspec": {"response": "You do."},
    "anthropic": {"content": [{"type": "text", "text": "You do."}], "stop_reason": "end_turn"},
    "ollama": {"message": {"role": "assistant", "content": "You do."}, "done": True},
    "openai-compatible": {"choices": [{"message": {"content": "You do."}, "finish_reason": "stop"}]},
    "openai-responses": {"output": [{"type": "message", "content": [{"type": "output_text", "text": "You do."}]}]},
}


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire.name in OWN_REPLIES], ids=lambda wire: wire.name)
def test_wires_of_evalspec_pass(wire):
    assert plugins.check_agent(wire, OWN_REPLIES[wire.name]).response == "You do."


@pytest.mark.parametrize("reporter", [*REPORTERS], ids=lambda reporter: reporter.name)
def test_reporters_of_evalspec_pass(reporter):
    assert plugins.check_reporter(reporter)


def test_the_exporter_to_opentelemetry_passes(agent):
    agent.reply = {}
    said = plugins.check_exporter(EXPORTERS.find("otel"), ExportConfig(url=agent.url))
    assert said == f"2 results (1 failed) to {agent.url}"


@pytest.mark.parametrize("name", ["jsonl", "unrag", "mixpeek"])
def test_dataset_formats_of_evalspec_pass(name, tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"id": "a", "input": "Who?", "expected": "We", "relevant": ["d"]}\n')
    path = tmp_path / ("d.jsonl" if name == "jsonl" else "d.json")
    samples = plugins.check_dataset_format(DATASETS.find("jsonl"), lines)
    DATASETS.find(name).write(DatasetContent(samples), path)
    assert len(plugins.check_dataset_format(DATASETS.find(name), path)) == 1


def test_retrievers_of_evalspec_pass():
    plugins.check_retriever(lambda _options, vectors: RETRIEVERS.find("bm25")(Bm25Options(builtin="bm25"), vectors))


@metric
def of_a_sign(exchange: Exchange, *, sign: str = "[") -> float:
    """Where a sign is, which an empty answer does not have."""
    return exchange.response.index(sign) / 10


@metric
def too_high(exchange: Exchange) -> float:
    """A value that is out of bounds."""
    return 7.0


def _format(name="lines", **parts):
    own = {
        "read": lambda source, _notes: (Sample(line, line) for line in source.path.read_text().split()),
        "recognises": lambda path, _head: path.suffix == ".lines",
    }
    return DatasetFormat(name, "", **own | parts)


def _note(source, notes):
    """Read a file with a sample a line, and refuse what is no text."""
    text = source.path.read_bytes().decode(errors="replace")
    if "\0" in text:
        notes.problems.append(Problem("no text"))
    else:
        yield from (Sample(line, line) for line in text.split())


class Leaky:
    """A retriever that finds everything, whatever the scope."""

    def __init__(self):
        self.ids = []

    async def ingest(self, documents, _scope_prefix):
        self.ids += [document.id for document in documents]
        return ()

    async def delete(self, scope_prefix):
        self.ids = [name for name in self.ids if not name.startswith(scope_prefix)]

    async def search(self, request):
        return Retrieval(tuple(map(Hit, self.ids[: request.top_k])))

    async def aclose(self):
        pass


class Blocking(Leaky):
    def search(self, request):
        return Retrieval(())


class Greedy(Leaky):
    async def search(self, request):
        return Retrieval((Hit("a"), Hit("b")))


def _wire(build=lambda sample, _endpoint: [sample.question], read=lambda _value: AgentReply("")):
    return Wire("w", "", build, read)


def _export(fails):
    async def send(_run, _exchanges, to):
        if fails and to.url.endswith(":9"):
            raise ServiceError("nobody is there")

    return lambda _path: plugins.check_exporter(Exporter("e", send), ExportConfig(url="http://127.0.0.1:1"))


def _report(render, suffix=".x"):
    return lambda _path: plugins.check_reporter(Reporter("r", (suffix,), render))


def _dataset(**parts):
    return lambda path: plugins.check_dataset_format(_format(**parts), path)


BREACHES = {
    "no metric": (
        lambda _path: plugins.check_metric(cast("Any", len), ANSWERED),
        "len is no metric; decorate it with @metric",
    ),
    "crash": (lambda _path: plugins.check_metric(of_a_sign, ANSWERED), "of_a_sign of an empty reply raised ValueError"),
    "bounds": (lambda _path: plugins.check_metric(too_high, ANSWERED), "too_high gave 7, outside its range"),
    "parameter": (lambda _path: plugins.check_metric(of_a_sign, ANSWERED, sing="]"), "has no parameter 'sing'"),
    "not recognised": (_dataset(recognises=lambda _path, _head: False), "lines does not recognise a.lines"),
    "no sample": (_dataset(read=lambda _source, _notes: iter(())), "lines.read yields no sample"),
    "same id": (_dataset(read=lambda _source, _notes: iter([Sample("a", "q")] * 2)), "samples with the same id"),
    "raises on bytes": (_dataset(), "lines.read raised UnicodeDecodeError"),
    "silent on bytes": (
        _dataset(read=lambda _source, _notes: iter([Sample("a", "q")])), "no problem in a file of random bytes"
    ),
    "loses": (
        _dataset(read=_note, write=lambda content, path: Written(path.write_text("other") and 1)),
        "lines.write loses something that list_losses does not list",
    ),
    "counts": (
        _dataset(read=_note, write=lambda content, path: Written(path.write_text("a") + 1)), "counted 2 samples, and 1"
    ),
    "report type": (_report(lambda _run, _texts: 5), "r.render returned a int; return a str"),
    "report signs": (_report(lambda run, _texts: "".join(run.reasons)), "r.render passes on control characters"),
    "report differs": (_report(lambda _run, _texts: os.urandom(8)), "r.render gives one run two reports"),
    "suffix": (_report(lambda _run, _texts: "", "x"), "a suffix of r does not begin with a dot"),
    "export silent": (_export(fails=False), "e.send raises nothing if no server answers"),
    "export type": (_export(fails=True), "e.send returned a NoneType; return a str"),
    "no question": (lambda _path: plugins.check_agent(_wire(lambda *_: {}), {}), "leaves out the question: {}"),
    "no JSON": (lambda _path: plugins.check_agent(_wire(lambda *_: {1, 2}), {}), "build_request raised TypeError"),
    "no reply": (lambda _path: plugins.check_agent(_wire(), {}), "w.read_reply of null returned"),
    "leak": (lambda _path: plugins.check_retriever(lambda *_: Leaky()), "finds 3 documents of"),
    "sync": (lambda _path: plugins.check_retriever(lambda *_: Blocking()), "the retriever's search is not async"),
    "top_k": (lambda _path: plugins.check_retriever(lambda *_: Greedy()), "search returned 2 hits for top_k 1"),
    "nothing": (lambda _path: plugins.check_retriever(lambda *_: None), "the retriever has no method search"),
}  # fmt: skip
"""A part that breaks its contract, and what its check says."""


@pytest.mark.parametrize("breach", BREACHES)
def test_a_check_finds_what_breaks_the_contract(breach, tmp_path):
    check, said = BREACHES[breach]
    (tmp_path / "a.lines").write_text("a")
    with pytest.raises(AssertionError, match=re.escape(said)):
        check(tmp_path / "a.lines")


CHAT_REPLY = {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("name", "reply"), [("chat", CHAT_REPLY), ("anthropic", {"content": [{"type": "tool_use", "input": {}}]})]
)
def test_the_wires_of_judges_keep_the_contract(name, reply):
    assert plugins.check_judge(JUDGE_WIRES.find(name), reply).choices == [plugins.JudgeChoice("{}")]


def _say(reply):
    return plugins.JudgeReply([plugins.JudgeChoice("{}")] if "choices" in reply else [])


@pytest.mark.parametrize(
    ("build", "read", "says"),
    [
        (lambda asked: {"turns": asked.messages[::-1], "model": asked.model}, _say, "has not instructions first"),
        (lambda asked: {"turns": asked.messages}, _say, "leaves out 'judge-1'"),
        (lambda asked: {"turns": asked.messages, "model": asked.model}, lambda _reply: None, "return a JudgeReply"),
        (
            lambda asked: {"turns": asked.messages, "model": asked.model},
            lambda reply: _say({"choices": reply}),
            "choices",
        ),
        (lambda _asked: {"model": {1}}, _say, "build_request raised TypeError"),
    ],
)
def test_a_broken_wire_of_judges_is_found(build, read, says):
    wire = plugins.JudgeWire("mine", "mine", "grade", build, read)
    with pytest.raises(AssertionError, match=says):
        plugins.check_judge(wire, {"choices": []})


def test_the_page_names_what_is_stable():
    page = (ROOT / "docs" / "reference" / "plugins.md").read_text()
    assert [name for name in plugins.__all__ if f"`{name}`" not in page] == []
    assert all(getattr(plugins, name).__doc__ for name in plugins.__all__ if name != "StoredExchanges")
    groups = re.findall(r"^\| [^|]+ \| `(evalspec\.\w+)` \|", page, re.M)
    assert groups == [registry.group for registry in REGISTRIES]
