"""The documentation site: built without a warning, complete, reachable, and usable in a real browser."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import evalspec
from chromium import PATIENCE
from evalspec.cli.main import group
from evalspec.cli.schema import command as schema_command
from evalspec.reports.parquet import MORE_COLUMNS, SPAN_COLUMNS
from evalspec.reports.rows import COLUMNS
from evalspec.scoring.metrics.base import METRICS
from evalspec.service.app import ROUTERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = "reference/generated"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
KINDS = (
    "index",
    "reference/metrics",
    *(f"{GENERATED}/{name}" for name in ("commands", "metrics/string_match", "rest")),
    "search",
)
"""Pages of each kind: pictures, a long text with tables, help, signatures, operations, the search."""
CHECKED = {"light": KINDS, "dark": KINDS[:4], "phone": KINDS[:3]}
"""Pages that axe checks, which takes seconds for a long one."""
MOST_BYTES = 150_000


class Page(HTMLParser):
    """The links, the ids and the text of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.sources, self.text = set(), set(), set(), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        elif tag in ("script", "link", "img") and (source := found.get("src") or found.get("href")):
            self.sources.add(source)

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, as `make docs` builds it with this environment."""
    folder = tmp_path_factory.mktemp("site")
    (folder / ".docs").touch()  # nothing is to be installed
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "DOCS_"))}
    command = ["make", "docs", f"BIN={Path(sys.executable).parent}", f"VENV={folder}", f"SITE={folder / 'html'}"]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert str(folder / "html" / "index.html") in done.stdout
    return folder / "html"


def build(folder, text, **variables):
    """Build a site of one page with the settings of this one; return the exit code, the warnings and the page."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(text)
    command = [sys.executable, "-m", "sphinx", "-qEW", "--keep-going", "-c", str(DOCS)]
    environment = {key: found for key, found in os.environ.items() if not key.startswith("DOCS_")} | variables
    done = subprocess.run(
        [*command, str(folder / "docs"), str(folder / "html")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, folder / "html" / "index.html"


def test_every_page_is_reached_from_the_index(site):
    seen, waiting = set(), [site / "index.html"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            targets = {(page.parent / link.partition("#")[0]).resolve() for link in Page(page).links if ":" not in link}
            assert not [target for target in targets if not target.exists()], page
            waiting += [target for target in targets if target.suffix == ".html"]
    written = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {path.relative_to(site) for path in seen} >= written
    assert len(written) > 50


def test_nothing_is_loaded_from_elsewhere(site):
    for path in (site / "index.html", site / "search.html", site / GENERATED / "rest.html"):
        assert not [source for source in Page(path).sources if "//" in source], path


def list_commands(command, path):
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from list_commands(command.get_command(context, name), f"{path} {name}")


def test_every_command_is_on_its_page(site):
    page = Page(site / GENERATED / "commands.html")
    paths = list(list_commands(group, "evalspec"))
    assert len(paths) > 50
    assert not [path for path in paths if f"Usage: {path} " not in page.text]
    assert not [path for path in paths[1:] if path.replace(" ", "-") not in page.ids]


def test_every_public_name_is_on_its_page(site):
    page = Page(site / GENERATED / "python.html")
    assert not [name for name in evalspec.__all__ if name.strip("_").lower().replace("_", "-") not in page.ids]
    assert "InvalidInput: The manifest, a dataset or an option is invalid." in page.text


@pytest.mark.parametrize("name", [metric.name for metric in METRICS if not metric.is_staged])
def test_every_metric_has_a_page_with_its_text(site, name):
    page = Page(site / GENERATED / "metrics" / f"{name}.html")
    assert "A sample, a reply and its score." in page.text
    assert "Use it" in page.text
    assert f"metrics/{name}.html" in Page(site / GENERATED / "metrics.html").links


def test_every_column_of_parquet_is_on_its_page(site):
    text = Page(site / GENERATED / "report.html").text
    assert not [name for name in (*COLUMNS, *MORE_COLUMNS, *SPAN_COLUMNS) if name not in text]


def test_the_gallery_has_reports_of_real_runs(site):
    texts = {path.stem: path.read_text() for path in (site / "gallery").iterdir()}
    linked = {link for link in Page(site / GENERATED / "gallery.html").links if "/gallery/" in link}
    assert {f"../../gallery/{name}.html" for name in texts} == linked
    assert len(texts) == 5 and "FAIL" in texts["failing"] and "inkwharf-help" in texts["passing"]


def test_every_key_of_the_manifest_is_on_its_page(site, project):
    text = Page(site / GENERATED / "manifest.html").text
    assert schema_command.name == "schema"
    definitions = project("schema", "manifest").document["$defs"].values()
    keys = {key for one in definitions for key in one.get("properties", {})}
    assert "rerankTopK" in keys and not [key for key in keys if key not in text]


def test_every_operation_is_on_its_page(site):
    lines = Page(site / GENERATED / "rest.html").text.splitlines()
    every: list[Any] = [route for router in ROUTERS for route in router.routes]
    routes = [route for route in every if route.include_in_schema]
    assert len(routes) > 30
    operations = [f"{method} {re.sub(':path}', '}', route.path)}" for route in routes for method in route.methods]
    assert not [operation for operation in operations if operation not in lines]


def test_a_broken_link_fails_the_build(tmp_path):
    broken = ("nowhere.md", "#no-heading", "../no-file.txt", "../no-folder/")
    links = "".join(f"- [link]({target})\n" for target in broken)
    code, warnings, _ = build(tmp_path, f"# Page\n\n{links}\n![picture](no-picture.png)\n")
    assert code == 1
    assert not [target for target in (*broken, "no-picture.png") if target.strip("#./") not in warnings], warnings


OUTSIDE = "# Page\n\nA [file](../README.md#install), a [folder](../examples), a [heading](#page).\n"


def test_links_to_other_files_lead_to_copies(tmp_path):
    (tmp_path / "README.md").write_text("# A copy of this\n")
    code, warnings, page = build(tmp_path, OUTSIDE)
    copies = [link for link in Page(page).links if link.startswith("_downloads/")]
    assert (code, warnings, len(copies)) == (0, "", 1)


def test_links_to_other_files_lead_to_the_repository(tmp_path):
    url = "https://example.com/o/evalspec/blob/main"
    code, warnings, page = build(tmp_path, OUTSIDE, DOCS_REPOSITORY=f"{url}/")
    assert (code, warnings) == (0, "")
    assert {f"{url}/README.md#install", f"{url}/examples", "#page"} <= Page(page).links


@pytest.fixture
def visit(browser, site):
    """Opens pages of the site from disk. At the end, none may have requested anything from elsewhere."""
    contexts, requested = [], []

    def open_page(look, name):
        context = browser.new_context(**LOOKS[look])
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.goto((site / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not [url for url in requested if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("look", LOOKS)
def test_pages_fit_and_are_accessible(visit, look):
    faults = {}
    for name in KINDS:
        page = visit(look, name)
        assert page.evaluate("document.documentElement.scrollWidth") == LOOKS[look]["viewport"]["width"], name
        results = Axe().run(page, options={"resultTypes": ["violations"]}) if name in CHECKED[look] else None
        if results and results.violations_count:
            found = results.response["violations"]
            faults[name] = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    assert not faults


def test_the_search_finds_a_page_without_a_server(visit):
    page = visit("light", "index")
    page.get_by_role("textbox", name="Search").or_(page.get_by_placeholder("Search")).first.fill("faithfulness")
    page.keyboard.press("Enter")
    expect(page.locator("#search-results li").filter(has_text="faithfulness").first).to_be_visible()


def test_the_focus_is_visible(visit):
    page = visit("light", "reference/metrics")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert shown == "solid", page.evaluate("document.activeElement.outerHTML")


def test_the_pictures_are_those_of_the_script():
    spec = importlib.util.spec_from_file_location("screenshots", DOCS / "screenshots.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = {path.name: path.read_bytes() for path in (DOCS / "pictures").iterdir()}
    assert found.keys() == set(script.NAMES)
    assert {name for name in script.NAMES if len(found[name]) > MOST_BYTES} == set()
    assert {int.from_bytes(content[16:20]) for content in found.values()} == {1280}
    used = "".join(path.read_text() for path in (ROOT / "README.md", *DOCS.rglob("*.md")))
    assert not [name for name in script.NAMES if not re.search(rf"pictures/{name}\)", used)]
