"""The login with a real browser: what it sends must pass the checks of origins."""

import shutil

import pytest

from evalspec.service.database import open_database
from evalspec.service.sessions import create_link
from evalspec.service.tokens import Scope

pytest.importorskip("playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_person_logs_in_and_another_site_cannot_use_the_session(server, database):
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH")
    from playwright.sync_api import sync_playwright

    started = server()
    engine = open_database(database)
    link = create_link(engine, "ana@example.com", [Scope.ADMIN], ["shop"])
    engine.dispose()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{started.url}{link}")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("You are logged in as ana@example.com.").wait_for()
        assert page.goto(f"{started.url}/v1/audit").status == 200
        other = f"http://localhost:{started.port}"  # another origin, the same machine
        page.goto(f"{other}/login")
        assert page.goto(f"{other}/v1/audit").status == 401, "the cookie belongs to one host"
        form = f'<form method="post" action="{started.url}/logout"><button>Win</button></form>'
        page.set_content(form)
        with page.expect_response(f"{started.url}/logout") as response:
            page.get_by_role("button").click()
        assert response.value.status == 403
        assert page.goto(f"{started.url}/v1/audit").status == 200
        browser.close()
