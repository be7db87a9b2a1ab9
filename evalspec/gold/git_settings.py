"""Read settings of git."""

import shutil
import subprocess
from pathlib import Path

_SECONDS = 10


def read_git_setting(folder: Path, key: str) -> str | None:
    """Return a setting of git as it applies to a folder, such as `user.name`. None without git, or if it is not set."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        asked = subprocess.run(
            [git, "config", "--get", key], cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
