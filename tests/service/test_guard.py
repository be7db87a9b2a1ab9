"""What requests have to pass: hosts, origins, rates, bodies. And what responses have."""

import gzip
import json
import socket
from functools import partial

import httpx
import pytest
from fastapi.testclient import TestClient
from msgspec.structs import replace

from evalspec.service import guard, observing
from evalspec.service.app import create_app
from evalspec.service.audit import list_entries
from evalspec.service.rates import Rates
from evalspec.service.settings import ServiceLimits, parse_proxies
from evalspec.service.tokens import SESSION, Scope, create_token

OTHER_SITE = {"Origin": "https://evil.example"}


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture(autouse=True)
def one_minute(monkeypatch):
    """All requests of a test are in one minute: where another begins, a rate permits one more."""
    for module in (guard, observing):
        monkeypatch.setattr(module, "Rates", partial(Rates, clock=lambda: 30.0))


@pytest.fixture
def open_client(settings, engine):
    """A function that returns a client of the application with other settings."""

    def start(token=None, client=("203.0.113.9", 50_000), **changes):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        app = create_app(replace(settings, **changes), engine)
        return TestClient(app, base_url="http://localhost:8321", headers=headers, client=client)

    return start


@pytest.fixture
def token(engine):
    return create_token(engine, "ana@example.com", [Scope.ADMIN], ["shop"], 3600)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST.:99", 200), ("127.0.0.1:8321", 200), ("[::1]:1", 200), ("evals.example", 200),
     ("evil.example", 421), ("localhost.evil.example", 421), ("192.0.2.7", 421), ("0.0.0.0", 421),
     ("", 400), ("localhost@evil.example", 400), ("localhost:x", 400), ("local host", 400), ("localhost/a", 400)],
)  # fmt: skip
def test_only_own_names_are_served(open_client, host, status):
    with open_client(hosts=("evals.example",), host="0.0.0.0") as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_two_host_headers_are_refused(open_client):
    with open_client() as client:
        assert client.get("/healthz", headers=[("Host", "localhost"), ("Host", "evil.example")]).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 404), ({"Origin": "http://localhost:8321"}, 404), ({"Sec-Fetch-Site": "same-origin"}, 404),
     ({"Sec-Fetch-Site": "none"}, 404), (OTHER_SITE, 403), ({"Origin": "null"}, 403), ({"Origin": ""}, 403),
     ({"Origin": "https://localhost:8321"}, 403), ({"Origin": "http://localhost"}, 403),
     ({"Origin": "http://localhost:8321.evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
     ({"Sec-Fetch-Site": "same-site"}, 403),
     ({"Origin": "http://localhost:8321", "Sec-Fetch-Site": "cross-site"}, 403)],
)  # fmt: skip
def test_pages_of_other_sites_change_nothing(open_client, token, headers, status):
    with open_client(token) as client:
        assert client.post("/v1/jobs/run_0/cancel", headers=headers).status_code == status


def test_a_session_is_used_by_pages_of_this_server_only(open_client, engine):
    session = create_token(engine, "ana", [Scope.ADMIN], ["shop"], 3600, SESSION)
    cookie = {"Cookie": f"a=b; evalspec_session={session}"}
    with open_client() as client:
        statuses = {
            (method, *more.values()): client.request(method, "/v1/jobs/run_0" + path, headers=cookie | more).status_code
            for method, path in (("GET", ""), ("POST", "/cancel"))
            for more in ({}, OTHER_SITE, {"Origin": "http://localhost:8321"}, {"Sec-Fetch-Site": "cross-site"})
        }
    own, other = ("http://localhost:8321",), ("https://evil.example",)
    assert statuses == {
        ("GET",): 404, ("GET", *other): 403, ("GET", *own): 404, ("GET", "cross-site"): 403,
        ("POST",): 403, ("POST", *other): 403, ("POST", *own): 404, ("POST", "cross-site"): 403,
    }  # fmt: skip


def test_a_session_is_no_token_and_a_token_no_session(open_client, engine, token):
    session = create_token(engine, "ana", [Scope.ADMIN], ["shop"], 3600, SESSION)
    with open_client() as client:
        assert client.get("/v1/audit", headers={"Authorization": f"Bearer {session}"}).status_code == 401
        assert client.get("/v1/audit", headers={"Cookie": f"evalspec_session={token}"}).status_code == 401
        assert client.get("/v1/audit", headers={"Cookie": f"evalspec_session={session}"}).status_code == 200


def test_large_packed_and_endless_bodies(open_client, token):
    with open_client(token, limits=ServiceLimits(body_bytes=2000)) as client:
        large = json.dumps({"manifest": "x" * 3000})

        def in_parts():
            for start in range(0, len(large), 500):
                yield large[start : start + 500].encode()

        assert client.post("/v1/runs", content=large).status_code == 413
        parts = client.post("/v1/runs", content=in_parts())
        assert (parts.status_code, parts.headers["Content-Type"]) == (413, "application/problem+json")
        packed = client.post("/v1/runs", content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
        assert (packed.status_code, packed.headers["Accept-Encoding"]) == (415, "identity")
        assert client.post("/v1/runs", content=b"{}", headers={"Content-Length": "9" * 5000}).status_code == 413


def test_bodies_are_json_whatever_their_type(open_client, token):
    with open_client(token) as client:
        for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json", "*/*"):
            answer = client.post("/v1/runs", content=b'{"manifest": "none.yaml"}', headers={"Content-Type": kind})
            assert "none.yaml: no such manifest" in answer.json()["detail"], kind


def test_a_rate_per_token_with_the_time_to_wait(open_client, engine, token):
    other = create_token(engine, "ben", [Scope.ADMIN], ["shop"], 3600)
    with open_client(limits=ServiceLimits(requests_a_minute=5)) as client:

        def ask(given):
            return client.get("/v1/jobs/x", headers={"Authorization": f"Bearer {given}"})

        statuses = [ask(token).status_code for _ in range(7)]
        assert statuses == [404] * 5 + [429] * 2
        assert 1 <= int(ask(token).headers["Retry-After"]) <= 120
        assert ask(other).status_code == 404
        assert client.get("/healthz").status_code == 200
        refused = client.get("/v1/audit?status=429", headers={"Authorization": f"Bearer {other}"}).json()["entries"]
    assert len(refused) <= 1, "a flood does not fill the log"


def test_one_token_has_one_rate_however_it_is_written(open_client, engine, token):
    session = create_token(engine, "ana", [Scope.READ], ["shop"], 3600, SESSION)
    with open_client(limits=ServiceLimits(requests_a_minute=2)) as client:
        for forms in (
            [{"Authorization": f"{scheme} {token}"} for scheme in ("Bearer", "bearer", "BEARER ")],
            [
                {"Cookie": f"{before}evalspec_session={session}; b={n}"}
                for n, before in enumerate(("", "a=1; ", "c=2; "))
            ],
        ):
            assert [client.get("/v1/jobs/x", headers=headers).status_code for headers in forms] == [404, 404, 429]


def test_failed_logins_stop_an_address_but_not_the_tokens_that_work_there(open_client, token, monkeypatch):
    monkeypatch.setattr(guard, "FAILURES_A_MINUTE", 3)
    with open_client() as client:
        good = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/jobs/x", headers=good).status_code == 404
        assert client.get("/v1/audit", headers=good).status_code == 200
        wrong = [client.get("/v1/audit", headers={"Authorization": f"Bearer evs_x_{n}"}).status_code for n in range(5)]
        assert wrong == [401] * 3 + [429] * 2
        assert client.get("/v1/audit", headers=good).status_code == 200
        entries = client.get("/v1/audit", headers=good).json()["entries"]
        assert entries == [], "refusals of strangers belong to no namespace"


def test_strangers_do_not_fill_the_audit_log(open_client, engine, token, monkeypatch):
    monkeypatch.setattr(observing, "REFUSALS_A_MINUTE", 5)
    with open_client(token, proxies=parse_proxies(["203.0.113.0/24"])) as client:
        for path in ("/v1/none", "/none", "/v1/runs/x/none", "/healthz", "/v1/audit"):
            assert client.post(path).status_code in (404, 405)
        client.post("/v1/jobs/run_0/cancel")
        strange = {"Authorization": "Bearer evs_x_y"}
        for n in range(12):
            own = strange | {"X-Forwarded-For": f"198.51.100.{n}"}
            assert client.post("/v1/none", headers=own).status_code == 404
            assert client.post("/healthz", headers=own).status_code == 405
            assert client.post("/v1/runs", content="{", headers=own).status_code == 400
            assert client.get("/v1/jobs/x", headers=own).status_code == 401
        client.get("/v1/audit?everything=true")
    found = [(entry.action, entry.status) for entry in list_entries(engine, None)]
    assert found == [("GET /v1/audit", 403), *[("GET /v1/jobs/{job_id}", 401)] * 5,
                     ("POST /v1/jobs/{job_id}/cancel", 404)]  # fmt: skip


def test_rates_slide_and_forget_the_least_used():
    now = [0.0]
    rates = Rates(10, clock=lambda: now[0], most_keys=2)
    assert [rates.take("a") for _ in range(10)] == [None] * 10
    excess = rates.take("a")
    assert (excess.seconds, excess.is_first, rates.take("a").is_first) == (60.0, True, False)
    now[0] = 90.0  # half of the window before counts
    assert [rates.take("a") is None for _ in range(6)] == [True] * 5 + [False]
    assert rates.find_excess("a").seconds == pytest.approx(0.0, abs=0.01)
    rates.take("b")
    rates.take("c")
    assert rates.take("a") is None, "forgotten"


def test_forwarded_headers_count_from_trusted_proxies_only(open_client, token, engine):
    sent = {"X-Forwarded-For": "198.51.100.1, 198.51.100.2", "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "evil.example", "Forwarded": "for=198.51.100.3;host=evil.example"}  # fmt: skip
    seen = {}
    for name, proxies in (("trusted", ["203.0.113.0/24"]), ("other", ["192.0.2.1"]), ("none", [])):
        with open_client(token, proxies=parse_proxies(proxies)) as client:
            own = {"Origin": "https://localhost:8321"}
            status = client.post("/v1/jobs/run_0/cancel", headers=sent | own).status_code
            seen[name] = status, list_entries(engine, None)[0].address
    assert seen == {
        "trusted": (404, "198.51.100.2"),
        "other": (403, "203.0.113.9"),
        "none": (403, "203.0.113.9"),
    }


def test_every_response_has_the_headers(open_client, token):
    with open_client(token) as client:
        answers = [client.get("/healthz"), client.get("/v1/none"), client.post("/v1/runs", content="{"),
                   client.get("/healthz", headers={"Host": "x"}), client.get("/login"), client.get("/v1/jobs/a%00b"),
                   client.get("/v1/audit?user=%00")]  # fmt: skip
    for answer in answers:
        headers = answer.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert len(headers["X-Request-ID"]) == 16
    assert [answer.status_code for answer in answers] == [200, 404, 400, 421, 200, 400, 400]
    assert len({answer.headers["X-Request-ID"] for answer in answers}) == len(answers)


def test_a_fault_is_answered_and_logged_without_content(open_client, token, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("the secret answer")

    monkeypatch.setattr("evalspec.service.run_index.RunIndex.find", fail)
    caplog.set_level("INFO", "evalspec.service")
    with open_client(token) as client:
        answer = client.get("/v1/runs/run_1/samples?text=hidden")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["X-Request-ID"] in answer.json()["detail"]
    line = next(record for record in caplog.records if record.getMessage() == "request").fields
    assert (line["route"], line["status"], line["namespace"]) == ("/v1/runs/{run_id}/samples", 500, "shop")
    assert "run_1" not in str(line)
    assert "hidden" not in caplog.text


def test_the_real_server_survives_malformed_requests(serve):
    started = serve()
    for sent in (
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://evil.example/healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"\x00\xff\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", started.port), timeout=20) as raw:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            got = b"".join(iter(partial(raw.recv, 65_536), b""))
        assert not got.startswith(b"HTTP/1.1 5"), sent
        assert (b" 200 " in got.partition(b"\r\n")[0]) == (b"Upgrade" in sent), sent
    assert httpx.get(f"{started.url}/healthz", timeout=60).status_code == 200
