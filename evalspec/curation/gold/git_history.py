"""What the git history of a set still has of a customer."""

import re
from collections.abc import Iterator
from pathlib import Path

from evalspec.base.git import read_git
from evalspec.base.plural import counted
from evalspec.curation.gold.revoking import Content


def describe_git(root: Path, content: Content) -> Iterator[str]:
    """Yield what git has of a customer: every triple that named it in any revision, and those revoked now."""
    if not any((folder / ".git").exists() for folder in (root.resolve(), *root.resolve().parents)):
        return
    owner = rf"customer[\"']?:[ ]*[\"']?{re.escape(content.customer)}([\"' ,}}]|$)"
    listed = read_git(
        root, "log", "--all", "--format=", "--name-only", "--relative", "-z", f"-G{owner}", "--", "triples"
    )
    names = {Path(name.strip()).stem for name in (listed or "").split("\0") if name.strip()}
    names |= {entry.id for entry in content.entries}
    paths = [path for name in sorted(names) for path in (f"triples/{name}.yaml", f"events/{name}")]
    commits = read_git(root, "log", "--all", "--format=%h", "--", *paths) if paths else ""
    if listed is None or commits is None:
        yield "git history: could not be searched; it may have these triples"
    elif commits:
        count = len(commits.split())
        have = counted(count, "commit has", "commits have")
        yield f"git history: {have} these triples, with every earlier wording; `git filter-repo` rewrites them"
        remotes = read_git(root, "remote")
        if remotes:
            yield f"pushed copies: {', '.join(remotes.split())}"
