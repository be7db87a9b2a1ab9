"""The Dockerfile and the compose file of examples/service, as far as they can be checked without a container engine."""

import json
import os
import re
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from evalspec.cli.main import group
from servers.service import Server, write_project

FOLDER = Path(__file__).parents[2] / "examples" / "service"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def test_the_image_runs_as_somebody_and_is_pinned():
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(set(stages)) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", stages[0])
    assert re.search(r"^USER (?!0$|root$)\S+", DOCKERFILE, re.MULTILINE)
    for name in re.search(r"^COPY (pyproject.*) \./$", DOCKERFILE, re.MULTILINE)[1].split():
        assert (FOLDER.parents[1] / name).is_file()


def test_the_services_fit_together():
    assert {name for one in SERVICES.values() for name in one.get("depends_on", {})} <= SERVICES.keys()
    named = {one.partition(":")[0] for service in SERVICES.values() for one in service["volumes"]}
    assert {name for name in named if not name.startswith(".")} == set(COMPOSE["volumes"])
    assert all(re.search(r":\S*\d", one["image"]) for one in SERVICES.values() if "build" not in one)
    for name in ("server", "worker"):
        build = SERVICES[name]["build"]
        assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == FOLDER / "Dockerfile"
        assert SERVICES[name]["read_only"]
        assert "POSTGRES_PASSWORD:?" in SERVICES[name]["environment"]["PGPASSWORD"], "none is written down"
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["server"]["ports"])


@pytest.mark.parametrize("name", ["server", "worker"])
def test_the_commands_are_commands_of_evalspec(name, monkeypatch):
    for key, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(key, value)
    command, *arguments = SERVICES[name]["command"]
    context = group.get_command(click.Context(group), command).make_context(command, arguments)
    assert context.params["given"] == ("shop=/projects/shop",)
    assert context.params["database"] == "postgresql://evalspec@db/evalspec"


def test_the_health_check_of_the_image(tmp_path):
    program = json.loads(re.search(r'^    CMD (\["python".*\])$', DOCKERFILE, re.MULTILINE)[1])
    server = Server({"shop": write_project(tmp_path / "shop")}, f"sqlite:///{tmp_path}/s.db", tmp_path / "log",
                    "--workers", "0")  # fmt: skip
    program[2] = program[2].replace("8321", str(server.port))
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9"}

    def check():
        return subprocess.run(program, capture_output=True, env=environment).returncode

    assert check() != 0
    try:
        server.start()
        assert check() == 0
    finally:
        assert server.stop() == 0
