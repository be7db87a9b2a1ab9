"""The code of an agent that a command starts: one run must not mix two versions of it.

Python code that the command names is read, with all it imports from its folder. For other programs, git says which
files the project has. Images, installed packages and files that git ignores stay unknown.
"""

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.git import read_git
from evalspec.http.failures import shown_url
from evalspec.json_text import compute_digest
from evalspec.planning.build import Plan
from evalspec.planning.command_files import find_command_files
from evalspec.trust import Act, explain

_MOST_BYTES = 20 << 20
"""Size of a file above which it is not read, but known by its size and time."""
_MOST_CHANGED = 10_000
"""Files that are changed or unknown to git above which they are not compared."""

_OF_AGENTS = (".log", ".pid", ".db", ".sqlite", ".sqlite3", ".pyc", ".gitignore")
"""Endings of files that agents and Python write, and of the list where a person names more of them."""
_REPORTS = (".csv", ".html", ".json", ".jsonl", ".md", ".parquet", ".sarif", ".xml")
"""Endings of files that evalspec writes. They count only if git tracks them."""


def find_command(plan: Plan) -> Sequence[str] | None:
    """Return the command that starts the agent of a run; None if the run asks no agent, or one at another url."""
    is_asked = plan.url is not None and any(dataset.is_at_agent for dataset in plan.datasets)
    return plan.loaded.manifest.spec.api.command if is_asked and plan.options.url is None else None


def describe_code(plan: Plan) -> dict[str, str | None]:
    """Return digests for the fingerprint: of the files that the command names, and without Python, of those of git.

    None: there is nothing to compare. Empty: no command is started.
    """
    command = find_command(plan)
    if command is None or explain(Act.START, shlex.join(command)) is not None:
        return {}
    folder = plan.loaded.path.parent.resolve()
    code, others = find_command_files(command, folder)
    files = {os.path.relpath(one, folder): _identify(one) for one in code | others if not one.name.endswith(_OF_AGENTS)}
    digests = {"codeSha256": compute_digest(files) if files else None}
    return digests if code else digests | {"gitSha256": _describe_git(plan)}


def explain_unknown(plan: Plan, agent: Mapping[str, Any]) -> str | None:
    """Return what is unknown about the agent of a resumed run; None: its code was compared.

    `agent`: that of the fingerprint.
    """
    if plan.url is None or (find_command(plan) and agent.keys().isdisjoint(("gitSha256", "reusedUrl"))):
        return None
    said = f"evalspec cannot tell whether the agent at {shown_url(plan.url)} is the one that the run began with"
    return f"{said}; the project's files that git does not ignore are unchanged" if agent.get("gitSha256") else said


def _describe_git(plan: Plan) -> str | None:
    """Return a digest of the files of the project's repository, committed or not.

    What the run reads is left out, because it is compared by itself. None: there is no git or no repository, git does
    not answer in time, or too many files are changed or unknown to it.
    """
    root = Path(read_git(plan.loaded.path.parent, "rev-parse", "--show-toplevel") or os.devnull)
    tracked = read_git(root, "ls-files", "--stage", "-z")
    changed = read_git(root, "ls-files", "--modified", "--others", "--exclude-standard", "-z")
    if tracked is None or changed is None or changed.count("\0") > _MOST_CHANGED:
        return None
    entries = (entry.partition("\t") for entry in tracked.split("\0") if entry)
    files = {root / name: head.split()[1] for head, _, name in entries}
    for file in (root / name for name in changed.split("\0") if name):
        is_code = files.pop(file, None) is not None or not file.name.endswith(_REPORTS)
        files |= {file: _identify(file)} if is_code and file.is_file() else {}
    read = {one.path.resolve() for one in plan.inputs}
    kept = {
        str(file.relative_to(root)): content
        for file, content in files.items()
        if not file.name.endswith(_OF_AGENTS) and read.isdisjoint((file, *file.parents))
    }
    return compute_digest(kept)


def _identify(file: Path) -> str:
    """Return the name that git has for the content of a file, or size and time of a large one."""
    try:
        found = file.stat()
        if found.st_size > _MOST_BYTES:
            return f"{found.st_size} {found.st_mtime_ns}"
        return hashlib.sha1(b"blob %d\0" % found.st_size + file.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return "unreadable"
