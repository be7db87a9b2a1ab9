from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from chromium import PATIENCE, watch_page
from hostile_texts import HOSTILE
from servers.faulty_agent import FaultyAgent
from servers.service import Server, write_project
from service.pages.shops import (
    building,
    change_shop,
    label_hostile_shop,
    run_hostile_shop,
    run_shop,
    write_hostile_shop,
    write_shop,
)

USER = "ana@example.com"
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@dataclass
class Shops:
    """A server of four projects: shop with runs, docs with hostile texts, one without runs, one of an agent.

    `runs`: three with more or less wrong answers, one with three attempts at each sample, one of changed samples.
    """

    server: Server
    runs: list[str]
    hostile: list[str]
    agent: FaultyAgent

    def headers(self, *namespaces: str, scopes: Sequence[str] = ("admin",), user: str = USER) -> dict[str, str]:
        token = self.server.token(*scopes, user=user, namespaces=namespaces or ("shop",))
        return {"Authorization": f"Bearer {token}"}


@dataclass
class Keys:
    """The keyboard of somebody who waits for each page: no key is heard before its scripts have run."""

    page: Any

    def press(self, key: str) -> None:
        self.page.wait_for_load_state("load")
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)


@dataclass
class Opened:
    """One page, and what happened on it that must not."""

    page: Any
    url: str
    troubles: list[str]

    @property
    def keys(self) -> Keys:
        return Keys(self.page)

    def go(self, path: str) -> Any:
        response = self.page.goto(self.url + path)
        self.page.wait_for_load_state("load")
        return response

    def check(self) -> None:
        """Nothing was thrown, refused by the policy, asked of another host or opened."""
        assert self.troubles == []
        assert self.page.evaluate("window.violations") == []


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    root = tmp_path_factory.mktemp("shops")
    shop, docs = write_shop(root / "shop"), write_hostile_shop(root / "docs", HOSTILE)
    (root / "empty").mkdir()
    agent = FaultyAgent()
    with building("main"):
        runs = [run_shop(shop, wrong).id for wrong in (3, 5, 4)]
    with building("feature/rerank", "12"):
        runs.append(run_shop(shop, 6, repeat=3, datasets=["answers"]).id)
    change_shop(shop)
    runs.append(run_shop(shop).id)
    with building("<img src=x onerror=alert(1)>{{7*7}}"):
        hostile = [run_hostile_shop(docs, repeat=2).id, run_hostile_shop(docs, other="Paris ").id]
    label_hostile_shop(docs, hostile[0], HOSTILE, USER)
    projects = {"shop": shop, "docs": docs, "empty": root / "empty"}
    with agent:
        projects["live"] = write_project(root / "live", agent.url)
        server = Server(projects, f"sqlite:///{root / 'service.db'}", root / "server.log", "--lease", "2").start()
        yield Shops(server, runs, hostile, agent)
        server.stop()


@pytest.fixture
def opened(browser: Any, shops: Shops) -> Callable[..., AbstractContextManager[Opened]]:
    """Opens pages as an admin of some namespaces; at the end nothing may have happened that must not."""

    @contextmanager
    def open_pages(
        *namespaces: str, scopes: Sequence[str] = ("admin",), user: str = USER, **context: Any
    ) -> Iterator[Opened]:
        headers = shops.headers(*namespaces, scopes=scopes, user=user)
        with browser.new_context(extra_http_headers=headers, **context) as browsing:
            browsing.set_default_timeout(PATIENCE)
            browsing.add_init_script(WATCH)
            page = browsing.new_page()
            found = Opened(page, shops.server.url, watch_page(page, _is_own))
            yield found
            assert found.troubles == []

    def _is_own(url: str) -> bool:
        return url.startswith(f"{shops.server.url}/")

    return open_pages
