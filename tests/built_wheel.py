"""The wheel and the sdist of this checkout, built from a copy, because building leaves files behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FILES = (
    ".ci/stable_sdist.py",
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
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "evalspec", source / "evalspec", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def _litter(source: Path) -> None:
    """Leave in each folder of the package what editors and Python leave there."""
    for folder in [source / "evalspec", *(path for path in (source / "evalspec").rglob("*") if path.is_dir())]:
        some = next(path for path in (*folder.iterdir(), source / "pyproject.toml") if path.is_file())
        (folder / f"{some.name}.orig").touch()
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / f"{some.stem}.cpython-311.pyc").touch()
    (source / "evalspec_old").mkdir()
    (source / "evalspec_old" / "__init__.py").touch()


def build_wheel(folder: Path, *, litter: bool = False) -> Path:
    """Build the wheel below a folder and return its path. pip may fetch the build system."""
    source = copy_source(folder)
    if litter:
        _litter(source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_dist(folder: Path, *, litter: bool = False) -> tuple[Path, Path]:
    """Run `make dist` in a copy below a folder with this environment, and return the paths of wheel and sdist."""
    source = copy_source(folder)
    if litter:
        _litter(source)
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
