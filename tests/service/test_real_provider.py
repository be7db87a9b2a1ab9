"""Logins in a browser at a real OpenID provider. `test_oidc.py` has the tokens that a correct one never signs."""

import re
from contextlib import ExitStack

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from chromium import PATIENCE
from evalspec.service.people import list_people, set_role
from evalspec.service.settings import OidcSettings
from evalspec.service.tokens import ProjectRole
from servers.openid_provider import open_provider
from servers.service import LocalServer

ANA, SECRET = "ana@example.com", "s3cret&"


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def provider(tmp_path):
    with open_provider(tmp_path / "provider.log") as provider:
        yield provider


@pytest.fixture
def serve(settings, engine, provider, monkeypatch):
    """A function that starts a server with a client of the provider, and returns its url."""
    monkeypatch.setenv("SSO_SECRET", SECRET)
    monkeypatch.setenv("WRONG_SECRET", "other")
    with ExitStack() as ending:

        def start(client="evals", secret="$env:SSO_SECRET"):
            oidc = OidcSettings(provider.url, client, client_secret=secret)
            return ending.enter_context(LocalServer(replace(settings, oidc=oidc), engine)).url

        yield start


def log_in(browser, url, path, *, is_known=True):
    """The page that a new browser shows after a login from a page that needs one. `is_known`: the provider knows it."""
    browsing = browser.new_context()
    browsing.set_default_timeout(PATIENCE)
    browsing.route(lambda place: "//127.0.0.1" not in place, lambda route: route.abort())  # fonts of the provider
    page = browsing.new_page()
    page.goto(url + path)
    page.get_by_role("link", name=re.compile("Log in")).click()
    if is_known:
        page.locator("[name=login]").fill(ANA)
        page.locator("[name=password]").fill("any")
        page.get_by_role("button", name=re.compile("sign-in", re.IGNORECASE)).click()
        page.get_by_role("button", name=re.compile("continue", re.IGNORECASE)).click()
        page.wait_for_url(f"{url}/**")
    return page


def test_people_log_in_at_a_provider_whose_keys_may_change(browser, provider, serve, engine):
    url = serve()
    evals = {"client_secret": SECRET, "redirect_uris": [f"{url}/login/callback"]}
    provider.start("first", evals=evals)
    set_role(engine, ANA, "shop", ProjectRole.REVIEWER)

    page = log_in(browser, url, "/gold")
    expect(page.get_by_role("heading", name="Gold sets", level=1)).to_be_visible()
    expect(page.locator(".who")).to_contain_text(ANA)
    assert page.get_by_role("link", name="People").count() == 0, "a reviewer gives no roles"
    (member,) = list_people(engine)
    assert (member.user, member.roles, member.last_seen is not None) == (ANA, {"shop": "reviewer"}, True)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.goto(f"{url}/gold").status == 401
    page.context.close()

    provider.start("second", evals=evals)
    page = log_in(browser, url, "/gold")
    expect(page.get_by_role("heading", name="Gold sets", level=1)).to_be_visible()
    page.context.close()

    provider.start("second", evals=evals)
    page = log_in(browser, url, "/gold")
    expect(page.locator("main")).to_contain_text("the ID token is not valid")
    assert page.goto(f"{url}/gold").status == 401, "other keys with the name of known ones open no session"
    page.context.close()


def test_a_wrong_client_opens_no_session(browser, provider, serve):
    unknown, mistaken = serve("unknown"), serve(secret="$env:WRONG_SECRET")
    provider.start("first", evals={"client_secret": SECRET, "redirect_uris": [f"{mistaken}/login/callback"]})
    page = log_in(browser, unknown, "/gold", is_known=False)
    expect(page.locator("body")).to_contain_text("invalid_client")
    assert page.goto(f"{unknown}/gold").status == 401
    page = log_in(browser, mistaken, "/gold")
    expect(page.locator("main")).to_contain_text("the issuer says: invalid_client")
    assert page.goto(f"{mistaken}/gold").status == 401
