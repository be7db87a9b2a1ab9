"""The code of an agent that runs here: one run must not mix two versions of it.

Python code that a command names is read, with all it imports from its folder. What else an agent reads, such as prompts
and code that is loaded by name, only git knows. Images, installed packages and files that git ignores stay unknown.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.git import read_git
from evalspec.base.json_text import compute_digest
from evalspec.base.trust import Act, explain
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.command_files import find_command_files

_MOST_BYTES = 20 << 20
"""Size of a file above which it is not read, but known by its size and time."""
_MOST_CHANGED = 10_000
"""Files that are changed or unknown to git above which they are not compared."""

_WRITTEN = re.compile(
    r"\.(?:cache|db|gitignore|lock|log|out|pid|pyc|sock|sqlite3?|tmp)(?:[-./][^/]*)*$|-journal$|(?:^|/)__pycache__/"
)
"""Paths of files that agents and Python write, and of the list where a person names more of them."""
_REPORTS = (".csv", ".html", ".json", ".jsonl", ".md", ".parquet", ".sarif", ".xml")
"""Endings of files that evalspec writes. Like those that agents write, they count only if git tracks them."""
_KNOWN = ("H", "100")
"""Of a regular file that git compares with what it has."""


def find_command(plan: Plan) -> Sequence[str] | None:
    """Return the command that starts the agent of a run; None if the run asks no agent, or one at another url."""
    is_asked = plan.url is not None and any(dataset.is_at_agent for dataset in plan.datasets)
    return plan.loaded.manifest.spec.api.command if is_asked and plan.options.url is None else None


def describe_code(plan: Plan) -> dict[str, str | None]:
    """Return digests for the fingerprint: of the files that the command names, and of all files that git knows.

    None: there is nothing to compare. Empty: the agent does not run here.
    """
    command = find_command(plan)
    if command is None:
        return {"gitSha256": _describe_git(plan)} if plan.own_agent else {}
    if explain(Act.START, shlex.join(command)) is not None:
        return {}
    folder = plan.loaded.path.parent.resolve()
    named = {os.path.relpath(one, folder): one for one in find_command_files(command, folder)}
    files = {name: _identify(one) for name, one in named.items() if not _WRITTEN.search(name)}
    return {"codeSha256": compute_digest(files) if files else None, "gitSha256": _describe_git(plan)}


def explain_unknown(plan: Plan, agent: Mapping[str, Any]) -> str | None:
    """Return what is unknown about the agent of a resumed run; None: its code and the files of git were compared.

    `agent`: that of the fingerprint.
    """
    code, git = agent.get("codeSha256"), agent.get("gitSha256")
    is_started = find_command(plan) is not None and "reusedUrl" not in agent
    if plan.url is None or (is_started and code and git):
        return None
    from evalspec.targets.http.failures import shown_url

    said = f"evalspec cannot tell whether the agent at {shown_url(plan.url)} is the one that the run began with"
    if git:
        return f"{said}; the files that git tracks are unchanged"
    return f"{said}; the files that spec.api.command names are unchanged" if code else said


def _describe_git(plan: Plan) -> str | None:
    """Return a digest of the files of the project's repository, committed or not.

    What the run reads is left out, because it is compared by itself. None: there is no git or no repository, git does
    not answer in time, or too many files are changed or unknown to it.
    """
    root = read_git(plan.loaded.path.parent, "rev-parse", "--show-toplevel")
    files = None if root is None else _read_repository(Path(root))
    if files is None:
        return None
    read = {one.path.resolve() for one in plan.inputs}
    return compute_digest({str(one): files[one] for one in files if read.isdisjoint((one, *one.parents))})


def _read_repository(root: Path) -> dict[Path, str | None] | None:
    """Return the files of a repository with the names that git has for their contents.

    A repository inside it counts as a file. git does not say what changed behind a link, or in a file that it was set
    to assume unchanged.
    """
    tracked = read_git(root, "ls-files", "--stage", "-v", "-z")
    changed = read_git(root, "ls-files", "--modified", "--others", "--exclude-standard", "-z")
    if tracked is None or changed is None or changed.count("\0") > _MOST_CHANGED:
        return None
    files: dict[Path, str | None] = {}
    for entry in filter(None, tracked.split("\0")):
        head, _, name = entry.partition("\t")
        tag, mode, content, _ = head.split()
        files[root / name] = content if (tag, mode[:3]) == _KNOWN else f"{content} {_identify(root / name)}"
    for name in filter(None, changed.split("\0")):
        if root / name in files or not (name.endswith(_REPORTS) or _WRITTEN.search(name)):
            files[root / name] = _identify(root / name)
    return {file: content for file, content in files.items() if content is not None}


def _identify(path: Path) -> str | None:
    """Return the name that git has for the content of a file, or size and time of a large one.

    That of a repository is made from its files. None: there is nothing, or it is unreadable.
    """
    try:
        if (path / ".git").exists():
            return compute_digest({str(file): content for file, content in (_read_repository(path) or {}).items()})
        found = path.stat()
        if found.st_size > _MOST_BYTES:
            return f"{found.st_size} {found.st_mtime_ns}"
        return hashlib.sha1(b"blob %d\0" % found.st_size + path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return None
