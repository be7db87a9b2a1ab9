"""The doors themselves: who forgets to validate is stopped there."""

import ast
import asyncio
import json
import re
from functools import cache
from pathlib import Path

import httpx
import pytest

import evalspec
from evalspec.base.errors import RetrieverError
from evalspec.base.registry import Registry
from evalspec.base.trust import Act, Host, Refused, Trust, explain, limiting, parse_host
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.inputs.manifest.references import References, UnresolvedReference
from evalspec.inputs.manifest.retriever_schema import QdrantOptions
from evalspec.inputs.user_code.calls import UserCode
from evalspec.scoring.judge.endpoint import Endpoint
from evalspec.scoring.judge.services import JudgeServices
from evalspec.targets.http.client import open_client
from evalspec.targets.http.routes import choose_route
from evalspec.targets.process import AgentProcess
from evalspec.targets.retrievers.qdrant import QdrantRetriever
from evalspec.targets.retrievers.vectors import TextVectors

PACKAGE = Path(evalspec.__file__).parent


@pytest.fixture
def limited(tmp_path):
    with limiting(Trust(is_limited=True, folders=(tmp_path.resolve(),), here=tmp_path.resolve())):
        yield


@pytest.mark.usefixtures("limited")
class TestDoors:
    def test_code(self, tmp_path):
        (tmp_path / "mine.py").write_text("open('imported', 'w')")
        with pytest.raises(RetrieverError, match="does not import the project's code"):
            UserCode("mine:run", tmp_path, RetrieverError).load()
        assert not (tmp_path / "imported").exists()

    def test_command(self, tmp_path, agent):
        process = AgentProcess(["touch", "started"], tmp_path, agent.url, 1.0, None)
        with pytest.raises(Refused, match="does not start commands"):
            asyncio.run(process.start_if_needed())
        assert not (tmp_path / "started").exists()

    def test_agent_and_retriever(self, agent):
        async def send():
            async with open_client({}, choose_route(agent.url)) as client:
                await client.post(agent.url, content=b"{}")

        with pytest.raises(Refused, match=r"does not connect to 127\.0\.0\.1"):
            asyncio.run(send())
        assert agent.requests == []

    def test_judge_and_embeddings(self, agent):
        async def send():
            await Endpoint("the judge", "spec", "chat", JudgeConfig(base_url=agent.url), 1).post({})

        with pytest.raises(Refused, match=r"does not connect to 127\.0\.0\.1"):
            asyncio.run(send())
        assert agent.requests == []

    @pytest.mark.parametrize(
        ("place", "message"), [("url", r"does not connect to 127\.0\.0\.1"), ("path", "does not write a store")]
    )
    def test_qdrant(self, agent, tmp_path, place, message):
        pytest.importorskip("qdrant_client")
        options = QdrantOptions(builtin="qdrant", **{place: agent.url if place == "url" else str(tmp_path / "store")})

        async def prepare():
            vectors = TextVectors(JudgeServices(None, EmbeddingsConfig()).embedder, {})
            await QdrantRetriever(options, vectors).delete("eval:")

        with pytest.raises(Refused, match=message):
            asyncio.run(prepare())
        assert agent.requests == []
        assert not (tmp_path / "store").exists()

    def test_variables(self, tmp_path):
        references = References(tmp_path, {"TOKEN": "hunter2", "AGENTSPEC_SECRET_KEY": "hunter2"})
        for text in ("$env:TOKEN", "$secret:key", "Bearer ${env:TOKEN}"):
            with pytest.raises(UnresolvedReference, match="does not read the variable"):
                references.resolve(text)

    def test_datasets(self, tmp_path, tmp_path_factory):
        outside = tmp_path_factory.mktemp("outside") / "d.jsonl"
        outside.write_text(json.dumps({"input": "q", "expected": "a"}))
        (tmp_path / "d.jsonl").symlink_to(outside)
        for path in (outside, tmp_path / "d.jsonl", tmp_path / ".." / outside.parent.name / "d.jsonl"):
            data = load_dataset(Source(path, "d"))
            assert data.samples == ()
            assert "outside" in data.problems[0].message

    def test_plugins_that_are_loaded_already(self, monkeypatch):
        registry: Registry[int] = Registry("thing", "evalspec.things")
        registry.add("own", 1)
        monkeypatch.setattr("evalspec.base.registry.entry_points", lambda **_group: [Plugin()])
        assert registry.find("foreign") is None
        with limiting(Trust()):
            assert registry.find("foreign") == 2
        assert registry.find("foreign") is None
        assert (registry.names(), list(registry)) == (["own"], [1])
        assert registry.hint("x") == "known: own (--untrusted uses no plugins)"


class Plugin:
    name, group, dist = "foreign", "evalspec.things", None

    def load(self):
        return lambda registry: registry.add("foreign", 2)


@pytest.mark.parametrize(
    "url",
    [
        "http://allowed.com@evil.com/",
        "http://evil.com#allowed.com",
        "http://evil.com?allowed.com",
        "http://evil.com\\@allowed.com",
        "http://allowed.com.evil.com",
        "http://sub.allowed.com",
        "http://[::1]/",
        "http://127.1",
        "http://2130706433",
        "//",
        "",
    ],
)
def test_a_url_that_only_looks_like_the_allowed_host(url):
    with limiting(Trust(is_limited=True, hosts=frozenset({Host("allowed.com")}))):
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            return
        if parsed.host != "allowed.com":
            assert explain(Act.CONNECT, f"{parsed.scheme}://{parsed.netloc.decode()}") is not None


@pytest.mark.parametrize(
    ("allowed", "url", "is_permitted"),
    [
        ("example.com", "https://EXAMPLE.com./v1", True),
        ("example.com", "https://example.com:8443/v1", True),
        ("example.com:443", "https://example.com/v1", True),
        ("example.com:443", "http://example.com/v1", False),
        ("[::1]:80", "http://[::1]/", True),
        ("bücher.example", "https://xn--bcher-kva.example", True),
        ("localhost", "http://127.0.0.1", False),
    ],
)
def test_hosts_and_ports(allowed, url, is_permitted):
    with limiting(Trust(is_limited=True, hosts=frozenset({parse_host(allowed)}))):
        assert (explain(Act.CONNECT, url) is None) == is_permitted


@cache
def read_package() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}


def calls(name: str) -> list[tuple[str, ast.Call]]:
    """Where the package calls something of that name."""
    called = re.compile(rf"\b{name}\(")
    return [
        (module, node)
        for module, text in read_package().items()
        if called.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and name == getattr(node.func, "attr", getattr(node.func, "id", ""))
    ]


def test_there_are_no_other_doors():
    """New code that starts, imports or connects has to come by one of these."""
    # The service and the bridge to Ray start themselves: no project has a say in it.
    own = {"service/serving.py", "service/isolation.py", "runs/cluster/driver.py"}
    assert {module for module, _ in calls("Popen")} == {"targets/process.py", "targets/http/credentials.py", *own}
    assert {module for module, _ in calls("entry_points")} == {"base/registry.py"}
    assert not [name for name in ("run_path", "exec", "eval", "system", "Client") if calls(name)]
    assert {module for module, _ in calls("run_module")} == {"service/child_process.py"}, "for modules of evalspec"
    clients = [(module, call) for module, call in calls("AsyncClient") if "http_client" not in ast.unparse(call)]
    assert {module for module, _ in clients} == {"targets/http/client.py"}
    opened = [*clients, *calls("create")]  # the latter: qdrant-client's
    by_route = [[ast.unparse(one.value) for one in call.keywords if one.arg is None] for _, call in opened]
    assert sum(options[-1].endswith("client_options") for options in by_route if options) == 2
