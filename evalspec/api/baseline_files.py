"""Promoted baselines of a project: find them, and take samples out of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.output_files import write_file
from evalspec.model import Run
from evalspec.model.typed_json import parse_document, read_bytes
from evalspec.runs.store.erasing import Key
from evalspec.verdict.comparison.baseline import KIND, build_baseline, list_pooled, render_baseline

_HEAD_BYTES = 4096


def find_baselines(folder: Path) -> Iterator[Path]:
    """Yield the promoted baselines below a folder, without hidden folders and those of installed packages."""
    mark = f'"kind": "{KIND}"'.encode()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv")]
        for name in names:
            path = Path(parent, name)
            if name.endswith(".json") and path.is_file() and not path.is_symlink():
                with path.open("rb") as stream:
                    if mark in stream.read(_HEAD_BYTES):
                        yield path


def shorten_baseline(path: Path, shown: str, find_keys: Callable[[str], set[Key]], *, is_dry_run: bool) -> int:
    """Take samples out of a baseline and its anchor, and return their number. Without other samples it is deleted.

    `find_keys`: returns the samples to take out by the id of a run that the baseline holds.

    Raises:
        EvalspecError, OSError: It cannot be read, written or deleted.
    """
    baseline = build_baseline(parse_document(read_bytes(path), shown), shown)
    kept, removed = _drop_samples(baseline.run, find_keys)
    anchor, of_anchor = (None, 0) if baseline.anchor is None else _drop_samples(baseline.anchor, find_keys)
    if removed + of_anchor and not is_dry_run:
        if kept.datasets:
            left = anchor if anchor is not None and anchor.datasets else None
            write_file(path, [render_baseline(replace(baseline, run=kept, anchor=left)).encode()])
        else:
            path.unlink()
    return removed + of_anchor


def _drop_samples(run: Run, find_keys: Callable[[str], set[Key]]) -> tuple[Run, int]:
    """Return a run of a baseline without some samples, and their number. A dataset without others is dropped."""
    keys = set().union(*(find_keys(one.id) for one in list_pooled(run)))
    datasets, removed = [], 0
    for dataset in run.datasets:
        samples = tuple(sample for sample in dataset.samples if (dataset.name, sample.id) not in keys)
        removed += len(dataset.samples) - len(samples)
        datasets += [replace(dataset, samples=samples)] if samples else []
    return replace(run, datasets=tuple(datasets)), removed
