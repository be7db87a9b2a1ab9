"""The wheel and the sdist of this checkout, built from a copy, because building leaves files behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FILES = (
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "action.yml",
    "constraints.txt",
    "pyproject.toml",
    "requirements-slim.txt",
)


def copy_source(folder: Path) -> Path:
    """Copy what a checkout needs to be installed or built to a folder, and return its path."""
    source = folder / "source"
    source.mkdir()
    for name in _FILES:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "evalspec", source / "evalspec", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def build_wheel(folder: Path) -> Path:
    """Build the wheel below a folder and return its path. pip may fetch the build system."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(copy_source(folder))], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_dist(folder: Path) -> tuple[Path, Path]:
    """Run `make dist` in a copy below a folder with this environment, and return the paths of wheel and sdist."""
    source = copy_source(folder)
    ready = source / ".venv" / ".dev"
    ready.parent.mkdir()
    ready.touch()
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("MAKE", "PYTHON", "MFLAGS"))}
    command = ["make", "dist", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(command, cwd=source, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = (source / "dist").glob("*.whl"), (source / "dist").glob("*.tar.gz")
    assert done.stdout.count("PASSED") == 2
    return wheel, sdist
