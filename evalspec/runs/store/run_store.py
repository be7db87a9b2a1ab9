"""The folder of stored runs: `.evalspec/runs/<UTC time>-<short id>/` in the project, never in the home directory.

The time in a name is a label, and a clock may be wrong. The order of the runs is that of the lines of `runs/order`:
every run adds its name when it begins.
"""

import os
import re
import secrets
import shutil
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import Input, replace_file, sync_folder
from evalspec.base.plural import counted
from evalspec.base.registry import near_miss
from evalspec.base.trust import Act, require
from evalspec.model.log import Change
from evalspec.runs.store.derived import remove_derived
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, read_link, replace_link, store_errors
from evalspec.runs.store.locks import LOCK_NAME
from evalspec.runs.store.run_log import DESCRIPTION_NAME, LATEST_NAME, LOG_NAME, RunLog
from evalspec.scoring.judge.cache_file import use_cache

STORE = Path(".evalspec")
VERDICTS = "verdicts"
"""The folder for what people say about replies and scores. `labels` has the names of runs."""
BASELINES = "baselines"
"""The folder for baselines that a server keeps, or that came from one. A folder for each name."""
_OWN = ("runs", "labels", "locks", "cache", VERDICTS, BASELINES)
OWN_INPUTS = tuple(Input(STORE / name, "evalspec's own store") for name in _OWN)
"""Folders of the command line's own store, which no output may overwrite."""

_NAMES_SHOWN = 3
_FROM_LABELS = Path("..", "runs")
_PATH_MARKS = {"/", os.sep, os.altsep or os.sep}
_LATEST = re.compile(rf"{LATEST_NAME}(?:~(\d{{1,9}}))?", re.ASCII)
_LABEL = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)
_ID = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-[\w-]+", re.ASCII)
_TIME = "%Y%m%dT%H%M%S.%f"
_ORDER_NAME = "order"


def refuse_linked_store() -> None:
    """Raise Refused if the policy forbids the links of the project in place of folders that runs are written to."""
    for place in (STORE, *(own.path for own in OWN_INPUTS)):
        require(Act.WRITE_FILE, str(place))


class RunStore:
    """The runs of one project. `root`: its `.evalspec` folder, created with the first run.

    `cache`: the folder of the judge's cache, by default that of EVALSPEC_CACHE_DIR, or a folder beside the runs.
    """

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        self.root = root
        self.cache = cache or Path(os.environ.get("EVALSPEC_CACHE_DIR") or root / "cache")
        self.runs = root / "runs"
        self._labels = root / "labels"

    def create(self, now: datetime, short_id: str | None = None, *, redact: Change, **options: Any) -> RunLog:
        """Create a run and return its log. `options`: arguments of RunLog.

        The name is the time and eight hexadecimal digits, which make it unique.

        Raises:
            StoreError: The folder cannot be created.
        """
        folder = self.runs / f"{_render_time(now.astimezone(UTC))}Z-{short_id or secrets.token_hex(4)}"
        prepare_root(self.root)
        with store_errors(folder):
            self.runs.mkdir(PRIVATE_FOLDER, exist_ok=True)
            self._add_to_order(folder.name)
            folder.mkdir(PRIVATE_FOLDER)
            try:
                for name in (LOCK_NAME, LOG_NAME):
                    (folder / name).touch(PRIVATE_FILE)
                sync_folder(self.runs)
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return RunLog(folder, redact=redact, **options)

    def list(self) -> list[Path]:
        """Return the folders of all runs, newest first."""
        return [path for path in self._folders() if (path / DESCRIPTION_NAME).is_file()]

    def list_all(self) -> Sequence[Path]:
        """Return the folders of `list`, and of runs without `run.json`: killed at the start, or damaged."""
        return [path for path in self._folders() if is_run_name(path.name) or (path / DESCRIPTION_NAME).is_file()]

    def _folders(self) -> Sequence[Path]:
        if not self.runs.is_dir():
            return []
        with store_errors(self.runs):
            names = [entry.name for entry in os.scandir(self.runs) if entry.is_dir(follow_symlinks=False)]
        return [self.runs / name for name in reversed(_put_in_order(names, self._read_order()))]

    def _read_order(self) -> Sequence[str]:
        """Return the names of runs as they began, and those of deleted runs again, after a `-`.

        Empty if no run has written its name.
        """
        with store_errors(self.runs), suppress(FileNotFoundError), _open_plain(self.runs / _ORDER_NAME, "rb") as order:
            return order.read().decode(errors="replace").splitlines()
        return []

    def _add_to_order(self, name: str) -> None:
        """Add the name of a new run, or of a deleted one after a `-`.

        Runs of a store without an order come first, by their names. Two processes may add names at once: of a name that
        is there twice, the first counts.
        """
        path = self.runs / _ORDER_NAME
        before = [] if path.exists() else [folder.name for folder in reversed(self._folders())]
        with _open_plain(path, "ab") as order:  # line ends come first, as a full disk may have cut the last line
            order.write("".join(f"\n{one}" for one in [*before, name]).encode())

    def find_unfinished(self) -> Path:
        """Return the folder of the newest run that began in this store, to resume it.

        Raises:
            InvalidInput: There is no run, or the newest one ended before its description was written. An older one is
            not taken in its place.
        """
        newest = self.find_own(LATEST_NAME)
        order = self._read_order()
        began = (name for name in reversed(order) if is_run_name(name) and f"-{name}" not in order)
        last = next(began, newest.name)
        if (self.runs / last / DESCRIPTION_NAME).is_file():
            return self.runs / last
        message = f"the newest run, {last}, left nothing to resume"
        fix = f"start it again; to resume the run before it: --resume {newest.name}"
        raise InvalidInput(Problem(message, fix, field="--resume"))

    def find(self, name: str) -> Path:
        """Return the folder of a run to read. `name`: a name as in `find_own`, or the path of a run's folder.

        Raises:
            InvalidInput: No run or several runs have this name.
        """
        is_own = count_back(name) is not None or name in self.labels() or self.owns(self.runs / name)
        if not is_own and (Path(name) / DESCRIPTION_NAME).is_file():
            return Path(name).resolve()
        return self.find_own(name)

    def find_own(self, name: str) -> Path:
        """Return the folder of a run of this store. `name`: a label, the start of an id, `latest` (the newest), or
        `latest~2` (the second one before it).

        Paths are rejected, because callers may change or delete the folder.

        Raises:
            InvalidInput: No run or several runs have this name.
        """
        if name in (os.curdir, os.pardir) or any(mark in name for mark in _PATH_MARKS):
            fix = "name it by its id or a label (evalspec runs list shows them)"
            raise InvalidInput(f"'{name}' is a path, not the name of a run in {self.runs}", fix)
        known = [folder for folder in self.list() if self.owns(folder)]
        back = count_back(name)
        if back is not None and back < len(known):
            return known[back]
        label = self.labels().get(name)
        if label is not None:
            return label
        fitting = [folder for folder in known if folder.name.startswith(name)] if name else []
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InvalidInput(f"'{name}' matches {len(fitting)} runs", f"the newest is {fitting[0].name}")
        if not known:
            raise InvalidInput(
                f"there are no runs in {self.runs}", "run `evalspec evaluate` first, or change to the folder of the run"
            )
        if back is not None:
            raise InvalidInput(
                f"there is no {name}: {self.runs} has {counted(len(known), 'run')}", "list: evalspec runs"
            )
        names = [*self.labels(), *(folder.name for folder in known[:_NAMES_SHOWN])]
        raise InvalidInput(f"no run is named '{name}'", f"{near_miss(name, names)} (all: evalspec runs list)")

    def labels(self) -> dict[str, Path]:
        """Return the labels with the folders of their runs. Labels of deleted runs are omitted."""
        if not self._labels.is_dir():
            return {}
        with store_errors(self._labels):
            targets = {link.name: read_link(link) for link in sorted(self._labels.iterdir())}
        named = {name: self.runs / one.name for name, one in targets.items() if one and one.parent == _FROM_LABELS}
        return {name: folder for name, folder in named.items() if _LABEL.fullmatch(name) and self.owns(folder)}

    def owns(self, folder: Path) -> bool:
        """Return whether a folder is a run of this store: created by evalspec, and not a link."""
        is_here = folder.parent == self.runs and is_run_name(folder.name)
        return is_here and folder.is_dir() and not folder.is_symlink()

    def label(self, folder: Path, name: str) -> None:
        """Give a run of this store a label. An existing label moves to this run.

        Raises:
            InvalidInput: The name is not a valid label, or the folder is not a run of this store.
            StoreError: The label cannot be written.
        """
        if not _LABEL.fullmatch(name) or name == LATEST_NAME:
            raise InvalidInput(f"'{name}' is not a valid label", "use letters, digits, - _ and .; start with a letter")
        if not self.owns(folder):
            raise InvalidInput(f"{folder} is not a run in {self.runs}", "only runs of this store can have a label")
        with store_errors(self._labels):
            self._labels.mkdir(PRIVATE_FOLDER, exist_ok=True)
        replace_link(self._labels / name, str(_FROM_LABELS / folder.name))

    def remove(self, folder: Path, last_look: AbstractContextManager[None] | None = None) -> None:
        """Delete a run and its labels. `last_look`: may still raise; within it, the run leaves the lists in one step.

        Raises:
            InvalidInput: The folder is not a run of this store.
            StoreError: Another process is writing the run, or it cannot be deleted.
        """
        if not self.owns(folder):
            raise InvalidInput(f"{folder} is not a run in {self.runs}", "delete it yourself if you do not need it")
        RunLog(folder, redact=lambda value: value).close()
        if last_look is not None:
            with store_errors(folder), last_look:
                (folder / DESCRIPTION_NAME).unlink(missing_ok=True)  # the next pass deletes what a kill leaves
        use_cache(self.cache, lambda file: file.forget_run(folder.name), None)
        remove_derived(folder)
        labels = [name for name, labelled in self.labels().items() if labelled.name == folder.name]
        with store_errors(folder):
            mark = f"-{folder.name}"
            if mark not in self._read_order():
                with suppress(OSError):  # a full disk must not keep a run; then only --resume says that it is gone
                    self._add_to_order(mark)
            shutil.rmtree(folder)
            for name in labels:
                (self._labels / name).unlink()
            latest = self.runs / LATEST_NAME
            newest = read_link(latest)
            if newest is not None and not (self.runs / newest).exists():
                latest.unlink()


def count_back(name: str) -> int | None:
    """Return how many runs are newer than the one that `latest` or `latest~N` names; None for other names."""
    found = _LATEST.fullmatch(name)
    return int(found[1] or 0) if found else None


def read_timestamp(folder: Path) -> datetime | None:
    """Return when a run was started, from the name of its folder. None: this is no run, or the name is not a time."""
    found = _ID.fullmatch(folder.name)
    try:
        return None if found is None else datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_run_name(name: str) -> bool:
    """Return whether a folder of this name is a run: UTC time and short id."""
    return bool(_ID.fullmatch(name))


def _open_plain(path: Path, mode: str) -> FileIO:
    """Open a file, but follow no link, and wait for no pipe."""

    def follow_nothing(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), PRIVATE_FILE)

    return FileIO(path, mode, opener=follow_nothing)


def prepare_root(root: Path) -> None:
    """Create a project's `.evalspec` folder, and keep its content out of git: questions and answers are private.

    Raises:
        StoreError: The folder cannot be created.
    """
    with store_errors(root):
        root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        with suppress(FileExistsError), (root / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write("*\n")


def keep_baseline(root: Path, name: str, digest: str, content: bytes) -> Path:
    """Write a baseline to its folder below `.evalspec`, under its digest, and return its path.

    Raises:
        StoreError: It cannot be written.
    """
    path = root / BASELINES / name / f"{digest}.json"
    prepare_root(root)
    with store_errors(path):
        path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        replace_file(path, [content], mode=PRIVATE_FILE)
    return path


def _render_time(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}"


def _put_in_order(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return names of runs, oldest first. One that is not in the order follows the last one that is not later by name.

    Such a run was copied or pushed into the store.
    """
    existing = set(names)
    listed = [name for name in dict.fromkeys(order) if name in existing]
    places = {name: (place, "") for place, name in enumerate(listed, 1)}
    earliest = list(accumulate(reversed(listed), min))[::-1]
    return sorted(existing, key=lambda name: places.get(name) or (bisect_right(earliest, name), name))
