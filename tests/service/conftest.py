import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine

import evalspec
from evalspec.model import Run
from evalspec.service import jobs
from evalspec.service.database import SQLITE, migrate, open_database
from evalspec.service.job_calls import JobCalls
from evalspec.service.job_process import Lease, Work, run_job
from evalspec.service.settings import ServiceLimits, ServiceSettings, parse_projects
from evalspec.service.stores import register_stores
from evalspec.service.tokens import Scope, create_token
from servers.faulty_agent import FaultyAgent
from servers.postgres import Cluster, open_cluster
from servers.service import LocalServer, Server, write_project


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return str(request.getfixturevalue("cluster").create_database())


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces trust each other. The folders of tests are closed to other users."""
    monkeypatch.setenv("EVALSPEC_ISOLATION", "off")


@pytest.fixture
def projects(tmp_path: Path, agent: FaultyAgent) -> dict[str, Path]:
    """Two namespaces, each with a project of its own."""
    return {name: write_project(tmp_path / name, agent.url) for name in ("shop", "docs")}


@pytest.fixture
def settings(projects: dict[str, Path], database: str) -> ServiceSettings:
    given = parse_projects(f"{name}={folder}" for name, folder in projects.items())
    return ServiceSettings(given, database, lease_seconds=5, limits=ServiceLimits(requests_a_minute=100_000))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of SQLite with all tables and no rows: a copy costs a tenth of the migrations."""
    file = tmp_path_factory.mktemp("migrated") / "service.db"
    engine = open_database(f"sqlite:///{file}")
    migrate(engine)
    engine.dispose()
    return file


@pytest.fixture
def engine(settings: ServiceSettings, migrated: Path) -> Iterator[Engine]:
    engine = open_database(settings.database)
    if engine.url.get_backend_name() == SQLITE:
        shutil.copy(migrated, str(engine.url.database))
    migrate(engine)
    register_stores(engine, settings.projects.values())
    yield engine
    engine.dispose()


@pytest.fixture
def work(settings: ServiceSettings, engine: Engine) -> Callable[..., None]:
    """A function that does the waiting jobs here, as a worker has them done by processes.

    A job reports its progress when it renews its lease.
    """

    def do_all(lease_seconds: float = 60) -> None:
        while job := jobs.claim(engine, "worker", dict.fromkeys(settings.projects, 1), lease_seconds):
            lease = Lease(JobCalls(engine, job, lease_seconds), lease_seconds)
            project = settings.projects[job.namespace]
            with chdir(project.folder):
                run_job(Work(job, project, lease))
            lease.close()

    return do_all


@pytest.fixture
def client(settings: ServiceSettings, engine: Engine) -> Iterator[Any]:
    """A client of the application in this process, as admin of namespace shop. Without workers: jobs stay pending."""
    from fastapi.testclient import TestClient

    from evalspec.service.app import create_app

    token = create_token(engine, "ana@example.com", [Scope.ADMIN], ["shop"], 3600)
    with TestClient(
        create_app(settings, engine),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {token}"},
        raise_server_exceptions=False,
    ) as client:
        yield client


@pytest.fixture
def server(projects: dict[str, Path], database: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """A function that starts a server. All of them end with the test."""
    started = []

    def start(*arguments: str) -> Server:
        server = Server(projects, database, tmp_path / "server.log", *arguments)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGCONT)
            server.stop()


@pytest.fixture
def serve(settings: ServiceSettings, engine: Engine) -> Iterator[Callable[..., LocalServer]]:
    """A function that starts a server in this process, with other limits. It has no workers: jobs stay pending."""
    with ExitStack() as ending:

        def start(**limits: int) -> LocalServer:
            given = replace(settings, limits=replace(settings.limits, **limits))
            return ending.enter_context(LocalServer(given, engine))

        yield start


@pytest.fixture
def add_run(projects: dict[str, Path]) -> Callable[..., Run]:
    """A function that makes a run as the command line does. The agent gives one answer; None: that of the manifest."""

    def add(answer: str | None = "Paris", namespace: str = "shop", **options: Any) -> Run:
        folder = projects[namespace]
        agent = None if answer is None else lambda question: answer
        return evalspec.evaluate(folder / "agent.yaml", agent=agent, store=folder / ".evalspec", **options)

    return add
