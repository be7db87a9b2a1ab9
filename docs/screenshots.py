"""The pictures of README and docs: `python docs/screenshots.py` makes them again in docs/pictures.

They show the runs of examples/service/demo.py, whose scores are the same each time. Ids, times and latencies differ.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent / "examples" / "service"), str(DOCS.parent / "tests")]

from demo import BROKEN_THRESHOLD, BUILDS, EVALSPEC, push_runs, wait_until_healthy, write_project  # noqa: E402
from playwright.sync_api import Browser, Page  # noqa: E402

from chromium import open_browser  # noqa: E402 - of the tests: the browser of the system

PICTURES = DOCS / "pictures"
NAMES = ("report.png", "run.png", "comparison.png")
"""The HTML report of a run that fails, its page in the service, and the comparison of two runs there."""

_PORT = 8321
_VIEW = {"width": 1280, "height": 790}


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        project, build = Path(folder) / "project", Path(folder) / "ci"
        for place in (project, build):
            write_project(place)
        with _open_page(browser) as page:
            page.goto(_write_report(build).as_uri())
            _write_picture(page, "report.png")
        with _serve(project) as (link, url), _open_page(browser) as page:
            push_runs(project, build, url)
            page.goto(link)
            page.get_by_role("button").click()
            baseline, candidate = _list_runs(project)[0], _list_runs(project)[-1]
            page.goto(f"{url}/runs/{baseline}")
            _write_picture(page, "run.png")
            page.goto(f"{url}/compare?{urlencode({'baseline': baseline, 'candidate': candidate})}")
            _write_picture(page, "comparison.png")


def _write_report(build: Path) -> Path:
    """Evaluate the agent with a part of the help pages, and return the path of the HTML report."""
    share, _ = BUILDS[0]
    corpus = build / "corpus.jsonl"
    whole = corpus.read_text(encoding="utf-8")
    pages = whole.splitlines(keepends=True)
    corpus.write_text("".join(pages[: round(share * len(pages))]), encoding="utf-8")
    done = subprocess.run((*EVALSPEC, "evaluate", "agent.yaml", "--quiet", "-o", "report.html"), cwd=build)
    if done.returncode != BROKEN_THRESHOLD:
        sys.exit(f"the run of the report exits with {done.returncode}; {BROKEN_THRESHOLD} is expected")
    corpus.write_text(whole, encoding="utf-8")
    return build / "report.html"


@contextmanager
def _open_page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=_VIEW, color_scheme="light", locale="en", timezone_id="UTC") as context:
        yield context.new_page()


@contextmanager
def _serve(project: Path) -> Iterator[tuple[str, str]]:
    """Serve a project, and return the link to log in and the url."""
    url, log = f"http://127.0.0.1:{_PORT}", project / "server.log"
    options = ("--project", f"demo={project}", "--port", str(_PORT), "--login-user", "ada@example.com")
    with (
        log.open("wb") as output,
        subprocess.Popen((*EVALSPEC, "serve", *options), cwd=project, stdout=output, stderr=output) as server,
    ):
        try:
            is_up = wait_until_healthy(server, url)
            printed = log.read_text(encoding="utf-8")
            found = re.search(r"log in once.*: (\S+)", printed)
            if not is_up or not found:
                sys.exit(f"the server does not start: {printed}")
            yield found[1], url
        finally:
            server.terminate()


def _list_runs(project: Path) -> list[str]:
    """Return the ids of the runs, from the oldest on."""
    command = (*EVALSPEC, "runs", "list", "--json")
    done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    return [run["id"] for run in json.loads(done.stdout)["runs"]][::-1]


def _write_picture(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=str(PICTURES / name))


if __name__ == "__main__":
    main()
