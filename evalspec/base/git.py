"""What git says about a folder."""

import os
from pathlib import Path

_SECONDS = 20


def read_git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, None if it fails or is not installed."""
    import shutil
    import subprocess

    git = shutil.which("git")
    if git is None:
        return None
    try:
        asked = subprocess.run([git, *arguments], cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(asked.stdout).strip() if asked.returncode == 0 else None


def read_git_setting(folder: Path, key: str) -> str | None:
    """Return a setting of git as it applies to a folder, such as `user.name`. None without git, or if it is not set."""
    return read_git(folder, "config", "--get", key) or None
