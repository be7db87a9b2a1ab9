"""Proxies and certificates of the environment: what is used for which url, and what is said of those that cannot be."""

import asyncio

import pytest

from evalspec.base.errors import InvalidInput, ServiceError
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import HttpAgent
from evalspec.targets.http.routes import choose_route, proxy_for
from servers.faulty_agent import FaultyAgent, status

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def proxy(monkeypatch):
    """A server to which every request goes that may go through a proxy."""
    with FaultyAgent() as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, server.url.replace("//", "//user:hush@"))
        yield server


def fail(url: str) -> str:
    async def ask() -> None:
        worker = HttpAgent(AgentTarget(url, ChatEndpoint(), {}), choose_route(url))
        try:
            await worker.ask(Sample("s1", "?"))
        finally:
            await worker.aclose()

    with pytest.raises(ServiceError) as caught:
        asyncio.run(ask())
    return str(caught.value)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "bot.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
def test_loopback_is_asked_directly(monkeypatch, host):
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid:3128")
    assert proxy_for(f"http://{host}:4000/v1") is None
    assert proxy_for("http://agent.example") == "http://proxy.invalid:3128"


def test_no_proxy_is_honoured(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy.invalid:3128")
    monkeypatch.setenv("NO_PROXY", ".internal.example,10.0.0.7")
    asked = ["https://a.internal.example", "https://10.0.0.7:8443", "https://example.com", "http://example.com"]
    assert [proxy_for(url) for url in asked] == [None, None, "http://proxy.invalid:3128", None]


def test_loopback_behind_a_proxy_answers(project, proxy, agent):
    project.api["url"] = agent.url
    project.samples(1)
    assert project.evaluate().code == 0
    assert proxy.requests == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_says_that_it_answered(proxy, scheme):
    proxy.mode = status(502)
    line = fail(f"{scheme}://agent.invalid/v1")
    assert f"the proxy {proxy.url}" in line and "answered" in line
    assert "NO_PROXY excludes hosts" in line
    assert "hush" not in line


def test_a_proxy_that_is_down_is_named(monkeypatch):
    with FaultyAgent() as gone:
        monkeypatch.setenv("HTTP_PROXY", gone.url)
    assert f"cannot connect to the proxy {gone.url} for http://agent.invalid" in fail("http://agent.invalid/v1")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1080", "ALL_PROXY: a socks5 proxy needs the package socksio"),
        ("HTTPS_PROXY", "gopher://proxy:70", "HTTPS_PROXY: gopher://proxy:70 is not a proxy's url"),
        ("SSL_CERT_FILE", "/none/there.pem", "SSL_CERT_FILE: /none/there.pem: no such file"),
        ("SSL_CERT_FILE", __file__, f"SSL_CERT_FILE: {__file__}: "),
    ],
)
def test_what_cannot_be_used_is_known_before_anything_is_asked(project, monkeypatch, agent, name, value, says):
    monkeypatch.setenv(name, value)
    project.samples(1)
    project.api["url"] = "https://agent.invalid"
    done = project.evaluate()
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert says in done.err
    project.api["url"] = agent.url
    assert project.evaluate().code == 0
    with pytest.raises(InvalidInput):
        choose_route("https://agent.invalid")
