"""Login links, sessions, and the commands of tokens."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from evalspec.cli.main import run
from evalspec.service.audit import list_entries
from evalspec.service.people import list_people, welcome
from evalspec.service.sessions import create_link
from evalspec.service.tokens import (
    LOGIN,
    SESSION,
    Scope,
    create_token,
    list_tokens,
    parse_id,
    purge_tokens,
    revoke_token,
)

OWN = {"Origin": "http://localhost"}


@pytest.fixture
def browser(client):
    """The client without its token."""
    del client.headers["Authorization"]
    return client


def test_a_link_opens_one_session_that_ends_with_logout(browser, engine):
    link = create_link(engine, "ana <b>", [Scope.ADMIN], ["shop"])
    shown = browser.get(link)
    assert '<form method="post">' in shown.text
    assert "set-cookie" not in shown.headers, "programs that look at links do not use them up"
    entered = browser.post(link, headers=OWN)
    assert entered.status_code == 200
    assert "ana &lt;b&gt;" in entered.text
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert browser.get("/v1/audit").status_code == 200
    again = browser.post(link, headers=OWN)
    assert (again.status_code, again.json()["title"]) == (401, "Unauthorized")
    kept = dict(browser.cookies)
    assert browser.post("/logout", headers=OWN).status_code == 204
    assert not browser.cookies
    browser.cookies.update(kept)
    assert browser.get("/v1/audit").status_code == 401, "it is revoked, not only forgotten"


def test_a_link_is_for_its_time_and_for_login_only(browser, engine):
    expired = create_token(engine, "ana", [Scope.ADMIN], None, -1, LOGIN)
    refused = browser.post(f"/login?code={expired}", headers=OWN | {"Accept": "text/html"})
    assert (refused.status_code, "the link is used or expired" in refused.text) == (401, True)
    code = create_link(engine, "ana", [Scope.ADMIN], None).partition("=")[2]
    assert browser.get("/v1/audit", headers={"Authorization": f"Bearer {code}"}).status_code == 401
    assert browser.post(f"/login?code={code}", headers={"Origin": "https://evil.example"}).status_code == 403
    token = create_token(engine, "ana", [Scope.ADMIN], None, 3600)
    assert browser.post(f"/login?code={token}", headers=OWN).status_code == 401
    assert browser.post("/logout", headers={"Authorization": f"Bearer {token}"}).status_code == 400
    assert browser.post("/login", headers=OWN).status_code == 401


def test_the_cookie_is_for_tls_only_behind_it(settings, engine):
    from fastapi.testclient import TestClient

    from evalspec.service.app import create_app

    link = create_link(engine, "ana", [Scope.READ], ["shop"])
    with TestClient(create_app(settings, engine), base_url="https://localhost") as client:
        assert "Secure" in client.post(link, headers={"Origin": "https://localhost"}).headers["set-cookie"]
        assert client.get("/v1/jobs/x").status_code == 404
        assert client.get("/v1/audit").status_code == 403, "the session has the scopes of the link"


def test_tokens_are_purged_long_after_they_ended(engine):
    create_token(engine, "old", [Scope.READ], None, -31 * 86_400)
    create_token(engine, "recent", [Scope.READ], None, -29 * 86_400)
    create_token(engine, "valid", [Scope.READ], None, 60)
    assert purge_tokens(engine, 30) == 1
    assert {caller.user for caller, *_ in list_tokens(engine)} == {"recent", "valid"}


def test_the_commands_of_tokens(settings, engine, client, capsys):
    def token(*arguments):
        code = run(["token", *arguments, "--database", settings.database])
        return code, *capsys.readouterr()

    made = ("create", "--scope", "read", "--namespace", "shop", "--user")
    created = json.loads(token(*made, "ben@example.com", "--json")[1])
    assert created["token"].startswith(f"evs_{created['id']}_")
    bearer = {"Authorization": f"Bearer {created['token']}"}
    assert client.get("/v1/jobs/x", headers=bearer).status_code == 404
    listed = token("list", "--json")[1]
    assert created["token"].removeprefix(f"evs_{created['id']}_") not in listed + str(list_entries(engine, None))
    assert {row["id"]: row["lastLogin"] for row in json.loads(listed)["tokens"]}[created["id"]] is None
    assert re.search(r"token ben@example.com read shop expires \S+ no login\n", token("list")[1])
    welcome(engine, "Ben@Example.com")
    logins = {row["user"]: row["lastLogin"] for row in json.loads(token("list", "--json")[1])["tokens"]}
    assert (logins["ana@example.com"], logins["ben@example.com"][:2]) == (None, "20")
    assert f"last login {logins['ben@example.com']}" in token("list")[1]
    assert token("revoke", created["id"])[0] == 0
    assert client.get("/v1/jobs/x", headers=bearer).status_code == 401
    assert "there is no valid token" in token("revoke", created["id"])[2]
    code, out, error = token("create", "--user", "b", "--scope", "read", "--namespace", "shpo")
    assert (code, out) == (2, "")
    assert re.search("no namespace is named 'shpo'.*shop", error)
    path = token(*made, "cy", "--login")[1].strip()
    create_token(engine, "dee", [Scope.ADMIN], None, 600, SESSION, granted_by="dee")
    assert re.search(r"session dee of the roles all namespaces expires \S+ no login\n", token("list")[1])
    granted = {row["user"]: row["grantedBy"] for row in json.loads(token("list", "--json")[1])["tokens"]}
    assert (granted["dee"], granted["ben@example.com"]) == ("dee", None)
    del client.headers["Authorization"]
    assert client.post(path, headers=OWN).status_code == 200
    assert {"token create", "token revoke", "login link create"} <= {one.action for one in list_entries(engine, None)}


@pytest.mark.parametrize("given", ["create --user ana --scope read --all-namespaces", "list", "revoke 0123456789ab"])
def test_a_folder_without_a_server_gets_no_database(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    assert run(["token", *given.split()]) == 2
    printed = capsys.readouterr()
    assert (printed.out, list(tmp_path.iterdir())) == ("", [])
    assert "there is no database .evalspec/service.db in this folder. run this where `evalspec serve`" in printed.err


def test_a_token_is_revoked_once(engine):
    id = create_token(engine, "ana", [Scope.READ], None, 60).split("_")[1]
    assert [revoke_token(engine, id) for _ in range(2)] == [True, False]


def test_changes_of_one_person_at_the_same_time_are_all_answered(serve, engine):
    url, names = serve().url, [f"p{n}@example.com" for n in range(6)]
    session = create_token(engine, "ana", [Scope.ADMIN], ["shop"], 3600, SESSION)
    sent = {"Accept": "text/html", "Origin": url, "Cookie": f"evalspec_session={session}"}
    asked = [(f"{url}/people", {"user": name, "role": role}) for name in names for role in ("viewer", "editor")]
    asked += [(f"{url}{create_link(engine, name, [Scope.READ], ['shop'])}", {}) for name in names for _ in range(2)]
    asked.sort(key=lambda one: one[1].get("role", ""))  # the logins of each person are side by side
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda one: httpx.post(one[0], data=one[1], headers=sent, timeout=60), asked))
    assert {answer.status_code for answer in answers} == {200, 303}
    assert {one.user for one in list_people(engine) if one.first_seen and one.roles} == {*names}


def test_events_end_with_the_token(serve, engine):
    server = serve()
    token = server.token("run")
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        place = client.post("/v1/runs", json={}).headers["Location"]
        with client.stream("GET", f"{place}/events") as stream:
            lines = stream.iter_lines()
            assert "pending" in [next(lines) for _ in range(3)][-1]
            revoke_token(engine, parse_id(token))
            with server.client("run") as other:
                other.post(f"{place}/cancel")
            assert [line for line in lines if line.startswith("data")] == [], "it sends nothing more"
