"""The files of labels: `.evalspec/verdicts/<run id>/<time>-<hash>.jsonl`.

Each file has one or more labels, a line each, and is never changed. So a kill leaves no partial file, writers need no
lock, and git merges the folder without conflicts. A later label replaces an earlier one of the same person on the same
thing; the earlier one stays.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import render_line
from evalspec.base.jsonl import read_json_lines
from evalspec.base.output_files import replace_file
from evalspec.curation.labels.records import parse_stored, render_time
from evalspec.model.labels import Label, LabelVerdict, Target
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, store_errors
from evalspec.runs.store.run_store import VERDICTS, prepare_root

_SUFFIX = ".jsonl"
_HASH_LENGTH = 16
_TICK = timedelta(microseconds=1)

_Known = dict[str, dict[str, Label]]
"""Labels by name of their file and hash."""


class LabelFiles:
    """The labels of a store. Each file is read once, because files never change. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """`root`: the `.evalspec` folder."""
        self.root = root
        self._known: dict[str, tuple[_Known, list[Label]]] = {}
        self._guard = threading.Lock()

    def read(self, run: str) -> Sequence[Label]:
        """Return all labels of a run as `read_labels` does.

        Raises:
            InvalidInput: A file was changed or is damaged.
            StoreError: The folder cannot be read.
        """
        with self._guard:
            known, labels = self._known.get(run, ({}, []))
            current = _read_files(self.root, run, known)
            if current is not known:
                known, labels = current, _merge(current)
                self._known[run] = known, labels
            return labels

    def read_all(self) -> list[Label]:
        """Return the labels of all runs, by run.

        Raises:
            InvalidInput: A file was changed or is damaged.
            StoreError: A folder cannot be read.
        """
        return [label for run in list_labelled_runs(self.root) for label in self.read(run)]


def labels_folder(root: Path, run: str) -> Path:
    """Return the folder with the labels of a run. `root`: the `.evalspec` folder."""
    return root / VERDICTS / run


def list_labelled_runs(root: Path) -> list[str]:
    """Return the ids of all runs with labels, oldest first. Some of the runs may be removed.

    Raises:
        StoreError: The folder cannot be read.
    """
    folder = root / VERDICTS
    if not folder.is_dir():
        return []
    with store_errors(folder):
        return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink())


def read_labels(root: Path, run: str) -> list[Label]:
    """Return all labels of a run, oldest first, each once. Replaced and withdrawn ones are included.

    Raises:
        InvalidInput: A file was changed or is damaged. Every such line is reported.
        StoreError: The folder cannot be read.
    """
    return _merge(_read_files(root, run, {}))


def _read_files(root: Path, run: str, known: _Known) -> _Known:
    """Return the labels of a run by file. `known`: what an earlier call has returned; returned again if it is current.

    Files of erased words are not kept.
    """
    paths = _list_files(labels_folder(root, run))
    if known and known.keys() == {path.name for path in paths}:
        return known
    problems: list[Problem] = []
    found = {
        path.name: known.get(path.name) or {hash_label(label): label for label in _read_file(path, problems)}
        for path in paths
    }
    if problems:
        raise InvalidInput(problems)
    return found


def _merge(known: _Known) -> list[Label]:
    """Return all labels, each once, oldest first."""
    found: dict[str, Label] = {}
    for labels in known.values():
        found |= labels
    return merge_labels(found.values())


def merge_labels(labels: Collection[Label]) -> list[Label]:
    """Return labels, each once, oldest first. What one has helped to choose holds for every copy of it.

    Copies, such as an export from before that, are of the same person on the same thing in the same run.
    """
    uses = {_name_copies(one): one.used_for for one in labels if one.used_for is not None}
    marked = [replace(one, used_for=uses.get(_name_copies(one))) for one in labels] if uses else labels
    return sort_labels({hash_label(one): one for one in marked}.values())


def _name_copies(label: Label) -> tuple[str, Target, str, LabelVerdict]:
    return label.run, label.target, label.labeller, label.verdict


def write_labels(root: Path, run: str, labels: Sequence[Label]) -> Path:
    """Write labels of one run, all or none, and return their file.

    Raises:
        StoreError: They cannot be written.
    """
    folder = labels_folder(root, run)
    content = "".join(f"{render_line(label)}\n" for label in labels).encode()
    latest = max(label.at for label in labels)
    path = folder / f"{latest.replace('-', '').replace(':', '')}-{_hash(content)}{_SUFFIX}"
    prepare_root(root)
    with store_errors(path):
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        replace_file(path, [content], mode=PRIVATE_FILE)
    return path


def replace_labels(root: Path, run: str, change: Callable[[Label], Label], *, dry_run: bool) -> int:
    """Change labels of a run where they are stored, and return the number of changed ones. `dry_run`: only count.

    A new file is written before the old one is deleted. After a kill between the two, the same change completes.

    Raises:
        InvalidInput: A file was changed or is damaged. It stays as it is, and the others are changed.
        StoreError: A file cannot be written.
    """
    problems: list[Problem] = []
    changed = 0
    for path in _list_files(labels_folder(root, run)):
        known = len(problems)
        before = list(_read_file(path, problems))
        if len(problems) > known:
            continue
        after = [change(label) for label in before]
        count = sum(one != other for one, other in zip(before, after, strict=True))
        changed += count
        if count and not dry_run:
            written = write_labels(root, run, after)
            with store_errors(path):
                if written != path:
                    path.unlink(missing_ok=True)
    if problems:
        raise InvalidInput(problems)
    return changed


def hash_label(label: Label) -> str:
    """Return a hash of a label's content. Equal labels are one label."""
    return _hash(render_line(label).encode())


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Return labels, oldest first. Labels of the same time have an arbitrary order that is always the same."""
    return sorted(labels, key=lambda one: (one.at, one.labeller, one.verdict, one.value or 0, one.note or ""))


def find_time(others: Iterable[Label], labeller: str) -> str:
    """Return the time of a new label: now, or just after the person's latest if the clock was set back.

    `others`: all labels on the same target.
    """
    own = [label.at for label in others if label.labeller == labeller]
    now = datetime.now(UTC)
    return render_time(max([now, *(datetime.fromisoformat(at) + _TICK for at in own)]))


def _list_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    with store_errors(folder), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    return [folder / name for name in sorted(names) if name.endswith(_SUFFIX) and not name.startswith(".")]


def _read_file(path: Path, problems: list[Problem]) -> Iterable[Label]:
    for number, data in read_json_lines(path, str(path), problems):
        label = parse_stored(data, str(path), number, problems)
        if label is not None and label.run != path.parent.name:
            fix = f"move the file to {path.parent.parent / label.run}"
            problems.append(Problem(f"a label of run {label.run}", fix, str(path), number, "run"))
        elif label is not None:
            yield label


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]


def without_erased(label: Label) -> Label:
    """Return a label of a sample whose texts were erased: the verdict, without note, questions and hashes of texts."""
    answers = tuple(replace(one, question="") for one in label.answers)
    return replace(label, note=None, answers=answers, sample_digest=None, reply_digest=None)


def erase_labels(root: Path, is_wanted: Callable[[Label], bool], *, dry_run: bool) -> dict[str, int]:
    """Erase words and hashes from the wanted labels of all runs, also removed ones. Return their number by run.

    `root`: the `.evalspec` folder. `dry_run`: only count.

    Raises:
        InvalidInput: A file of labels is damaged.
        StoreError: A file cannot be written.
    """

    def change(label: Label) -> Label:
        return without_erased(label) if is_wanted(label) else label

    found = {run: replace_labels(root, run, change, dry_run=dry_run) for run in list_labelled_runs(root)}
    return {run: count for run, count in found.items() if count}
