"""Credentials of services: tokens that are renewed, certificates, and their absence from all that is written."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from conftest import Project
from evalspec.targets.http import credentials
from judge.test_chat import Asking
from judge.test_providers import assert_nowhere
from servers.job_desk import JobDesk, reply
from servers.service import wait_for

SECRET = "client-secret-4711"
PRINT = [sys.executable, "-c", "print('fleeting-' + 'token-1')"]


@pytest.fixture
def desk() -> Iterator[JobDesk]:
    with JobDesk() as server:
        yield server


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_SECRET", SECRET)


def oauth2(desk: JobDesk, **more: Any) -> dict[str, Any]:
    return {"oauth2": {"tokenUrl": f"{desk.url}/token", "clientId": "bot", "clientSecret": "$env:CLIENT_SECRET"} | more}


def at(project: Project, url: str, auth: Any, samples: int = 4, **endpoint: Any) -> None:
    project.api = {"url": url, "chatEndpoint": {"auth": auth, "maxRetries": 0, **endpoint}}
    project.samples(samples)
    project.evaluation |= {"thresholds": {"string_match": 1}, "ciGate": True}


def test_workers_share_one_token_which_is_in_no_file(project, desk):
    desk.script = [reply(503, "busy", Retry_After="0")]
    desk.accepts = {"fleeting-token-1"}
    desk.result = {"response": "Paris, said fleeting-token-1 with client-secret-4711"}
    at(project, desk.url, oauth2(desk, scope="ask", audience="bots"), samples=8)
    passed = project.evaluate("-j", "8", "--json", "-o", "report.html", "-o", "junit:junit.xml")
    assert passed.code == 0, passed
    [grant] = desk.grants
    basic = "Basic " + b64encode(f"bot:{SECRET}".encode()).decode()
    asked = {"grant_type": ["client_credentials"], "scope": ["ask"], "audience": ["bots"], "basic": [basic]}
    assert grant == asked and len(desk.heard) == 8
    for text in ("fleeting-token-1", SECRET, basic.partition(" ")[2]):
        assert_nowhere(text, passed, project.folder)


@pytest.mark.parametrize("send_in", ["header", "body"])
def test_a_client_secret_is_hidden_as_it_is_sent(project, desk, monkeypatch, send_in):
    secret = "p/q+r=s t"
    monkeypatch.setenv("CLIENT_SECRET", secret)
    pair = f"bot:{quote(secret, safe='')}"
    basic = b64encode(pair.encode()).decode()
    encoded = [basic, basic.rstrip("="), quote(secret, safe=""), quote_plus(secret)]
    desk.result = {"response": f"Paris, said {' and '.join(encoded)}"}
    at(project, desk.url, oauth2(desk, sendIn=send_in), samples=2)
    passed = project.evaluate("--json", "-o", "report.html")
    assert passed.code == 0, passed
    checked = project("doctor", project.write().name)
    desk.script = [reply(401, {"error": f"not {basic}", "error_description": encoded[2]})] * 9
    failed = project.evaluate()
    assert failed.code == 3 and "the reply says 'not [redacted]: [redacted]'" in " ".join(failed.out.split()), failed
    for text in encoded:
        for outcome in (passed, checked, failed):
            assert_nowhere(text, outcome, project.folder)


def test_a_token_is_renewed_before_it_expires_and_after_it_is_rejected(project, desk, monkeypatch):
    now = [1e9]
    monkeypatch.setattr(credentials, "time", lambda: now[0])
    desk.on_request = lambda: now.__setitem__(0, now[0] + 30)
    desk.grant["expires_in"] = 100  # renewed after 50 s, at half of its time
    at(project, desk.url, oauth2(desk, sendIn="body"))
    assert project.evaluate("-j", "1").code == 0
    assert desk.tokens() == [f"fleeting-token-{n}" for n in (1, 1, 2, 2)]
    assert desk.grants[0]["client_secret"] == [SECRET] and desk.grants[0]["basic"] == [""]
    desk.accepts, desk.grant["expires_in"] = {"fleeting-token-4"}, 10_000
    desk.heard.clear()
    assert project.evaluate("-j", "1").code == 0
    assert desk.tokens() == [f"fleeting-token-{n}" for n in (3, 4, 4, 4, 4)]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reply(401, {"error": "invalid_client", "error_description": SECRET}), "clientId and clientSecret; the reply"),
        (reply(400, {"error": "invalid_scope"}), "check chatEndpoint.auth.oauth2.clientId, scope and audience"),
        (reply(400, {"error": "invalid_scope", "error_description": "no such scope: ask"}),
         "the reply says 'invalid_scope: no such scope: ask'"),
        (reply(200, {"error": f"no {SECRET}"}), "answered 'no [redacted]'"),
        (reply(200, {"error": "no", "error_description": f"not {SECRET}"}), "answered 'no: not [redacted]'"),
        (reply(200, "access_token=fleeting-token-1"), "/token sent no access_token; check chatEndpoint.auth.oauth2"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_without_a_token_nothing_is_asked_and_the_cause_is_one_line(project, desk, answer, says):
    desk.script = [answer] * 9
    at(project, desk.url, oauth2(desk))
    failed = project.evaluate("-j", "2")
    assert failed.code == 3 and desk.heard == [] and len(desk.script) == 8, failed
    said = " ".join((failed.out + failed.err).split())
    assert said.count("there is no token: ") == 1 and says in said, said
    assert_nowhere(SECRET, failed, project.folder)
    assert "fleeting" not in said


@pytest.mark.parametrize("script", [[reply(503, "busy", Retry_After="100")] * 3, []], ids=["busy", "silent"])
def test_all_requests_for_a_token_share_the_time_of_one_request(project, desk, script):
    desk.script = script
    if not script:
        desk.grants_now.clear()
    at(project, desk.url, oauth2(desk), timeoutSeconds=0.5)
    started = perf_counter()
    failed = project.evaluate()
    desk.grants_now.set()
    said = " ".join((failed.out + failed.err).split())
    assert failed.code == 3 and desk.heard == [] and perf_counter() - started < 25, failed
    assert "there is no token: " in said and "/token gave none within 0.5 s (timeoutSeconds, at most 30 s)" in said
    assert "oauth2.timeoutSeconds" not in said


@pytest.mark.parametrize(
    ("lasts", "passes", "grants"),
    [(100.0, 30, 2), ("100", 30, 2), (0, 0, 4), (-5, 0, 4), ("-1e999", 0, 4), (True, 9, 1), ("soon", 9, 1),
     ("nan", 9, 1), (10**400, 9, 1), (40_000_000, 50_000_000, 1)],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_how_long_a_token_lasts(project, desk, monkeypatch, lasts, passes, grants):
    now = [1e9]
    monkeypatch.setattr(credentials, "time", lambda: now[0])
    desk.on_request = lambda: now.__setitem__(0, now[0] + passes)
    desk.grant["expires_in"] = lasts
    at(project, desk.url, oauth2(desk))
    assert project.evaluate("-j", "1").code == 0
    assert len(desk.grants) == grants and len(desk.heard) == 4


def test_a_program_that_is_missing_is_named(project, desk):
    at(project, desk.url, {"command": ["./nosuch", "print"]})
    failed = project.evaluate()
    said = " ".join((failed.out + failed.err).split())
    assert failed.code == 3 and desk.heard == [], failed
    assert "chatEndpoint.auth.command cannot be started: the program './nosuch' was not found" in said, said


def test_a_service_that_rejects_every_token_is_asked_twice(project, desk):
    desk.accepts = set()
    at(project, desk.url, oauth2(desk), samples=1)
    failed = project.evaluate()
    assert failed.code == 3 and desk.tokens() == ["fleeting-token-1", "fleeting-token-2"]
    assert "401 Unauthorized, expected 200; check chatEndpoint.auth" in failed.out + failed.err, failed


def test_a_judge_and_a_retriever_take_the_same_block(project, desk, judge):
    judge.api_key = "fleeting-token-1"
    config = {**oauth2(desk)["oauth2"], "clientSecret": SECRET}
    assert Asking(judge.url, api_key=None, auth={"oauth2": config})(3)[0]["value"] == "good"
    assert len(desk.grants) == 1
    desk.result = {"hits": ["d1"]}
    search = {"path": "/find", "request": {"q": "{{query}}"}, "response": {"ids": "$.hits[*]"}}
    http = {"url": desk.url, "search": search, "auth": {"command": PRINT, "header": "X-Api-Key"}}
    project.evaluation["retrievers"] = {"shop": {"http": http}}
    project.dataset("r", [{"id": "a", "relevant": ["d1"]}], metrics=["Recall@1"], retriever="shop")
    passed = project.evaluate()
    assert passed.code == 0, passed
    assert desk.heard[-1].headers["x-api-key"] == "fleeting-token-1" and desk.tokens()[-1] == ""


def test_an_untrusted_project_runs_no_command_and_chooses_no_host_and_no_file(project, desk):
    found = {"cert": "../client.pem"}
    at(project, desk.url, oauth2(desk) | {"certificate": found})
    project.evaluation["judge"] = {"model": "m", "baseUrl": desk.url, "auth": {"command": PRINT}}
    project.api["chatEndpoint"]["auth"]["oauth2"]["tokenUrl"] = "http://token.example/token"
    refused = project.evaluate("--untrusted", "--allow-host", "127.0.0.1", "--allow-env", "CLIENT_SECRET")
    assert refused.code == 2 and desk.heard == [] and desk.grants == []
    for field, says in {
        "spec.api.chatEndpoint.auth.oauth2.tokenUrl": "--untrusted does not connect to token.example",
        "spec.api.chatEndpoint.auth.certificate.cert": "reads only files in it",
        "spec.evaluation.judge.auth.command": "--untrusted does not run commands. write ${env:NAME} in headers",
    }.items():
        [line] = [line for line in refused.err.splitlines() if f" {field}: " in line]
        assert says in line


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ({}, "it names no credentials. add oauth2, command or certificate"),
        ({"command": ["a"], "oauth2": {"tokenUrl": "u", "clientId": "i", "clientSecret": "s"}}, "are two sources"),
        ({"oauth2": {"tokenUrl": "u", "clientId": "i"}}, "oauth2 has no clientSecret. add it, or a certificate"),
        ({"certificate": {"cert": "c"}, "header": "X"}, "header is that of a token. add oauth2 or command"),
        ({"comand": ["a"]}, "unknown key 'comand'. did you mean 'command'?"),
    ],
    ids=str,
)
def test_a_block_without_sense_is_an_error(project, auth, says):
    at(project, "http://127.0.0.1:9", auth)
    outcome = project.validate()
    assert outcome.code == 2 and says in outcome.out, outcome


def test_two_credentials_and_a_block_at_the_wrong_place_are_errors(project):
    at(project, "http://127.0.0.1:9", {"command": PRINT}, headers={"Authorization": "Bearer x"})
    assert "auth and headers.Authorization are two credentials of one request" in project.validate().out
    project.api["chatEndpoint"].pop("headers")
    project.api["auth"] = {"type": "oauth2", "header": "X-Key"}
    assert project.validate().code == 0, "AgentSpec's own keys"
    project.api["auth"] = {"command": PRINT}
    assert "use chatEndpoint.auth" in project.validate().out


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """server.pem, and client.pem whose key needs a password, each signed by itself."""
    folder = tmp_path_factory.mktemp("identities")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "3650"]
    for name, key in (("server", ["-nodes"]), ("client", ["-passout", f"pass:{SECRET}"])):
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", f"{name}-key.pem", "-out", f"{name}.pem"]
        subprocess.run([*new, *key, *subject, *files], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def demanding(identities: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The TLS of a service that only client.pem can open."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(identities / "client.pem"))
    tls.load_cert_chain(identities / "server.pem", identities / "server-key.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setenv("SSL_CERT_FILE", str(identities / "server.pem"))
    return tls


def test_the_alert_of_a_service_that_misses_a_certificate_is_explained_once(project, demanding):
    """The service reads the request that follows the alert. Otherwise the alert is lost now and then."""
    refused: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # the listener is closed
                while True:
                    with demanding.wrap_socket(listener.accept()[0], True, do_handshake_on_connect=False) as secured:
                        try:
                            secured.do_handshake()
                        except ssl.SSLError as error:
                            refused.append(str(error.reason))
                        while socket.socket.recv(secured, 4096):
                            pass

        threading.Thread(target=serve, daemon=True).start()
        project.api = {"url": f"https://localhost:{listener.getsockname()[1]}", "chatEndpoint": {"maxRetries": 2}}
        project.samples(1)
        outcome = project.evaluate()
    said = " ".join(outcome.out.split())
    assert outcome.code == 3 and "(TLSV13_ALERT_CERTIFICATE_REQUIRED); set auth.certificate" in said, outcome
    wait_for(lambda: refused)  # the service notes it after the alert has left
    assert refused == ["PEER_DID_NOT_RETURN_A_CERTIFICATE"]


def test_a_client_certificate_opens_the_service_and_the_token_endpoint(project, identities, demanding):
    for name in ("client.pem", "client-key.pem"):
        shutil.copy(identities / name, project.folder)
    certificate = {"cert": "$file:client.pem", "key": "client-key.pem", "password": "$env:CLIENT_SECRET"}
    with JobDesk(demanding) as desk:
        token = {"tokenUrl": f"{desk.url}/token", "clientId": "bot"}
        at(project, desk.url, {"certificate": certificate, "oauth2": token}, samples=2)
        passed = project.evaluate()
        assert passed.code == 0 and desk.tokens() == ["fleeting-token-1"] * 2, passed
        assert desk.grants[0]["client_id"] == ["bot"] and "client_secret" not in desk.grants[0]
        project.api["chatEndpoint"]["auth"] = {"certificate": {**certificate, "password": "wrong-password"}}
        wrong = project.evaluate()
        assert wrong.code == 2 and "chatEndpoint.auth: the client certificate cannot be loaded: " in wrong.err
        project.api["chatEndpoint"].pop("auth")
        without = project.evaluate()
        assert without.code == 3 and "set auth.certificate" in " ".join(without.out.split()), without
        assert len(desk.heard) == 2
