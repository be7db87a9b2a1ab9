"""The code of an agent that runs here: one run must not mix two versions of it.

Python code that a command names is read, with all it imports from its folder. What else an agent reads, such as prompts
and code that is loaded by name, only git knows. Images, installed packages and files that git ignores stay unknown.
"""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalspec.base.git import read_git
from evalspec.base.json_text import compute_digest
from evalspec.base.trust import Act, explain
from evalspec.model.fingerprints import AgentDigest, Fingerprint
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
_NAMES_SHOWN = 3
_LINK = "120000"
_KNOWN = ("H", "100")
"""Of a regular file that git compares with what it has."""


def find_command(plan: Plan) -> Sequence[str] | None:
    """Return the command that starts the agent of a run; None if the run asks no agent, or one at another url."""
    is_asked = plan.url is not None and any(dataset.is_at_agent for dataset in plan.datasets)
    return plan.loaded.manifest.spec.api.command if is_asked and plan.options.url is None else None


def describe_code(plan: Plan) -> dict[str, Any]:
    """Return fields of the fingerprint: digests of the files that the command names, and of all files that git knows.

    With the names of the files that were changed last. None: there is nothing to compare. Empty: the agent does not run
    here.
    """
    command = find_command(plan)
    if command is None:
        return _describe_git(plan) if plan.own_agent else {}
    if explain(Act.START, shlex.join(command)) is not None:
        return {}
    folder = plan.loaded.path.parent.resolve()
    named = {os.path.relpath(one, folder): one for one in find_command_files(command, folder)}
    files = {name: _identify(one) for name, one in named.items() if not _WRITTEN.search(name)}
    return {"code_sha256": compute_digest(files) if files else None, **_describe_git(plan)}


def explain_unknown(plan: Plan, fingerprint: Fingerprint) -> str | None:
    """Return what is unknown about the agent of a resumed run; None: its code and the files of git were compared."""
    agent = fingerprint.agent or AgentDigest()
    code, git = agent.code_sha256, agent.git_sha256
    is_started = find_command(plan) is not None and agent.reused_url is None
    if plan.url is None or (is_started and code and git):
        return None
    from evalspec.targets.http.failures import shown_url

    said = f"evalspec cannot tell whether the agent at {shown_url(plan.url)} is the one that the run began with"
    if git:
        return f"{said}; the files that git tracks are unchanged"
    return f"{said}; the files that spec.api.command names are unchanged" if code else said


def _describe_git(plan: Plan) -> dict[str, Any]:
    """Return a digest of the files of the project's repository, committed or not, and the names of the newest changed.

    What the run reads is left out, because it is compared by itself. None: there is no git or no repository, git does
    not answer in time, too many files are changed or unknown to it, or a link leads to a folder elsewhere.
    """
    root = read_git(plan.loaded.path.parent, "rev-parse", "--show-toplevel")
    try:
        found, changed = _read_repository(Path(root or os.devnull))
    except _Unknown:
        return {}
    read = {one.path.resolve() for one in plan.inputs}
    files = {str(one): found[one] for one in found if read.isdisjoint((one, *one.parents))}
    newest = sorted(changed, key=lambda file: file.lstat().st_mtime if file.exists() else 0, reverse=True)
    names = [os.path.relpath(file, root) for file in newest if str(file) in files]
    return {"git_sha256": compute_digest(files), "git_newest": tuple(names[:_NAMES_SHOWN])}


class _Unknown(Exception):
    """git does not say which files there are."""


def _read_repository(root: Path) -> tuple[dict[Path, str], list[Path]]:
    """Return the files of a repository with the names that git has for their contents, and those that are changed.

    A repository inside it counts as a file. git does not say what changed behind a link, or in a file that it was set
    to assume unchanged.

    Raises:
        _Unknown: git does not answer, or too many files are changed.
    """
    tracked = read_git(root, "ls-files", "--stage", "-v", "-z")
    changed = read_git(root, "ls-files", "--modified", "--others", "--exclude-standard", "-z")
    if tracked is None or changed is None or changed.count("\0") > _MOST_CHANGED:
        raise _Unknown
    files: dict[Path, str | None] = {}
    for entry in filter(None, tracked.split("\0")):
        head, _, name = entry.partition("\t")
        tag, mode, content, _ = head.split()
        is_near = mode == _LINK and (root / name).resolve().is_relative_to(root.resolve())
        is_known = is_near or (tag, mode[:3]) == _KNOWN
        files[root / name] = content if is_known else f"{content} {_identify(root / name)}"
    named = [root / name for name in changed.split("\0") if name]
    counted = [file for file in named if file in files or not _is_written(file.relative_to(root).as_posix())]
    files |= {file: _identify(file) for file in counted}
    return {file: content for file, content in files.items() if content is not None}, counted


def _is_written(name: str) -> bool:
    return name.endswith(_REPORTS) or _WRITTEN.search(name) is not None


def _identify(path: Path) -> str | None:
    """Return the name that git has for the content of a file, or size and time of a large one.

    That of a repository is made from its files. None: there is nothing, or it is unreadable.

    Raises:
        _Unknown: This is a folder that is no repository, or git does not say what is in it.
    """
    try:
        if (path / ".git").exists():
            return compute_digest({str(file): content for file, content in _read_repository(path)[0].items()})
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise _Unknown
        if found.st_size > _MOST_BYTES:
            return f"{found.st_size} {found.st_mtime_ns}"
        return hashlib.sha1(b"blob %d\0" % found.st_size + path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return None
