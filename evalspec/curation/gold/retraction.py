"""Taking a review back: its event file is deleted if it is as it was written, nobody relied on it, and git lacks it."""

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.event_files import event_name
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import EventFile, GoldSet, TripleEntry, read_config, read_entry
from evalspec.curation.gold.ratings import parse_time
from evalspec.curation.gold.states import REVIEWING, State, compute_review_status

UNDO_TIME = timedelta(minutes=10)
"""How long reviews can be taken back where no session says that it has ended."""

_SECONDS = 10
_FIX = "settle it with: evalspec gold resolve, or revise the triple"
_GIT_FOLDER = "gitdir:"

ExplainGit = Callable[[Path], str | None]
"""Returns why git may have a file, None if it has not."""


class LastReview(Struct, frozen=True):
    """A review of a person. `is_open`: whether it can still be taken back, after those that are later."""

    entry: TripleEntry
    file: EventFile
    is_open: bool


def find_last_reviews(found: GoldSet, by: str, now: datetime | None = None) -> list[LastReview]:
    """Return the reviews of a person of current revisions, the latest first.

    A review is open for ten minutes, unless git may have it, and if all later ones are: whoever takes the latest one
    back can then take the one before back. `now`: by default the current time.
    """
    own = [
        (entry, one)
        for entry in found.entries.values()
        if entry.triple is not None and entry.state is not State.REVOKED
        for one in entry.events
        if one.event.by == by and one.event.kind in REVIEWING and one.event.revision == entry.review_status.revision
    ]
    found_reviews, is_open = list[LastReview](), True
    for entry, one in sorted(own, key=lambda pair: _rank(pair[1]), reverse=True):
        is_open = is_open and _is_recent(one, now or datetime.now(UTC)) and explain_index(one.path) is None
        found_reviews.append(LastReview(entry, one, is_open))
    return found_reviews


def _rank(one: EventFile) -> tuple[datetime, int]:
    """Return the place of an event in time. Times of events are in seconds, so that of the file decides between two."""
    try:
        written = one.path.stat().st_mtime_ns
    except OSError:
        written = 0
    return parse_time(one.event.at) or datetime.min.replace(tzinfo=UTC), written


def _is_recent(one: EventFile, now: datetime) -> bool:
    at = parse_time(one.event.at)
    return at is not None and abs(now - at) < UNDO_TIME


def retract(root: Path, name: str, file: EventFile, content: bytes, explain_git: ExplainGit) -> TripleEntry:
    """Delete the event file of a review, and return the triple without it. `content`: of the file as it was written.

    Raises:
        InvalidInput: Its file was changed or is known to git, or others relied on it.
    """
    _refuse(root, name, file, content, explain_git)
    file.path.unlink()
    return read_entry(root, name)


def retract_last(found: GoldSet, by: str, file_name: str) -> TripleEntry:
    """Take the latest review of a person back, without running git. `file_name`: of its event, as the person saw it.

    Raises:
        InvalidInput: It is not the latest one or cannot be taken back any more.
    """
    last = next(iter(find_last_reviews(found, by)), None)
    if last is None or last.file.path.name != file_name:
        raise InvalidInput(Problem("only your latest review can be taken back, and this is another one", _FIX))
    if event_name(last.file.event) != file_name:
        raise InvalidInput(Problem("the review was edited after it was written", _FIX, show(last.file.path)))
    if not last.is_open:
        why = explain_index(last.file.path) or f"it is older than {UNDO_TIME.seconds // 60} minutes"
        raise InvalidInput(Problem(f"the review cannot be taken back: {why}", _FIX, show(last.file.path)))
    return retract(found.root, last.entry.id, last.file, last.file.path.read_bytes(), explain_index)


def _refuse(root: Path, name: str, file: EventFile, content: bytes, explain_git: ExplainGit) -> None:
    shown_as = show(file.path)
    try:
        found = file.path.read_bytes()
    except OSError as error:
        raise InvalidInput(Problem(f"the review cannot be taken back: {error.strerror}", _FIX, shown_as)) from error
    if found != content:
        raise InvalidInput(Problem("the review was edited after this session wrote it", _FIX, shown_as))
    entry = read_entry(root, name)
    people = read_config(root).people
    others = [one.event for one in entry.events if one.path != file.path]
    without = compute_review_status(others, entry.content_hash, people)
    if entry.review_status.revision != file.event.revision or len(without.faults) > len(entry.review_status.faults):
        raise InvalidInput(Problem("others have acted on the review", _FIX, shown_as))
    known = explain_git(file.path)
    if known is not None:
        raise InvalidInput(Problem(f"the review cannot be taken back: {known}", _FIX, shown_as))


def explain_index(path: Path) -> str | None:
    """Return why git may have a file, without running git: its index was written after the file.

    Whatever git has was staged first, which writes the index.
    """
    folder = _find_git_folder(path)
    try:
        if folder is None or (folder / "index").stat().st_mtime_ns < path.stat().st_mtime_ns:
            return None
    except FileNotFoundError:
        return None  # nothing was ever staged, or the file is gone, which is reported
    except OSError as error:
        return f"git's index cannot be read ({error.strerror})"
    return "git may have it, because files were staged or committed since"


def _find_git_folder(path: Path) -> Path | None:
    """Return git's folder of the repository that a file is in, None if it is in none."""
    for parent in path.resolve().parents:
        found = parent / ".git"
        if found.is_dir():
            return found
        if found.is_file():  # of a worktree or a submodule
            place = found.read_text(encoding="utf-8", errors="replace").strip()
            return parent / place.removeprefix(_GIT_FOLDER).strip()
    return None


def ask_git(path: Path) -> str | None:
    """Return why git may have a file: it is committed or staged, or git does not answer. None if git has not got it."""
    try:
        staged = _run_git(path, "ls-files", "--error-unmatch", "--", path.name)
        if staged.returncode == 0:
            return "git has it already"
        if "not a git repository" in staged.stderr:
            return None
        committed = _run_git(path, "cat-file", "-e", f"HEAD:./{path.name}")
    except FileNotFoundError:
        return None  # no git
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"git does not answer ({type(error).__name__})"
    if staged.returncode != 1:
        return f"git says: {' '.join(staged.stderr.split())}"
    return "git has it already" if committed.returncode == 0 else None


def _run_git(path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", *arguments],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env=os.environ | {"LC_ALL": "C"},
    )
