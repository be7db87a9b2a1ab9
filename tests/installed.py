"""Other environments, and an installation of evalspec that says another origin than this one."""

import json
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from evalspec.base.distribution import NAME


def make_environment(folder: Path, *packages: str) -> Path:
    """Make an environment with these packages, and return its Python."""
    venv.create(folder, clear=True)
    python = folder / "bin" / "python"
    install = Path(__file__).parents[1] / ".ci" / "install"
    subprocess.run([install, sys.executable, python, *packages], check=True, capture_output=True)
    return python


def pretend_origin(monkeypatch: pytest.MonkeyPatch, place: Path, origin: dict[str, Any] | None) -> None:
    """Let `direct_url.json` of the installation be `origin`; None: pip installed it from an index, and wrote none."""
    folder = place / "evalspec_runner-0.dist-info"
    folder.mkdir(parents=True)
    needed = "".join(f"Requires-Dist: {line}\n" for line in metadata.requires(NAME) or ())
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0\n{needed}")
    (folder / "INSTALLER").write_text("pip\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(place))
