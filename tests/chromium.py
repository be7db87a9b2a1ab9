"""The Chromium of the system, headless."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

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
