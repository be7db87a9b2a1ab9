"""The page of a comparison in a real headless Chromium."""

import re
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from chromium import PATIENCE, watch_page
from comparison.sample_comparison import HOSTILE, sample_comparison, with_texts
from evalspec.base.foreign_text import visible
from evalspec.reports.html_report.document import render_view_html
from evalspec.reports.view.comparison import build_comparison_view

DESKTOP = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "color_scheme": "dark",
}


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a comparison with some candidates, which may not request, throw or print anything."""

    @contextmanager
    def open_page(candidates=1, **context):
        found = sample_comparison(candidates)
        view = build_comparison_view(with_texts(found), 20)
        file = tmp_path / "comparison.html"
        file.write_text(render_view_html(view, "<title>"), encoding="utf-8")
        with browser.new_context(**context) as browsing:
            browsing.set_default_timeout(PATIENCE)
            page = browsing.new_page()
            troubles = watch_page(page)
            page.goto(file.as_uri())
            yield page
            assert troubles == [file.as_uri()]
            shown = page.locator("body").inner_text()
            assert not re.search(r"null|undefined|NaN|\[object", shown), shown

    return open_page


def test_it_shows_the_outcome_the_changes_and_both_answers(opened):
    with opened() as page:
        expect(page).to_have_title("<title>")
        expect(page.locator(".verdict")).to_have_text("▼ 1 degraded, 3 undecided, 1 not tested")
        expect(page.locator("header")).to_contain_text("NOT COMPARABLE, allowed: bm25+rerank")
        metrics = page.get_by_role("table", name="the metrics of rag").get_by_role("row")
        expect(metrics.nth(1)).to_contain_text("▼ degraded, p < 0.001")
        page.get_by_text("Samples: ").click()
        entries = page.locator(".entries > li")
        expect(entries.nth(0)).to_contain_text("ranks: d1 rank 1 → 4; d2 rank 3 → none; d3 rank none → 2")
        expect(entries.nth(0).locator(".prose")).to_have_text(["In Paris.", f"Nowhere {visible(HOSTILE)}"])
        expect(entries).to_have_count(10)
        page.get_by_role("button", name="Show all 20 samples").click()
        expect(entries).to_have_count(20)
        page.keyboard.press("j")
        expect(entries.nth(11)).to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


@pytest.mark.parametrize("candidates", [1, 2])
@pytest.mark.parametrize("context", [DESKTOP, PHONE])
def test_it_is_accessible_and_short(opened, context, candidates):
    with opened(candidates, **context) as page:
        page.locator("#notes").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == context["viewport"]["width"]
        if context is PHONE:
            assert page.evaluate("document.documentElement.scrollHeight") < 4 * context["viewport"]["height"]
        results = Axe().run(page, options={"resultTypes": ["violations"]})
        assert not [(one["id"], one["nodes"][0]["html"]) for one in results.response["violations"]]


def test_without_scripts_everything_is_there(opened):
    with opened(java_script_enabled=False) as page:
        expect(page.get_by_role("table", name="the metrics of rag")).to_contain_text("▼ degraded")
        expect(page.locator("#notes")).to_be_visible()
