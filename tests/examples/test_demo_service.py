"""`make demo-service`: a server with a worker, three pushed runs, a link to log in, and an end by Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from servers.ports import find_free_port
from servers.service import GENEROUS_SECONDS, wait_for

ROOT = Path(__file__).parents[2]
DEMO = "examples/service/demo.py"


def test_make_calls_the_demo():
    assert f"$(BIN)/python {DEMO}" in (ROOT / "Makefile").read_text()


def test_the_demo_serves_three_runs_and_ends_with_ctrl_c(tmp_path):
    port = find_free_port()
    said, folder = tmp_path / "said", tmp_path / "demo"
    command = [sys.executable, str(ROOT / DEMO), "--folder", str(folder), "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVALSPEC_")}
    with (
        said.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True) as process,
    ):
        try:
            link = wait_for(lambda: _find_link(process, said))
            wait_for(lambda: _answers(port))
            with httpx.Client(headers={"Sec-Fetch-Site": "same-origin"}, timeout=60) as client:
                assert client.post(link).status_code == 200
                runs = wait_for(lambda: _list_three(client, port))
                pushed = client.get(f"http://127.0.0.1:{port}/runs/{runs[0]}").text
                assert "ci@example.com" in pushed and "more-pages" in pushed
                compared = client.get(f"http://127.0.0.1:{port}/compare?baseline={runs[-1]}&candidate={runs[0]}").text
                assert "Newly passing" in compared
                assert client.get(f"http://127.0.0.1:{port}/runs/{runs[0]}/label").status_code == 200
                sets = client.get(f"http://127.0.0.1:{port}/gold").text
                assert "Review 1" in sets and "2 disputes to settle" in sets
                review = client.get(f"http://127.0.0.1:{port}/gold/help/review").text
                assert "How long does a reset link work?" in review and "expires after 30 minutes" in _text_of(review)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            process.wait(GENEROUS_SECONDS)
    assert process.returncode in (-signal.SIGINT, 130, 0), said.read_text()
    assert "Traceback" not in said.read_text()


def test_the_server_ends_with_the_demo(tmp_path):
    port = find_free_port()
    command = [sys.executable, str(ROOT / DEMO), "--folder", str(tmp_path / "demo"), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: _answers(port))
        finally:
            process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    wait_for(lambda: not _answers(port))


def _text_of(page):
    return re.sub(r"<[^>]+>", "", page)


def _find_link(process, said):
    assert process.poll() is None, said.read_text()
    found = re.search(r"log in once, within 10 minutes: (\S+)", said.read_text())
    return found and found[1]


def _list_three(client, port):
    page = client.get(f"http://127.0.0.1:{port}/runs").text
    runs = sorted({*re.findall(r'href="/runs/(2[^"/]*)"', page)}, reverse=True)  # the newest first
    return runs if len(runs) == 3 else None


def _answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.TransportError:
        return False
