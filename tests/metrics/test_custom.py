import asyncio
import subprocess
import sys
import textwrap
import threading
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from evalspec.base.errors import MetricError
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.model import AgentReply, Direction, Exchange, Sample, Score, ScoreStatus
from evalspec.runs.runner.scoring import score_exchange
from evalspec.scoring.metrics.base import BuildContext, Metric
from evalspec.scoring.metrics.own import check_scorer, define_scorer

EXCHANGE = Exchange(Sample("s", "q", references=("Paris",)), AgentReply("It is Paris [1]", latency_ms=12.0))


def write(folder: Path, **modules: str) -> Path:
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return folder


def build(folder: Path, scorer: str = "scorers:score", **options):
    entry = MetricEntry(name="own", scorer=scorer, **options)
    definition = define_scorer(entry, folder)
    return definition.build(BuildContext(None, folder, services=None, parameters=entry.model_extra))


def score(folder: Path, scorer: str = "scorers:score", **options):
    return asyncio.run(build(folder, scorer, **options)(EXCHANGE))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("def score(exchange): return exchange.response.count('[')", 1.0),
        ("async def score(exchange): return exchange.reply.latency_ms", 12.0),
        ("def score(exchange): return exchange.sample.reference in exchange.response", 1.0),
        ("import numpy\ndef score(exchange): return numpy.array([1, 3]).mean() > 5", 0.0),
        ("class Score:\n    async def __call__(self, exchange): return 0.25\nscore = Score()", 0.25),
    ],
)
def test_a_function_sync_or_async_gives_a_number(tmp_path, source, value):
    assert score(write(tmp_path, scorers=source)).value == value


def test_none_is_not_applicable(tmp_path):
    assert score(write(tmp_path, scorers="def score(exchange): pass")).status is ScoreStatus.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("float('nan')", "nan"),
        ("float('inf')", "inf"),
        ("-1e101", r"-1e\+101"),
        ("'0.5'", "the str '0.5'"),
        ("[1]", "a list"),
        ("10**400", "not one number"),
    ],
)
def test_what_is_no_score_is_an_error(tmp_path, result, message):
    with pytest.raises(MetricError, match=message):
        score(write(tmp_path, scorers=f"def score(exchange): return {result}"))


@pytest.mark.parametrize(("value", "shown"), [(1.5, "1.5"), (-0.1, "-0.1")])
def test_a_value_outside_its_range_is_a_failed_score(tmp_path, value, shown):
    write(tmp_path, scorers=f"def score(exchange): return {value}")
    definition = define_scorer(MetricEntry(name="own", scorer="scorers:score", range=(0.0, 1.0)), tmp_path)
    scorer = definition.build(BuildContext(None, tmp_path, services=None))
    metric = Metric("own", definition, scorer, definition.needs, definition.bounds)
    scores = asyncio.run(score_exchange([metric], EXCHANGE, lambda _new: None, known={}))
    assert scores["own"] == Score.failed(f"own gave {shown}, outside its range [0, 1]")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 + 'x'", r"TypeError: .*, scorers\.py:3$"),
        ("import json; return json.loads('{')", r"JSONDecodeError: .*, scorers\.py:3$"),
        ("return next(iter([]))", r"StopIteration, scorers\.py:3$"),
        ("raise SystemExit(0)", r"SystemExit: 0, scorers\.py:3$"),
        ("raise GeneratorExit", r"GeneratorExit, scorers\.py:3$"),
        ("raise BaseExceptionGroup('two', [GeneratorExit()])", r"BaseExceptionGroup: two .*, scorers\.py:3$"),
        ("import asyncio; raise asyncio.CancelledError('own')", r"CancelledError: own, scorers\.py:3$"),
        ("import neighbour; return neighbour.fail()", r"KeyError: 'gone', neighbour\.py:2$"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_exception_names_the_user_s_own_line(tmp_path, kind, body, message):
    if kind == "async def" and "next(" in body:
        message = "RuntimeError: coroutine raised StopIteration"
    write(
        tmp_path, scorers=f"\n{kind} score(exchange):\n    {body}\n", neighbour="def fail():\n    return {}['gone']\n"
    )
    with pytest.raises(MetricError, match=message):
        score(tmp_path)


def test_keyboard_interrupt_passes_through(tmp_path):
    write(tmp_path, scorers="def score(exchange): raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        score(tmp_path)


def test_a_cancelled_scoring_is_no_failure_of_the_scorer(tmp_path):
    write(tmp_path, scorers="import asyncio\nasync def score(exchange): await asyncio.sleep(60)")

    async def run() -> None:
        task = asyncio.create_task(build(tmp_path)(EXCHANGE))
        await asyncio.wait([task], timeout=0.5)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_a_slow_function_does_not_hold_up_the_loop(tmp_path):
    """The function returns only once the event loop has gone on."""
    write(tmp_path, scorers="import threading\ngo = threading.Event()\ndef score(exchange): return go.wait(60)")

    async def run() -> float:
        task = asyncio.create_task(build(tmp_path)(EXCHANGE))
        while "scorers" not in sys.modules or not hasattr(sys.modules["scorers"], "go"):
            await asyncio.sleep(0.01)
        sys.modules["scorers"].go.set()
        return (await task).value

    assert asyncio.run(run()) == 1.0


def test_a_module_that_fails_is_run_once(tmp_path):
    write(tmp_path, scorers="import pathlib\nwith open(__file__ + '.log', 'a') as log: log.write('x')\n1 / 0")
    scorer = build(tmp_path)

    async def run() -> list[BaseException]:
        return await asyncio.gather(*(scorer(EXCHANGE) for _ in range(5)), return_exceptions=True)

    assert {str(error) for error in asyncio.run(run())} == {"ZeroDivisionError: division by zero, scorers.py:3"}
    assert (tmp_path / "scorers.py.log").read_text() == "x"


def test_the_module_beside_the_manifest_wins(tmp_path, monkeypatch):
    """Neither a module of the same name that is loaded already nor one earlier on sys.path is taken."""
    import colorsys

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere, scorers="def score(exchange): return 2", colorsys="")
    monkeypatch.syspath_prepend(elsewhere)
    write(tmp_path, scorers="def score(exchange): return 1", colorsys="def score(exchange): return 3")
    assert score(tmp_path).value == 1
    assert score(tmp_path, "colorsys:score").value == 3
    assert sys.modules["colorsys"] is colorsys


def test_nothing_installed_is_hidden_afterwards(tmp_path):
    write(tmp_path, scorers="def score(exchange): return 1", colorsys="")
    of_earlier_tests = str(tmp_path.parent)
    before = [entry for entry in sys.path if Path(entry).exists() and not entry.startswith(of_earlier_tests)]
    assert score(tmp_path).value == 1
    assert [entry for entry in sys.path if entry in before] == before
    assert sys.path[-1] == str(tmp_path.resolve())
    assert not Path(PathFinder.find_spec("colorsys").origin).is_relative_to(tmp_path)


def test_neighbours_come_from_the_same_folder_also_when_imported_later(tmp_path):
    """Two folders with modules of the same names, used in turn in one process."""
    source = "import early\ndef score(exchange):\n    import late\n    return 10 * early.VALUE + late.VALUE"
    folders = []
    for number in (1, 2, 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        folders.append(write(folder, scorers=source, early=f"VALUE = {number}", late=f"VALUE = {number}"))
    assert [score(folder).value for folder in [*folders, folders[0]]] == [11, 22, 33, 11]


def test_a_module_in_a_package_or_a_plain_folder(tmp_path, monkeypatch):
    """A plain folder wins too over an installed package of its name."""
    (tmp_path / "installed" / "plain").mkdir(parents=True)
    write(tmp_path / "installed" / "plain", __init__="")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    for name in ("package", "plain"):
        (tmp_path / name).mkdir()
        write(
            tmp_path / name, scorers="from . import other\ndef score(exchange): return other.VALUE", other="VALUE = 4"
        )
    (tmp_path / "package" / "__init__.py").touch()
    assert score(tmp_path, "package.scorers:score").value == 4
    assert score(tmp_path, "plain.scorers:score").value == 4


def test_importing_is_safe_while_other_threads_import(tmp_path):
    """The finder that puts the folder first must not serve another thread's imports."""
    started, found = threading.Event(), []
    installed = tmp_path / "installed"
    installed.mkdir()
    write(installed, shared_name="WHERE = 'installed'")
    write(tmp_path, shared_name="WHERE = 'folder'")
    write(
        tmp_path, scorers="import time, threading\nthreading.imports_now.set()\ntime.sleep(0.3)\ndef score(e): return 1"
    )
    vars(threading)["imports_now"] = started
    sys.path.insert(0, str(installed))

    def other() -> None:
        started.wait(60)
        found.append(import_module("shared_name").WHERE)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert score(tmp_path).value == 1
    finally:
        thread.join()
        sys.path.remove(str(installed))
        sys.modules.pop("shared_name", None)
        del vars(threading)["imports_now"]
    assert found == ["installed"]


def test_validation_finds_what_is_missing_without_running_the_module(tmp_path):
    write(tmp_path, scorers="raise AssertionError('it was run')\ndef cites(exchange): pass\nimport json\nother = 1")
    write(
        tmp_path,
        starred="from scorers import *",
        broken="def f(:\n  pass",
        branch="if True:\n    async def cites(e): ...",
    )

    def problems(scorer: str) -> list[str]:
        return check_scorer(MetricEntry(name="own", scorer=scorer), tmp_path)

    for found in ("scorers:cites", "scorers:other", "scorers:json", "starred:anything", "branch:cites"):
        assert problems(found) == []
    assert problems("scorers:citse") == ["scorers.py does not define 'citse'; did you mean 'cites'?"]
    assert problems("scorer:cites") == ["there is no module 'scorer' beside the manifest; did you mean 'scorers'?"]
    assert problems("broken:f") == ["broken.py:1: invalid syntax; fix the syntax"]
    assert "scorers" not in sys.modules or not (sys.modules["scorers"].__file__ or "").startswith(str(tmp_path))


def test_validation_agrees_with_the_run_on_packages(tmp_path):
    (tmp_path / "evals").mkdir()
    write(tmp_path / "evals", scorers="def score(exchange): return 1")
    assert check_scorer(MetricEntry(name="own", scorer="evals.scorers:score"), tmp_path) == []
    assert "without __init__" in check_scorer(MetricEntry(name="own", scorer="evals:score"), tmp_path)[0]
    assert check_scorer(MetricEntry(name="own", scorer="json:loads"), tmp_path) != []


def test_the_definition_says_what_the_entry_says(tmp_path):
    entry = MetricEntry(name="cites", scorer="scorers:score", direction="lower", range=(0.0, 5.0))
    definition = define_scorer(entry, tmp_path)
    assert (definition.name, definition.direction, definition.bounds) == ("cites", Direction.LOWER, (0.0, 5.0))
    assert define_scorer(MetricEntry(name="own", scorer="a:b"), tmp_path).bounds == (None, None)


def test_a_function_that_is_gone_or_no_function_is_an_error(tmp_path):
    write(tmp_path, scorers="score = 5")
    with pytest.raises(MetricError, match="scorers:score is not a function"):
        score(tmp_path)
    with pytest.raises(MetricError, match=r"AttributeError: .* 'other'"):
        score(tmp_path, "scorers:other")


def test_in_a_process_of_its_own_with_a_relative_folder(tmp_path):
    """As the command line does it: the manifest's folder is given relative to the current one."""
    write(tmp_path, scorers="import neighbour\ndef score(exchange): return neighbour.VALUE", neighbour="VALUE = 7")
    code = "from test_custom import score; from pathlib import Path; print(score(Path('.')).value)"
    environ = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("7.0\n", "")


SCORER = """
    raise AssertionError("validation does not run the module")
    from typing import Literal
    Style = Literal["strict", "lax"]
    LIMIT = 3

    def score(exchange, *, style: Style = "lax", top: int = LIMIT, share: "float" = 0.5, quiet: bool = False): ...
"""


def test_keyword_only_arguments_of_a_function_are_its_parameters(tmp_path):
    write(tmp_path, scorers=SCORER)
    definition = define_scorer(MetricEntry(name="own", scorer="scorers:score"), tmp_path)
    assert [(one.name, one.type, one.choices, one.default) for one in definition.parameters] == [
        ("style", str, ("strict", "lax"), "lax"),
        ("top", int, (), 3),
        ("share", float, (), 0.5),
        ("quiet", bool, (), False),
    ]


def test_parameters_reach_the_function(tmp_path):
    write(tmp_path, scorers="async def score(exchange, *, factor: float = 1): return 2 * factor")
    assert (score(tmp_path).value, score(tmp_path, factor=3.0).value) == (2.0, 6.0)


@pytest.mark.parametrize(
    ("signature", "fitting"),
    [
        ("(exchange, style)", "def score(exchange, *, style: str)"),
        ("(exchange, /, top, *, low=2)", "def score(exchange, *, top: str, low: int = 2)"),
        ("()", "def score(exchange)"),
        ("(*, style: str)", "def score(exchange, *, style: str)"),
        ("(exchange, *, client=None)", "def score(exchange, *, client: str)"),
        ("(exchange, *, styles: list[str])", "def score(exchange, *, styles: str)"),
        ("(exchange, *, top: int = 'many')", "def score(exchange, *, top: int)"),
        ("(exchange, *, top: int = len('a'))", "def score(exchange, *, top: int)"),
        ("(exchange, *, range: int = 3)", "def score(exchange, *, own_range: int = 3)"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_with_one_that_does(tmp_path, signature, fitting):
    write(tmp_path, scorers=f"def score{signature}: return 1")
    (problem,) = check_scorer(MetricEntry(name="own", scorer="scorers:score"), tmp_path)
    assert problem.endswith(f"; write {fitting}")
    write(tmp_path, scorers=f"{fitting}: return 1")
    assert check_scorer(MetricEntry(name="own", scorer="scorers:score"), tmp_path) == []


@pytest.mark.parametrize(
    "source",
    [
        "from functools import cache\n@cache\ndef score(a, b): ...",
        "def score(a, b): ...\nscore = score.__name__",
        "class score:\n    def __new__(cls, a, b): ...",
        "if True:\n    def score(a): ...\nelse:\n    def score(a, b): ...",
        "def score(exchange, client=None): ...",
        "def score(*exchanges): ...",
    ],
)
def test_a_function_that_may_fit_is_not_refused(tmp_path, source):
    write(tmp_path, scorers=source)
    assert check_scorer(MetricEntry(name="own", scorer="scorers:score"), tmp_path) == []
