"""The code of one namespace tries to reach the others and the service, and what it got is its answer."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import evalspec
from servers.service import Server, processes_of, wait_for, write_project

NOBODY = 65534
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0
pytestmark = pytest.mark.skipif(not IS_ROOT, reason="only root can run code as other users")

ATTACKER = """
import glob, json, os, subprocess, sys
from pathlib import Path

def attack(question):
    known = json.loads(Path("known.json").read_text())
    got = [name for name, path in known["places"].items() if reaches(path)]
    got += [f"{name} in {place}" for place in ("environ", "cmdline") for name, word in known["words"].items()
            if any(word.encode() in read(path) for path in glob.glob(f"/proc/*/{place}"))]
    got += [f"signal {name}" for name, pid in known["processes"].items() if signals(pid)]
    got += ["descriptors"] if any(known["database"] in link(path) for path in glob.glob("/proc/[0-9]*/fd/*")) else []
    got += ["root"] if becomes_root() else []
    got += [f"own {name}={value}" for name, value in os.environ.items() if name.startswith("KEY_")]
    lasting = "import os, time; os.fork() or os.setsid(); time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", lasting, known["mark"]])
    return json.dumps(got)

def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""

def reaches(path):
    try:
        return bool(os.listdir(path) if os.path.isdir(path) else read(path))
    except OSError:
        return False

def signals(pid):
    try:
        return os.kill(pid, 0) is None
    except OSError:
        return False

def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""

def becomes_root():
    done = subprocess.run(["su", "-c", "id -u"], capture_output=True, stdin=subprocess.DEVNULL)
    return done.stdout.strip() == b"0"
"""


@pytest.fixture
def place():
    """A folder that other users may enter, unlike those of tests."""
    folder = Path(tempfile.mkdtemp(prefix="isolation-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A Python that other users can start: this one, or the system's with the same packages."""
    as_nobody: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/", "capture_output": True}
    with suppress(OSError):
        if subprocess.run([sys.executable, "-c", "import evalspec"], **as_nobody).returncode == 0:
            yield sys.executable
            return
    found = shutil.which("python{}.{}".format(*sys.version_info), path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("other users cannot start Python here")
    with tempfile.TemporaryDirectory(prefix="python-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        subprocess.run([found, "-m", "venv", "--without-pip", folder], check=True)
        packages = next(Path(folder).glob("lib/*/site-packages"))
        shared = [sysconfig.get_path("purelib"), str(Path(evalspec.__file__).parents[1])]
        (packages / "shared.pth").write_text("\n".join(shared))
        if subprocess.run([f"{folder}/bin/python", "-c", "import evalspec"], **as_nobody).returncode != 0:
            pytest.skip("other users cannot read the packages here")
        yield f"{folder}/bin/python"


@pytest.fixture
def attacked(place):
    """Namespace shop, whose agent attacks, and namespace docs with a token in a file."""
    folders = {name: write_project(place / name, samples=1) for name in ("shop", "docs")}
    (folders["docs"] / "token").write_text("evs_docs")
    (folders["docs"] / ".evalspec" / "runs").mkdir(parents=True)
    (folders["docs"] / ".evalspec" / "runs" / "a-run").write_text("private")
    (folders["shop"] / "attacker.py").write_text(ATTACKER)
    describe(folders["shop"], {"python": "attacker:attack"})
    return folders


def describe(folder, api):
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    manifest["spec"]["api"] = api
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))


def start(python, place, folders, *arguments, user=None):
    """Start a server whose database is beside the projects, as root or as another user."""
    (place / "db").mkdir(mode=0o700)
    process: dict[str, Any] = {"python": python}
    if user is not None:
        process |= {"user": user, "group": user, "extra_groups": []}
        subprocess.run(["chown", "-R", f"{user}:{user}", place], check=True)
    environment = {"KEY_SHOP": "shop-key", "KEY_DOCS": "docs-key", "HOME": str(place / "db")}
    server = Server(folders, f"sqlite:///{place}/db/service.db", place / "server.log", *arguments, **process)
    return server.start(**environment)


def run_agent(server, folder, **more):
    """Run the manifest of shop. Return its job, and what the agent answered."""
    words = {"the key of docs": "docs-key", "the database": server.database}
    places = {
        "token": "docs/token",
        "runs": "docs/.evalspec/runs",
        "run": "docs/.evalspec/runs/a-run",
        "db": "db/service.db",
    }
    worker, *_ = wait_for(lambda: processes_of(server, "worker_process"))
    known = {
        "places": {name: str(folder.parent / path) for name, path in places.items()},
        "words": words,
        "processes": {"server": server.process.pid, "worker": worker},
        "database": "service.db",
        "mark": folder.parent.name,
    }
    (folder / "known.json").write_text(json.dumps(known))
    (folder / "known.json").chmod(0o644)
    with server.client("admin") as client:
        answer = client.post("/v1/runs", json={})
        assert answer.status_code == 202, answer.text
        job = wait_for(lambda: (found := client.get(answer.headers["Location"]).json())["finished_at"] and found)
        if job["status"] != "completed":
            return job, None
        sample = client.get(f"/v1/runs/{job['run_id']}/samples/qa/s0").json()
    return job, json.loads(sample["attempts"][0]["reply"]["response"])


def list_left(place):
    """The processes that the agent has left."""
    found = subprocess.run(["pgrep", "-f", f"time.sleep.*{place.name}$"], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


KINDS = {"uid": None, "bubblewrap": NOBODY, "off": NOBODY}


@pytest.mark.parametrize("kind", KINDS)
def test_code_of_a_namespace_reaches_nothing_but_its_own(attacked, place, python, kind):
    if kind == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    own = ("--env", "shop:KEY_OWN=KEY_SHOP", "--isolation", kind)
    server = start(python, place, attacked, *own, user=KINDS[kind])
    try:
        _, got = run_agent(server, attacked["shop"])
        if kind != "off":
            wait_for(lambda: not list_left(place))
    finally:
        server.stop()
    if kind == "off":  # the attacks work
        assert {"token", "runs", "run", "db", "the key of docs in environ", "signal server"} <= {*got}
        for pid in list_left(place):
            os.kill(pid, signal.SIGKILL)
        return
    assert got == ["own KEY_OWN=shop-key"], (place / "server.log").read_text()
    if kind == "uid":
        folder = attacked["shop"].stat()
        assert (stat.S_IMODE(folder.st_mode), folder.st_uid >= 0x7000_0000) == (0o700, True)
        assert attacked["docs"].stat().st_uid != folder.st_uid


def test_the_server_follows_no_link_that_the_code_of_a_namespace_has_made(attacked, place, python):
    made = evalspec.evaluate(attacked["docs"] / "agent.yaml", agent=lambda _: "x", store=attacked["docs"] / ".evalspec")
    (attacked["shop"] / ".evalspec").mkdir()
    (attacked["shop"] / ".evalspec" / "runs").symlink_to(attacked["docs"] / ".evalspec" / "runs")
    (attacked["shop"] / "qa.jsonl").unlink()
    (attacked["shop"] / "qa.jsonl").symlink_to(attacked["docs"] / "token")
    server = start(python, place, attacked, "--isolation", "uid")
    try:
        with server.client("admin") as client:
            runs, one, started = (
                client.get("/v1/runs"),
                client.get(f"/v1/runs/{made.id}"),
                client.post("/v1/runs", json={}),
            )
        with server.client("admin", namespaces=["docs"]) as client:
            assert made.id in client.get("/v1/runs").text
    finally:
        server.stop()
    assert made.id not in runs.text
    assert one.status_code != 200 or (one.json()["status"], one.json()["result"]) == ("damaged", None), one.text
    assert started.status_code == 422
    assert "a link leads out" in runs.text or not runs.json()["runs"]
    assert "evs_docs" not in started.text


@pytest.mark.parametrize("kind", ["uid", "off"])
def test_an_untrusted_project_starts_nothing_of_its_own(attacked, place, python, kind):
    server = start(python, place, attacked, "--untrusted", "--isolation", kind)
    shop = attacked["shop"]
    try:
        with server.client("admin") as client:
            refused = client.post("/v1/runs", json={})
            describe(shop, {"url": "http://127.0.0.1:9/$env:KEY_DOCS"})
            other = client.post("/v1/runs", json={})
    finally:
        server.stop()
    assert refused.status_code == 422
    assert "--untrusted does not import the project's code: attacker:attack" in refused.text
    assert "--untrusted does not connect to" in other.text
