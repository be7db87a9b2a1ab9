"""Logins at an identity provider: what opens a session, and what does not."""

import base64
import threading
from functools import partial
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from msgspec.structs import replace

from evalspec.service import oidc, people
from evalspec.service.app import create_app
from evalspec.service.audit import list_entries
from evalspec.service.rates import Rates
from evalspec.service.settings import OidcSettings
from evalspec.service.tokens import EVERYWHERE, SESSION, ProjectRole, list_tokens
from servers.oidc_issuer import CLIENT, OidcIssuer
from servers.service import wait_for

PAGE = {"Accept": "text/html"}


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def issuer():
    with OidcIssuer() as issuer:
        yield issuer


@pytest.fixture
def browse(settings, engine, issuer, monkeypatch):
    """A function that opens a browser without a session. `options`: other fields of OidcSettings."""
    monkeypatch.setenv("SSO_SECRET", "s3cret&")

    def open_browser(**options):
        given = OidcSettings(issuer.url, CLIENT, **{"client_secret": "$env:SSO_SECRET", **options})
        app = create_app(replace(settings, oidc=given), engine)
        return TestClient(app, base_url="http://localhost", headers=PAGE, follow_redirects=False)

    return open_browser


def log_in(browser, issuer, next="/runs"):
    started = browser.get("/login/start", params={"next": next})
    assert started.status_code == 303, started.text
    return browser.get(issuer.authorize(started.headers["location"]))


def test_a_login_opens_a_session_with_the_roles_of_the_person(browse, issuer, engine):
    browser = browse()
    refused = browser.get("/runs?namespace=shop")
    assert refused.status_code == 401
    assert 'href="/login/start?next=%2Fruns%3Fnamespace%3Dshop"' in refused.text
    started = browser.get("/login/start", params={"next": "/runs?namespace=shop"})
    query = {name: values[0] for name, values in parse_qs(urlsplit(started.headers["location"]).query).items()}
    assert {"HttpOnly", "SameSite=lax", "Path=/login"} <= set(started.headers["set-cookie"].split("; "))
    entered = browser.get(issuer.authorize(started.headers["location"]))
    assert entered.status_code == 200, entered.text
    assert "ana@example.com" in entered.text
    assert 'content="0; url=/runs?namespace=shop"' in entered.text
    verifier = issuer.form["code_verifier"]
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    assert (query["code_challenge"], query["code_challenge_method"]) == (challenge, "S256")
    assert len({query["state"], query["nonce"], verifier}) == 3
    assert base64.b64decode(issuer.authorization.removeprefix("Basic ")) == b"evals:s3cret%26"
    assert browser.get("/runs?namespace=shop").status_code == 403, "nobody has given a role yet"
    people.set_role(engine, "ana@example.com", "shop", ProjectRole.VIEWER)
    assert browser.get("/runs?namespace=shop").status_code == 200, "it is seen in sessions that are open"
    assert browser.get("/runs?namespace=docs").status_code == 403
    assert browser.get("/datasets/upload?namespace=shop").status_code == 403
    people.set_role(engine, "ana@example.com", EVERYWHERE, ProjectRole.EDITOR)
    assert browser.get("/datasets/upload?namespace=docs").status_code == 200
    people.set_disabled(engine, "ana@example.com", is_disabled=True)
    assert browser.get("/runs?namespace=shop").status_code == 401
    assert log_in(browser, issuer).status_code == 403
    assert "login" in {entry.action for entry in list_entries(engine, None, user="ana@example.com")}


WRONG = {
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "expired": {"exp": 1_000_000_000},
    "issued later": {"iat": 4_000_000_000},
    "no expiry": {"exp": None},
    "another audience": {"aud": "other"},
    "several audiences": {"aud": [CLIENT, "other"]},
    "another party": {"aud": [CLIENT, "other"], "azp": "other"},
    "another issuer": {"iss": "https://evil.example"},
    "no subject": {"sub": None},
    "no address": {"email": None},
    "an unverified address": {"email_verified": False},
    "an address that may be verified": {"email_verified": None},
}


def test_a_wrong_id_token_opens_no_session(browse, issuer):
    browser = browse(default_role="admin")
    for name, claims in WRONG.items():
        issuer.claims = claims
        refused = log_in(browser, issuer)
        assert (refused.status_code, "evalspec_session" in browser.cookies) == (401, False), name
        assert "log in again" in refused.text, name
    issuer.claims = {"azp": CLIENT, "aud": [CLIENT, "other"]}
    assert log_in(browser, issuer).status_code == 200


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}], ids=str)
def test_a_token_without_the_issuers_signature_is_refused(browse, issuer, header):
    issuer.header = header
    assert log_in(browse(default_role="admin"), issuer).status_code == 401


def test_rotated_keys_are_read_again_but_not_without_end(browse, issuer, monkeypatch):
    monkeypatch.setattr(oidc, "Rates", partial(Rates, clock=lambda: 30.0))
    browser = browse(default_role="viewer")
    assert log_in(browser, issuer).status_code == 200
    issuer.key = issuer.new_key("second")
    assert log_in(browser, issuer).status_code == 401, "it is not published"
    issuer.published = [issuer.key]
    assert log_in(browser, issuer).status_code == 200
    issuer.key = issuer.new_key("second")
    assert log_in(browser, issuer).status_code == 401, "it has the name of the published one"
    issuer.header = {"kid": "unknown"}
    for _ in range(2 * oidc.FETCHES_A_MINUTE):
        log_in(browser, issuer)
    assert issuer.asked.count("/jwks") == 1 + oidc.FETCHES_A_MINUTE


def test_an_answer_belongs_to_one_browser_and_one_login(browse, issuer):
    browser, other = browse(default_role="viewer"), browse(default_role="viewer")
    back = issuer.authorize(browser.get("/login/start").headers["location"])
    assert other.get(back).status_code == 401
    other.get("/login/start")
    assert other.get(back).status_code == 401, "its own login does not help"
    assert browser.get(f"{back}&iss=https://evil.example").status_code == 401
    assert browser.get(back).status_code == 200
    assert browser.get(back).status_code == 401, "it is used up"
    said = browser.get(browser.get("/login/start") and "/login/callback?state=x&error=%3Cscript%3E")
    assert (said.status_code, "<script>" in said.text) == (401, False)


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "x"])
def test_a_login_leads_to_no_other_site(browse, issuer, place):
    entered = log_in(browse(default_role="viewer"), issuer, place)
    assert (entered.status_code, "evil" in entered.text, 'href="/runs"' in entered.text) == (200, False, True)


def test_a_claim_sets_the_roles_at_each_login(browse, issuer, engine):
    grants = people.parse_grants(["staff=viewer", "cn=shop,ou=x=shop:admin", "leads=shop:editor"], ["shop"])
    browser = browse(role_claim="groups", grants=grants)

    def roles():
        assert log_in(browser, issuer).status_code == 200
        return people.list_people(engine)[0].roles

    issuer.claims = {"groups": ["leads", "cn=shop,ou=x", "staff"]}
    assert roles() == {EVERYWHERE: "viewer", "shop": "admin"}
    issuer.claims = {"groups": "leads"}
    assert roles() == {"shop": "editor"}
    for groups in (None, 7, {"leads": 1}, [["leads"]]):
        issuer.claims = {"groups": groups}
        assert roles() == {}


def test_an_issuer_that_is_slow_takes_few_threads(browse, issuer, client):
    released, answer = threading.Event(), issuer.answer
    issuer.answer = lambda path: (len(issuer.asked) > oidc.MOST_LOGINS or released.wait()) and answer(path)
    browser = browse()
    waiting = [threading.Thread(target=browser.get, args=("/login/start",)) for _ in range(oidc.MOST_LOGINS)]
    for one in waiting:
        one.start()
    wait_for(lambda: len(issuer.asked) == oidc.MOST_LOGINS)
    refused = browser.get("/login/start")
    assert (refused.status_code, "earlier logins" in refused.text) == (503, True)
    released.set()
    for one in waiting:
        one.join()
    assert browser.get("/login/start").status_code == 303


def test_an_issuer_that_does_not_answer_stops_logins_only(browse, issuer, client):
    issuer.__exit__()
    browser = browse()
    failed = browser.get("/login/start")
    assert (failed.status_code, "login links and tokens work" in failed.text) == (503, True)
    assert browser.get("/runs?namespace=shop", headers=dict(client.headers) | PAGE).status_code == 200


def test_a_refused_login_of_a_disabled_person_is_neither_a_login_nor_a_session(browse, issuer, engine):
    grants = people.parse_grants(["staff=viewer"], ["shop"])
    browser = browse(role_claim="groups", grants=grants)
    issuer.claims = {"groups": "staff"}
    assert log_in(browser, issuer).status_code == 200
    (before,) = people.list_people(engine)
    sessions = len(list_tokens(engine, [SESSION]))
    people.set_disabled(engine, before.user, is_disabled=True)
    issuer.claims = {"groups": "none"}
    refused = log_in(browser, issuer)
    assert (refused.status_code, f"{before.user} is disabled; ask an admin" in refused.text) == (403, True)
    people.set_disabled(engine, before.user, is_disabled=False)
    assert people.list_people(engine) == [before], "neither the last login nor the roles changed"
    assert len(list_tokens(engine, [SESSION])) == sessions, "no session waits for the day when they are enabled again"


@pytest.mark.parametrize("name", ["jos\u00e9", "jose\u0301", " Jose\u0301@Example.com", "JOS\u00c9@example.com "])
def test_names_that_look_alike_are_of_one_person(browse, issuer, engine, name):
    at = "@example.com" * ("@" in name)
    people.set_role(engine, f"jos\u00e9{at}", "shop", ProjectRole.VIEWER)
    people.set_disabled(engine, f"jose\u0301{at}", is_disabled=True)
    issuer.claims = {"email": name, "email_verified": True}
    assert log_in(browse(), issuer).status_code == 403
    assert len(people.list_people(engine)) == 1
