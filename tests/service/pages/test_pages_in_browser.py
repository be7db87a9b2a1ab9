"""The pages in a real headless Chromium: looks, keys, filters, and texts that try to act."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from evalspec.base.foreign_text import encodable, visible
from evalspec.service.database import open_database
from evalspec.service.sessions import create_link
from evalspec.service.tokens import Scope
from hostile_texts import HOSTILE

SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
MOST_BYTES = 200_000
AXE = {("desktop", "light"), ("phone", "dark")}
"""Both sizes and both schemes are checked for accessibility, which takes a second a page."""
QUICKLY = {"resultTypes": ["violations"]}
"""Axe then does not describe what is right."""


def sample_path(run, dataset, id, **more):
    return f"/runs/{run}/sample?{urlencode({'dataset': dataset, 'id': id, **more})}"


def paths(shops):
    first, second, newest, repeated, changed = shops.runs
    return {
        "runs": "/runs",
        "run": f"/runs/{newest}",
        "run with repeats": f"/runs/{repeated}",
        "section": f"/runs/{newest}/part?at=0.0",
        "samples": f"/runs/{newest}/samples",
        "no samples": f"/runs/{newest}/samples?text=nowhere",
        "labels": f"/runs/{newest}/labels",
        "label a reply": f"/runs/{newest}/label?dataset=answers",
        "label a score": f"/runs/{newest}/label?metric=cites&state=beyond",
        "nothing to label": f"/runs/{newest}/label?tag=nobody",
        "work": "/work",
        "alerts": "/alerts",
        "baselines": "/baselines",
        "sample": sample_path(newest, "answers", "refunds-4"),
        "failed sample": sample_path(newest, "answers", "billing-7"),
        "ranking": sample_path(newest, "rankings", "q-4"),
        "attempts": sample_path(repeated, "answers", "refunds-12"),
        "choice": "/compare",
        "comparison": f"/compare?baseline={second}&candidate={first}",
        "retrievers": f"/compare?baseline={second}&candidate={first},{newest}",
        "not comparable": f"/compare?baseline={first}&candidate={changed}",
    }


@pytest.mark.parametrize("size", SIZES)
def test_every_page_fits_is_accessible_and_obeys_the_policy(opened, shops, size):
    faults = {}
    with opened(color_scheme="light", **SIZES[size]) as found:
        for name, path in paths(shops).items():
            response, page = found.go(path), found.page
            assert response.status == 200, (name, response.text())
            assert len(response.body()) <= MOST_BYTES, name
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width == SIZES[size]["viewport"]["width"], (name, scheme, width)
                results = Axe().run(page, options=QUICKLY) if (size, scheme) in AXE else None
                if results and results.violations_count:
                    faults[name] = [
                        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
                        for one in results.response["violations"]
                    ]
            page.emulate_media(color_scheme="light")
            assert not re.search(r"\b(None|null|undefined|NaN)\b|\[object", page.locator("body").inner_text()), name
            found.check()
    assert not faults


def test_empty_states_and_problems_say_what_to_do_next(opened, browser, shops):
    with opened("empty") as found:
        found.go("/runs")
        expect(found.page.locator("main")).to_contain_text("evalspec evaluate agent.yaml")
        assert not Axe().run(found.page, options=QUICKLY).violations_count
        found.go("/compare")
        expect(found.page.locator("main")).to_contain_text("two finished runs")
        response = found.go("/runs/20261121T061500.000Z-00000000")
        assert response.status == 404
        expect(found.page.locator("main")).to_contain_text("there is no run")
        assert not Axe().run(found.page, options=QUICKLY).violations_count
        found.troubles.clear()  # Chromium reports every 404
        found.check()
    with browser.new_context() as browsing:
        page = browsing.new_page()
        assert page.goto(f"{shops.server.url}/runs").status == 401
        expect(page.locator("main")).to_contain_text("evalspec serve")


def test_a_list_is_read_by_keys(opened, shops):
    with opened() as found:
        found.go(f"/runs/{shops.runs[2]}/samples")
        page, keyboard = found.page, found.keys
        for key, id in (("j", "refunds-0"), ("j", "shipping-1"), ("j", "accounts-2"), ("k", "shipping-1")):
            keyboard.press(key)
            expect(page.get_by_role("link", name=id, exact=True)).to_be_focused()
        keyboard.press("Enter")
        expect(page).to_have_url(re.compile("sample[?].*id=shipping-1"))
        keyboard.press("j")
        expect(page.get_by_role("heading", name="accounts-2", level=1)).to_be_visible()
        keyboard.press("k")
        expect(page.get_by_role("heading", name="shipping-1", level=1)).to_be_visible()
        keyboard.press("u")
        expect(page.get_by_role("heading", name="Samples", level=1)).to_be_visible()
        keyboard.press("/")
        expect(page.get_by_label("Text")).to_be_focused()
        keyboard.type("j?")
        expect(page.get_by_label("Text")).to_have_value("j?")
        keyboard.press("Escape")
        keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        expect(dialog).to_be_visible()
        keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        found.check()


def test_on_a_phone_the_parts_of_a_run_are_folded_as_in_the_report(opened, shops):
    path = f"/runs/{shops.runs[2]}"
    with opened(**SIZES["phone"]) as found:
        page = found.page
        found.go(path)
        expect(page.locator("#dataset-0 > .foldable[open]")).to_be_visible()
        expect(page.locator("#dataset-1 table").first).to_be_hidden()
        page.get_by_role("heading", name="rankings").click()
        expect(page.locator("#dataset-1 table").first).to_be_visible()
        page.evaluate(f"htmx.ajax('GET', '{path}', {{target: '#main', select: '#main', swap: 'outerHTML'}})")
        expect(page.locator("#dataset-1 table").first).to_be_hidden()
        expect(page.locator(".foldable .foldable")).to_have_count(0)
        found.check()
    with opened(java_script_enabled=False, **SIZES["phone"]) as found:
        found.go(path)
        expect(found.page.locator("#dataset-1 table").first).to_be_visible()
        assert found.troubles == []


def test_the_focus_is_visible_and_trapped_nowhere(opened, shops):
    with opened("shop", "docs") as found:
        found.go(f"/runs/{shops.runs[2]}?namespace=shop")
        page = found.page
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        seen = []
        for _ in range(200):
            page.keyboard.press("Tab")
            place = page.evaluate(
                "() => { const one = document.activeElement; if (one === document.body) return null; "
                "const style = getComputedStyle(one); "
                "return [one.tagName, one.textContent.trim().slice(0, 30), style.outlineStyle] }"
            )
            if place is None:
                break
            seen.append(place)
        assert place is None, "the focus never left the page"
        assert len(seen) > 20
        assert {style for _, _, style in seen} == {"solid"}, [one for one in seen if one[2] != "solid"]


def test_filters_work_at_once_with_scripts_and_by_a_button_without(opened, shops):
    path = f"/runs/{shops.runs[2]}/samples"
    with opened() as found:
        found.go(path)
        rows = found.page.locator("#results tbody tr")
        expect(rows).to_have_count(32)
        found.page.get_by_label("Status").select_option("failed")
        expect(rows).to_have_count(2)
        expect(found.page).to_have_url(re.compile("state=failed"))
        found.page.get_by_label("Status").select_option("")
        found.page.get_by_label("Text").type("case 12")
        expect(rows).to_have_count(1)
        expect(found.page.get_by_role("link", name="refunds-12")).to_be_visible()
        found.page.get_by_label("Text").fill("c")
        expect(found.page.locator("#results")).to_contain_text("at least 3 characters")
        found.go("/runs")
        expect(found.page.locator("#trend-lines")).to_contain_text("branch main")
        found.page.get_by_label("Branch").select_option("no branch")
        expect(rows).to_have_count(1)
        expect(found.page.locator("#trend-lines")).to_have_text("")
        found.page.get_by_label("Branch").select_option("main")
        expect(rows).to_have_count(3)
        expect(found.page.locator("#trend-lines")).to_contain_text("3 finished runs")
        found.check()
    with opened(java_script_enabled=False) as found:
        found.go(path)
        found.page.get_by_label("Status").select_option("beyond")
        found.page.get_by_label("Tag").select_option("refunds")
        found.page.get_by_role("button", name="Filter").click()
        rows = found.page.locator("#results tbody tr")
        expect(rows).to_have_count(6)
        found.page.get_by_role("link", name="refunds-4").click()
        found.page.get_by_role("link", name="Next").click()
        expect(found.page.get_by_role("heading", level=1)).to_have_text("refunds-8")
        found.page.get_by_role("link", name="Samples", exact=True).click()
        expect(rows).to_have_count(6)
        found.go("/runs")
        boxes = found.page.get_by_role("checkbox")
        boxes.nth(2).check()
        boxes.nth(3).check()
        found.page.get_by_role("button", name="Compare the chosen runs").click()
        expect(found.page.get_by_role("heading", name=re.compile("Newly failing"))).to_be_visible()


def test_a_comparison_shows_flips_first_with_the_words_that_differ(opened, shops):
    first, second, *_ = shops.runs
    with opened() as found:
        found.go(f"/compare?baseline={second}&candidate={first}")
        headings = found.page.locator("main h2").all_text_contents()
        assert [re.sub(r"\d+", "N", heading) for heading in headings[:3]] == [
            "Newly failing (N)",
            "Newly passing (N)",
            "answers",
        ]
        flip = found.page.locator(".entries > li").first
        expect(flip.locator("h3")).to_contain_text("billing-3")
        expect(flip.locator(".values")).to_contain_text("exact_match 1.000 → 0.000")
        assert flip.locator(".calls summary").all_text_contents() == ["look_up(days: 30)", "look_up(days: 14)"]
        assert flip.locator("mark").all_text_contents() == ["30", "Write to the help desk", "14", "Ask a friend"]
        expect(found.page.get_by_role("table", name="the metrics of answers")).to_contain_text("undecided")
        found.check()


def test_runs_that_are_not_comparable_say_why_and_are_compared_on_demand(opened, shops):
    first, *_, changed = shops.runs
    with opened() as found:
        found.go(f"/compare?baseline={first}&candidate={changed}")
        expect(found.page.locator("main")).to_contain_text("These runs are not compared")
        found.page.get_by_role("link", name="Compare them all the same").click()
        expect(found.page.locator("main")).to_contain_text("NOT COMPARABLE")
        found.check()


def test_hostile_texts_are_shown_and_do_nothing(opened, shops):
    texts, (run, other) = list(HOSTILE.values()), shops.hostile
    assert len(texts) >= 47
    ids = [f"{encodable(text)}{number}" for number, text in enumerate(texts)]
    script = list(HOSTILE).index("script")
    with opened("docs", **SIZES["phone"]) as found:
        page = found.page

        def look(path: str) -> None:
            response = found.go(path)
            assert response.status == 200, path
            assert len(response.body()) <= MOST_BYTES, path
            seen = page.evaluate(f"[document.documentElement.scrollWidth, ({COUNT_FOREIGN})(), window.violations]")
            assert [seen, found.troubles] == [[390, 0, []], []], path

        for path in (
            "/runs",
            f"/runs/{run}",
            f"/runs/{run}/samples",
            f"/compare?baseline={run}&candidate={other}",
            f"/runs/{run}/labels",
            f"/runs/{run}/label",
            f"/runs/{run}/label?at={script}&about=cites&last=1",
        ):
            look(path)
        look(sample_path(run, "answers", ids[script]))
        expect(page.locator(".labelling .notes li").first).to_be_visible()
        for number, id in enumerate(ids):
            look(f"/runs/{run}/sample?at={number}")
            assert page.locator("h1 bdi").text_content().startswith(visible(id)[:159]), id
            expect(page.locator(".error").first).to_contain_text("raised ValueError")


COUNT_FOREIGN = """() => document.querySelectorAll(
  "script:not(head > script), img, iframe, object, embed, style, base, math, template, link:not(head > link), "
  + "meta:not(head > meta), main [href^='javascript' i], main [href^='data' i], [style], [onerror], [onload], "
  + "[onfocus], [onmouseover], [srcdoc], [data-hx-get], [hx-vals], [hx-get^='http'], [hx-get='/logout'], "
  + "form[action^='http'], a[href^='http']:not([href='https://ci.example/shop/7'])").length"""
"""Elements and attributes that only a text could have brought. The one link to another host is that of the CI build."""


def test_a_hostile_filter_is_sent_back_as_it_is(opened, shops):
    run, fields = shops.hostile[0], ("text", "slice", "tag", "dataset", "metric")
    with opened("docs", user=HOSTILE["attribute"]) as found:
        for name, text in HOSTILE.items():
            path = f"/runs/{run}/samples?{urlencode(dict.fromkeys(fields, text[:1000]), errors='surrogatepass')}"
            status = 400 if "\0" in text else 200
            assert found.go(path).status == status, name
            assert found.page.evaluate(COUNT_FOREIGN) == 0, name
            if status == 200 and text.isprintable():
                sent = found.page.evaluate(
                    "['text', 'slice'].map((name) => document.querySelector(`[name=${name}]`).value)"
                )
                assert sent == [text[:1000]] * 2, name
        found.troubles[:] = [one for one in found.troubles if "status of 400" not in one]  # Chromium reports it
        found.go(f"/runs?{urlencode({'dataset': HOSTILE['attribute'], 'manifest': HOSTILE['htmx attribute']})}")
        assert found.page.evaluate(COUNT_FOREIGN) == 0
        found.check()


def test_two_people_label_by_keys_without_seeing_each_other(opened, shops):
    run = shops.runs[0]
    queue = f"/runs/{run}/label?dataset=answers&tag=refunds"
    with opened(user="cleo@example.com", scopes=("review",)) as found:
        page, keyboard, title = found.page, found.keys, found.page.get_by_role("heading", level=1)
        found.go(queue)
        keyboard.press("n")
        keyboard.type("g is good")
        keyboard.press("Enter")  # decides nothing
        keyboard.press("Escape")
        keyboard.press("g")
        expect(title).to_have_text("refunds-4")
        keyboard.press("s")
        expect(title).to_have_text("refunds-8")
        keyboard.press("b")
        expect(title).to_have_text("refunds-12")
        keyboard.press("u")
        expect(title).to_have_text("refunds-8")
        own = page.locator("p").filter(has_text=re.compile("^You:"))
        expect(own).to_have_count(0)
        found.go(sample_path(run, "answers", "refunds-0"))
        expect(own).to_contain_text("g is good")
        keyboard.press("3")
        expect(page.get_by_role("button", name="Agree", exact=True)).to_be_focused()
        keyboard.press("n")
        keyboard.type("it cites a friend")
        keyboard.press("Escape")
        page.locator("input[name=value]:visible").fill("1")
        keyboard.press("Escape")
        keyboard.press("d")
        expect(own.nth(1)).to_contain_text("disagree")
        found.check()
    with opened(user="dan@example.com", scopes=("review",)) as found:
        page, keyboard = found.page, found.keys
        found.go(sample_path(run, "answers", "refunds-0"))
        expect(page.locator("main")).to_contain_text("1 label of others, shown after yours")
        assert "cleo" not in page.content()
        keyboard.press("b")
        expect(page.locator(".notes")).to_have_text(re.compile("cleo@example.com:.*good.*g is good"))
        found.go(f"/runs/{run}/labels")
        keyboard.press("j")
        expect(page.get_by_role("link", name="refunds-0").first).to_be_focused()
        expect(page.locator("main")).to_contain_text("1 label of others on what you have not labelled is hidden")
        found.check()


@pytest.fixture
def waiting_agent(shops):
    """The agent of project live, which answers one more request, and all others when it may."""
    shops.agent.answer_only(len(shops.agent.requests) + 1)
    yield shops.agent
    shops.agent.answer_only(None)


def test_a_run_in_progress_is_followed_without_a_reload(opened, shops, waiting_agent):
    with shops.server.client(namespaces=("live",)) as client, opened("live") as found:
        assert client.post("/v1/runs", json={"concurrency": 1}).status_code == 202
        found.go("/runs")
        progress = found.page.locator(".job")
        expect(progress).to_contain_text(re.compile("pending|running"))
        expect(found.page.get_by_role("progressbar")).to_be_visible()
        assert not Axe().run(found.page, options=QUICKLY).violations_count
        found.page.evaluate("window.stayed = true")
        waiting_agent.answer_only(None)
        link = found.page.get_by_role("link", name="Show the results")
        link.wait_for(timeout=60_000)
        assert found.page.evaluate("window.stayed")
        link.click()
        expect(found.page.locator(".verdict")).to_be_visible()
        found.check()


def test_a_run_is_cancelled_and_resumed_by_buttons(opened, shops, waiting_agent):
    with shops.server.client(namespaces=("live",)) as client, opened("live") as found:
        assert client.post("/v1/runs", json={"concurrency": 1}).status_code == 202
        found.go("/runs")
        found.page.locator(".job a").click(timeout=60_000)
        found.page.get_by_role("button", name="Cancel").click()
        found.page.locator(".verdict", has_text="INTERRUPTED").wait_for(timeout=60_000)
        waiting_agent.answer_only(None)
        found.page.get_by_role("button", name="Resume").click()
        found.page.locator(".verdict", has_text=re.compile("PASS|NOT GATED")).wait_for(timeout=60_000)
        found.check()


def test_a_session_begins_with_a_link_and_ends_with_a_button(browser, shops):
    engine = open_database(shops.server.database)
    link = create_link(engine, "ben@example.com", [Scope.READ], ["shop"])
    engine.dispose()
    with browser.new_context() as browsing:
        page = browsing.new_page()
        deep = f"{shops.server.url}/runs/{shops.runs[0]}"
        assert page.goto(deep).status == 401
        page.goto(shops.server.url + link)
        assert not Axe().run(page, options=QUICKLY).violations_count
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="Show the runs").click()
        expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
        page.get_by_role("link", name=re.compile("UTC")).first.click()
        expect(page.locator(".verdict")).to_be_visible()
        other = browsing.new_page()
        other.set_content(f"<a href='{deep}'>a link on another site</a>")
        other.get_by_role("link").click()
        other.get_by_role("link", name="Open this page again").click()
        expect(other.locator(".verdict")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        assert page.goto(deep).status == 401
