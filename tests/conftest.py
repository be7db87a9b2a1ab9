"""A project on disk, and the command line run inside it."""

import json
import marshal
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

import evalspec
from evalspec.cli.main import run
from evalspec.targets.http import pacing
from left_out import FIRST, explain_left_out
from servers.faulty_agent import FaultyAgent
from servers.scripted_judge import ScriptedJudge

settings.register_profile(
    "evalspec", deadline=None, max_examples=40
)  # the machines are shared: how long an example takes says nothing
settings.register_profile("quick", deadline=None, max_examples=20, derandomize=True, database=None)  # of `make test`
settings.load_profile("evalspec")


PACKAGE = Path(evalspec.__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` does not even import a file that it leaves out, which saves a seventh of its collection."""
    if config.option.markexpr != "not slow" or not collection_path.is_relative_to(config.rootpath):
        return None
    return True if explain_left_out(collection_path.relative_to(config.rootpath).as_posix()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, and let the longest tests begin."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    for item in items:
        if explain_left_out(item.nodeid):
            item.add_marker(pytest.mark.slow)


_BEFORE = pytest.StashKey[set[tuple[Path, int]]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.stash[_BEFORE] = list_package()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session whose tests changed the package, or left bytecode in it that Python cannot load."""
    if hasattr(session.config, "workerinput"):
        return
    changed = sorted(path.name for path, _ in session.stash[_BEFORE] ^ list_package())
    broken = [path.name for path in PACKAGE.rglob("*.pyc") if not is_loadable(path)]
    if changed or broken:
        raise pytest.UsageError(f"the tests changed the package: {[*changed, *broken]}")


def list_package() -> set[tuple[Path, int]]:
    return {(path, path.stat().st_size) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def is_loadable(bytecode: Path) -> bool:
    try:
        marshal.loads(bytecode.read_bytes()[16:])
    except (EOFError, ValueError, TypeError):
        return False
    return True


@pytest.fixture(autouse=True, scope="session")
def quick_backoff() -> Iterator[None]:
    """In the process of the tests, a failed request is repeated after a tenth of the usual time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FIRST_BACKOFF_SECONDS", "_JITTER_SECONDS"):
            patch.setattr(pacing, name, getattr(pacing, name) / 10)
        yield


@pytest.fixture(autouse=True, scope="session")
def sessions_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A session of pytest that a test starts has its folders here, and deletes none of earlier sessions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path_factory.mktemp("sessions")))
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own shell reaches a test."""
    for name in list(os.environ):
        if name.startswith(("EVALSPEC_", "OPENAI_", "AGENTSPEC_")) or name in (
            "NO_COLOR",
            "FORCE_COLOR",
            "CI",
            "GITHUB_ACTIONS",
            "GITLAB_CI",
            "TF_BUILD",
            "CIRCLECI",
            "BITBUCKET_BUILD_NUMBER",
            "BUILDKITE",
            "JENKINS_URL",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("EVALSPEC_NO_CACHE", "1")  # scripted judges are asked; tests of the cache delete this


@pytest.fixture
def with_controls() -> None:
    """Let judges score control cases, as they do for users."""


@pytest.fixture(autouse=True)
def without_controls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No control cases, so that a test sees only what it asks of a judge, unless it asks for `with_controls`."""
    if "with_controls" in request.fixturenames:
        return

    async def check_nothing(*_session: object) -> tuple[()]:
        return ()

    monkeypatch.setattr("evalspec.runs.runner.execute.check_judge", check_nothing)
    forecaster = "evalspec.runs.planning.judge_forecasts.JudgeForecaster"
    monkeypatch.setattr(f"{forecaster}.foresee_controls", lambda *_dataset: [])


@pytest.fixture
def agent() -> Iterator[FaultyAgent]:
    """An agent on loopback that answers well until told otherwise."""
    with FaultyAgent() as server:
        yield server


@pytest.fixture
def judge() -> Iterator[ScriptedJudge]:
    """A judge on loopback that follows simple rules until told otherwise."""
    with ScriptedJudge() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from chromium import open_browser  # Playwright is slow to import, and few tests need it

    with open_browser() as opened:
        yield opened


@dataclass
class Outcome:
    """What one command line gave."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as exactly one JSON document."""
        return json.loads(self.out)


@dataclass
class Project:
    """A folder with a manifest; `evaluation` is its spec.evaluation, `api` its spec.api."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    api: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict)

    def dataset(self, name: str, samples: list[dict[str, Any]] | bytes, **config: Any) -> None:
        """Add a dataset of the given lines; `input` and `expected` have defaults."""
        path = self.folder / f"{name}.jsonl"
        if isinstance(samples, bytes):
            path.write_bytes(samples)
        else:
            asked = ["Capital of France?", *(f"Capital of France? {n}" for n in range(1, len(samples)))]
            lines = [{"input": text, "expected": "Paris"} | one for text, one in zip(asked, samples, strict=False)]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self.evaluation.setdefault("datasets", []).append({"name": name, "path": f"$file:{path.name}"} | config)

    def samples(
        self, count: int, name: str = "qa", *, metrics: tuple[Any, ...] = ("string_match",), **fields: Any
    ) -> None:
        """Add a dataset of `count` samples with the ids s0, s1, …"""
        self.dataset(name, [{"id": f"s{n}", **fields} for n in range(count)], metrics=list(metrics))

    def write(self) -> Path:
        """Write agent.yaml."""
        head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "bot"}}
        path = self.folder / "agent.yaml"
        path.write_text(
            yaml.safe_dump(head | {"spec": {"api": self.api, "evaluation": self.evaluation}}, sort_keys=False)
        )
        return path

    def __call__(self, *arguments: str) -> Outcome:
        """Run `evalspec` here, in this process."""
        self.capsys.readouterr()
        code = run(arguments)
        captured = self.capsys.readouterr()
        return Outcome(int(code), captured.out, captured.err)

    def evaluate(self, *arguments: str) -> Outcome:
        """Write the manifest and run `evalspec evaluate` on it."""
        self.write()
        return self("evaluate", "agent.yaml", *arguments)

    def validate(self, *arguments: str) -> Outcome:
        """Write the manifest and run `evalspec validate` on it."""
        self.write()
        return self("validate", "agent.yaml", *arguments)


def without_few(notes: list[str]) -> list[str]:
    """The notes of a run but for the cautions about few samples and copies, which small test datasets get."""
    return [note for note in notes if "independent sample" not in note and "copies of each other" not in note]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Project]:
    """A project without datasets; its agent has no url yet."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield Project(tmp_path, capsys)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(tmp_path)):
            del sys.modules[name]
