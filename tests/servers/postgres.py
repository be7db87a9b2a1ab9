"""A throwaway cluster of the system's PostgreSQL, run as an unprivileged user, with a database per test."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

_UNPRIVILEGED = ("postgres", "nobody")


def find_binaries() -> Path | None:
    """The folder of initdb and postgres: of the newest version that Debian's packages installed, or on the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


def _unprivileged() -> int | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user.pw_uid for user in pwd.getpwall()}
    return next(users[name] for name in _UNPRIVILEGED if name in users)


class Cluster:
    """A cluster, which can be stopped and started again. It listens on a socket in its own folder only."""

    def __init__(self, binaries: Path, folder: Path, user: int | None) -> None:
        self.folder = folder
        self._binaries, self._user = binaries, user
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = (
            "fsync=off",
            "listen_addresses=",
            f"unix_socket_directories={self.folder}",
            "max_connections=200",
        )
        given = [part for setting in settings for part in ("-c", setting)]
        command = [str(self._binaries / "postgres"), "-D", str(self.folder / "data"), *given]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, user=self._user, cwd=self.folder, stderr=log)
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder), "-t", "1"]
        while self._server.poll() is None:
            if subprocess.run(ready).returncode == 0:
                return
        pytest.fail((self.folder / "log").read_text())

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the server: SIGTERM waits for clients, SIGINT disconnects them, SIGQUIT is a crash."""
        assert self._server is not None, "it was started"
        self._server.send_signal(number)
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), user="tests", dbname="postgres", autocommit=True)

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://tests@/{name}?host={self.folder}"


@contextmanager
def open_cluster() -> Iterator[Cluster]:
    binaries = find_binaries()
    if binaries is None:
        message = "PostgreSQL is not installed; on Debian: apt-get install postgresql"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    folder = Path(tempfile.mkdtemp(prefix="evalspec-pg-"))
    user = _unprivileged()
    if user is not None:
        os.chown(folder, user, -1)
    options = ["-D", str(folder / "data"), "-U", "tests", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    command = [str(binaries / "initdb"), *options]
    subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    cluster = Cluster(binaries, folder, user)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
