"""Reviews and uploads in a real headless Chromium: by keys alone, in every size and scheme, with hostile texts."""

import json
import re
from functools import partial
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from evalspec.curation.gold.gold_set import read_entry
from evalspec.curation.gold.protocol import add_triple, review
from evalspec.service.pages.upload_pages import look_at
from evalspec.service.settings import Project
from evalspec.service.uploaded_datasets import stage_file
from gold_sets import make_set, make_triple
from hostile_texts import HOSTILE
from servers.service import Server
from service.pages.conftest import Shops
from service.pages.shops import write_hostile_shop, write_shop

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
MOST_BYTES = 200_000
UNWRITABLE = {"surrogates", "not in xml"}
"""Texts that YAML does not have."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The projects shop and docs. Each has a gold set, in docs of hostile texts."""
    root = tmp_path_factory.mktemp("desk")
    sets = {}
    for name, folder in {"shop": write_shop(root / "shop"), "docs": write_hostile_shop(root / "docs", HOSTILE)}.items():
        sets[name] = folder / "evals" / "gold" / "help"
        sets[name].parent.mkdir(parents=True)
        make_set(sets[name])
    for name in ("old", "refund", "ship"):
        add_triple(sets["shop"], name, make_triple(f"How long does {name} take?"), "ada")
    review(sets["shop"], "old", "ben", "overstated", category="numeric", note="No.", at="2026-11-01T10:00:00Z")
    review(sets["shop"], "old", "cleo", at="2026-11-01T10:00:00Z")
    for number, text in enumerate(text for name, text in HOSTILE.items() if name not in UNWRITABLE):
        triple = make_triple(text, f"{text}b", f"{text} answer", domain=text, other={text: [text]})
        add_triple(sets["docs"], f"hostile-{number}", triple, "ada")
        if number:
            review(sets["docs"], f"hostile-{number}", "ben", "wrong_block", note=text, at="2026-11-01T10:00:00Z")
    return root


@pytest.fixture(scope="module")
def shops(root):
    projects = {"shop": root / "shop", "docs": root / "docs"}
    server = Server(projects, f"sqlite:///{root / 'service.db'}", root / "server.log", "--lease", "2").start()
    yield Shops(server, [], [], None)
    server.stop()


@pytest.fixture
def visit(opened):
    """Opens pages as somebody who runs evaluations and reviews."""
    return lambda user, *namespaces, **context: opened(*namespaces, scopes=("run", "review"), user=user, **context)


def stage(root, namespace, user, content):
    project = Project(namespace, root / namespace)
    with content.open("rb") as stream:
        look = partial(look_at, shown_as=f"data{content.suffix}")
        staged = stage_file(project, stream, content.name, "support", user, look)
    return f"/datasets/upload/{staged.token}"


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_every_page_fits_is_accessible_and_obeys_the_policy(visit, root, size, scheme):
    broken = root / "broken.jsonl"
    broken.write_text('{"input": "Q?"}\nnot json\n')
    paths = [
        "/gold",
        "/gold/help",
        "/gold/help?text=nowhere",
        "/gold/help/review",
        "/gold/help/review?id=old",
        "/gold/help/review?after=ship",
        "/gold/help/triple?id=old",
        "/gold/help/stats",
        "/datasets",
        "/datasets/dataset?manifest=agent.yaml&name=answers",
        "/datasets/upload",
        stage(root, "shop", "dan", broken),
        stage(root, "shop", "dan", root / "shop" / "answers.jsonl"),
    ]
    faults = {}
    with visit("dan", color_scheme=scheme, **size) as found:
        for path in paths:
            response = found.go(path)
            assert response.status == 200, (path, response.text())
            assert len(response.body()) <= MOST_BYTES, path
            assert found.page.evaluate("document.documentElement.scrollWidth") == size["viewport"]["width"], path
            assert not re.search(r"\b(None|null|undefined|NaN)\b|\[object", found.page.locator("main").inner_text()), (
                path
            )
            results = Axe().run(found.page)
            faults |= {path: results.generate_report()} if results.violations_count else {}
            found.check()
    assert not faults


def test_two_people_review_a_triple_by_keys_alone(visit, root):
    shop = root / "shop" / "evals" / "gold" / "help"
    with visit("ben") as found:
        page, keys = found.page, found.keys
        found.go("/gold")
        keys.press("j")
        keys.press("Enter")
        expect(page.get_by_role("heading", name="help", level=1)).to_be_visible()
        keys.press("r")
        expect(page.get_by_role("heading", name="refund", level=1)).to_be_visible()
        keys.press("s")
        expect(page.get_by_role("heading", name="ship", level=1)).to_be_visible()
        keys.press("c")
        expect(page.get_by_role("heading", name="That was the last one")).to_be_visible()
        keys.press("s")
        expect(page.get_by_role("heading", name="refund", level=1)).to_be_visible()
        keys.press("f")
        keys.press("4")
        expect(page.get_by_role("radio", name="4 the answer says more than the block")).to_be_checked()
        keys.press("Tab")
        keys.press("n")
        keys.press("Tab")
        keys.type("cfsu?")
        expect(page.get_by_label("A note for the author")).to_have_value("cfsu?")
        keys.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("You flagged refund as the answer says more than the block")
        (flag,) = [one.event for one in read_entry(shop, "refund").events if one.event.kind == "flag"]
        assert (flag.verdict, flag.category, flag.note) == ("overstated", "numeric", "cfsu?")
        keys.press("u")
        expect(page.get_by_role("heading", name="refund", level=1)).to_be_visible()
        keys.press("c")
        expect(page.get_by_role("status")).to_contain_text("You confirmed refund")
        keys.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_contain_text("take the last review back")
        found.check()
    with visit("cleo") as found:
        page, keys = found.page, found.keys
        found.go("/gold/help/triple?id=refund")
        expect(page.locator("main")).not_to_contain_text("ben")
        keys.press("r")
        expect(page.get_by_role("heading", name="refund", level=1)).to_be_visible()
        keys.press("c")
        expect(page.get_by_role("heading", name="ship", level=1)).to_be_visible()
        keys.press("c")
        expect(page.get_by_role("status")).to_contain_text("You confirmed ship")
        found.check()
    assert [read_entry(shop, name).state for name in ("refund", "ship")] == ["accepted", "accepted"]
    assert len(read_entry(shop, "refund").events) == 3


def test_a_dispute_is_settled_by_keys(visit, root):
    with visit("ada") as found:
        page, keys = found.page, found.keys
        found.go("/gold/help?state=to+settle")
        keys.press("j")
        keys.press("Enter")
        expect(page.get_by_role("heading", name="Dispute")).to_be_visible()
        keys.press("2")
        expect(page.get_by_role("radio", name="dropped")).to_be_checked()
        keys.press("Tab")
        keys.press("Tab")
        keys.type("Ben is right.")
        keys.press("Enter")
        expect(page.locator(".about .chip")).to_have_text("dropped")
        expect(page.get_by_role("table", name="Events of the triple")).to_contain_text("Ben is right.")
        found.check()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_dispute_ends_with_a_revision_by_keys(visit, root, size):
    shop, name = root / "shop" / "evals" / "gold" / "help", f"words-{len(size)}"
    add_triple(shop, name, make_triple(), "ada")
    review(shop, name, "ben", "overstated", note="No.", at="2026-11-01T10:00:00Z")
    with visit("ada", **size) as found:
        page, keys = found.page, found.keys
        found.go(f"/gold/help/triple?id={name}")
        keys.press("e")
        answer = page.get_by_role("textbox", name="Answer")
        expect(answer).to_have_value("14 days")
        found.check()
        page.get_by_role("textbox", name="Question").focus()
        keys.press("Tab")
        keys.press("ControlOrMeta+a")
        keys.type("14 to 15 days: say it so.\nj k 2 are no keys here.")
        keys.press("Tab")
        keys.type("Ben is right.")
        keys.press("Enter")
        expect(page.locator(".about .chip")).to_have_text("pending")
        expect(page.locator(".blocks")).to_contain_text("j k 2 are no keys here.")
        expect(page.get_by_role("table", name="Events of the triple")).to_contain_text("Ben is right.")
        found.check()


@pytest.mark.parametrize("has_scripts", [True, False])
def test_an_upload_with_errors_then_a_good_one(visit, root, tmp_path, has_scripts):
    name = "with scripts" if has_scripts else "without"
    with visit("ben", java_script_enabled=has_scripts) as found:
        page = found.page
        for content in ('{"input": "Q?"}\n', '{"input": "Q?", "expected": "A"}\n'):
            (tmp_path / "file.jsonl").write_text(content)
            found.go("/datasets")
            page.get_by_role("link", name="Upload a dataset").click()
            page.get_by_label(re.compile("File")).set_input_files(tmp_path / "file.jsonl")
            page.get_by_label(re.compile("Name")).fill(name)
            page.get_by_role("button", name="Show the preview").click()
            if "expected" not in content:
                expect(page.get_by_role("table", name="Errors of the dataset")).to_contain_text("file.jsonl:1")
                page.get_by_role("button", name="Discard it").click()
        page.get_by_role("button", name="Store it").click()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        page.get_by_role("link", name="Datasets").last.click()
        expect(page.get_by_role("table", name="Posted and uploaded")).to_contain_text(name)
        if has_scripts:
            found.check()


def test_hostile_texts_are_shown_and_do_nothing(visit, root):
    hostile = root / "hostile.jsonl"
    lines = [{text: text, "id": text, "input": text} for text in HOSTILE.values()]
    hostile.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    count = len(HOSTILE) - len(UNWRITABLE)
    paths = ["/gold", "/gold/help", "/gold/help/stats", "/datasets"]
    paths += [f"/gold/help/review?id=hostile-{number}" for number in range(0, count, 9)]
    paths += [f"/gold/help/triple?id=hostile-{number}" for number in range(count)]
    paths += ["/datasets/dataset?manifest=agent.yaml&name=answers", stage(root, "docs", "ada@example.com", hostile)]
    script = quote("\"'><script>alert(1)</script>")
    paths += [f"/gold/help?text={script}"]
    with visit("ada@example.com", "docs", **PHONE) as found:
        page = found.page
        for path in paths:
            response = found.go(path)
            assert response.status == 200, path
            assert len(response.body()) <= MOST_BYTES, path
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path
            assert page.locator("main script, main img, main iframe, main object, main style, main base").count() == 0
            assert page.locator("main [href^='javascript' i], main [style], main [onerror]").count() == 0
            found.check()
