"""npm's `oidc-provider` as a process of its own, which `make oidc-provider` installs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers.ports import find_free_port
from servers.service import wait_for

INSTALLED = Path(__file__).parents[2] / "build" / "oidc-provider"
PROGRAM = Path(__file__).parent / "oidc_provider" / "server.mjs"
IN_CI = bool(os.environ.get("CI"))
"""Read before a fixture takes it out of the environment of the tests."""


class OpenIdProvider:
    """The provider at `url`, once it is started, which logs in everybody who names an address."""

    def __init__(self, log: Path) -> None:
        self.port, self._log = find_free_port(), log
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, kid: str, **clients: dict[str, Any]) -> None:
        """Start with new keys of this name, after stopping. `clients`: their metadata, by id."""
        self.stop()
        known = [{"client_id": id, **client} for id, client in clients.items()]
        given = json.dumps({"port": self.port, "kid": kid, "clients": known})
        with self._log.open("ab") as log:
            command = [str(shutil.which("node")), str(PROGRAM), given]
            self._process = subprocess.Popen(command, cwd=INSTALLED, stdout=log, stderr=log)
        wait_for(self._answers)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            return httpx.get(f"{self.url}/jwks").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def open_provider(log: Path) -> Iterator[OpenIdProvider]:
    """A provider that is not started yet. Skips the test if it is not installed, unless in CI."""
    if not (INSTALLED / ".ready").exists() or shutil.which("node") is None:
        (pytest.fail if IN_CI else pytest.skip)("oidc-provider is not installed; run `make oidc-provider`")
    provider = OpenIdProvider(log)
    try:
        yield provider
    finally:
        provider.stop()
