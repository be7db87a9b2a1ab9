"""The Chromium of the system, headless."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IN_CI = bool(os.environ.get("CI"))
"""Read before a fixture takes it out of the environment of the tests."""
PATIENCE = 20_000
"""Milliseconds."""
expect.set_options(timeout=PATIENCE)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser. Skips the test if there is none, unless in CI."""
    if CHROMIUM is None:
        tell = pytest.fail if IN_CI else pytest.skip
        tell("there is no Chromium; on Debian: apt-get update && apt-get install --yes chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


def watch_page(page: Page, is_expected: Callable[[str], bool] = lambda _url: False) -> list[str]:
    """What a page prints, throws, opens or requests from now on. `is_expected`: whether it may request a url."""
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on("popup", lambda popup: troubles.append(popup.url))
    page.on("request", lambda request: None if is_expected(request.url) else troubles.append(request.url))
    return troubles
