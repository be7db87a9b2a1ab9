"""The servers that all cells share, and a bench to run cells on."""

import ssl
from collections.abc import Iterator
from functools import cache

import pytest

from conftest import Project
from faults.bench import Bench
from faults.injected import InjectedAgent, InjectedJudge, closed_url, dataset
from faults.rules import METRICS


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[InjectedAgent, InjectedJudge, str]]:
    """One agent, one judge and an address without either."""
    with InjectedAgent() as agent, InjectedJudge() as judge, closed_url() as nobody:
        yield agent, judge, nobody


@pytest.fixture
def bench(
    project: Project, servers: tuple[InjectedAgent, InjectedJudge, str], monkeypatch: pytest.MonkeyPatch
) -> Bench:
    """Runs cells in one project, without what makes a run slow and says nothing here: back-off and reading the system's
    certificates."""
    monkeypatch.setattr("evalspec.targets.http.pacing.compute_backoff", lambda _failures: 0.01)
    monkeypatch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
    project.dataset("qa", dataset(), metrics=list(METRICS))
    return Bench(project, *servers)
