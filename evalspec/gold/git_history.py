"""What the git history of a set still has of a customer."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from evalspec.gold.revoking import Content
from evalspec.plural import counted

_SECONDS = 20


def describe_git(root: Path, content: Content) -> Iterator[str]:
    """Yield what git has of a customer: every triple that named it in any revision, and those revoked now."""
    if not any((folder / ".git").exists() for folder in (root.resolve(), *root.resolve().parents)):
        return
    owner = rf"customer[\"']?:[ ]*[\"']?{re.escape(content.customer)}([\"' ,}}]|$)"
    listed = _ask_git(
        root, "log", "--all", "--format=", "--name-only", "--relative", "-z", f"-G{owner}", "--", "triples"
    )
    names = {Path(name.strip()).stem for name in (listed or "").split("\0") if name.strip()}
    names |= {entry.id for entry in content.entries}
    paths = [path for name in sorted(names) for path in (f"triples/{name}.yaml", f"events/{name}")]
    commits = _ask_git(root, "log", "--all", "--format=%h", "--", *paths) if paths else ""
    if listed is None or commits is None:
        yield "git history: could not be searched; it may have these triples"
    elif commits:
        count = len(commits.split())
        have = counted(count, "commit has", "commits have")
        yield f"git history: {have} these triples, with every earlier wording; `git filter-repo` rewrites them"
        remotes = _ask_git(root, "remote")
        if remotes:
            yield f"pushed copies: {', '.join(remotes.split())}"


def _ask_git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None if it fails."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        asked = subprocess.run(
            [git, *arguments], cwd=root, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
