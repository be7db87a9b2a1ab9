"""Promoted baselines of a project: find them, and take samples out of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from evalspec.comparison.baseline import KIND, build_baseline, render_baseline
from evalspec.model import Run
from evalspec.output_files import write_file
from evalspec.store.erasing import Key
from evalspec.typed_json import parse_document, read_bytes

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
    """Take samples out of a baseline, and return their number. A baseline without other samples is deleted.

    `find_keys`: returns the samples to take out by the id of the baseline's run.

    Raises:
        EvalspecError, OSError: It cannot be read, written or deleted.
    """
    run = build_baseline(parse_document(read_bytes(path), shown), shown)
    kept, removed = _drop_samples(run, find_keys(run.id))
    if removed and not is_dry_run:
        if kept.datasets:
            write_file(path, [render_baseline(kept).encode()])
        else:
            path.unlink()
    return removed


def _drop_samples(run: Run, keys: set[Key]) -> tuple[Run, int]:
    """Return a baseline without some samples, and their number. A dataset without other samples is dropped."""
    datasets, removed = [], 0
    for dataset in run.datasets:
        samples = tuple(sample for sample in dataset.samples if (dataset.name, sample.id) not in keys)
        removed += len(dataset.samples) - len(samples)
        datasets += [replace(dataset, samples=samples)] if samples else []
    return replace(run, datasets=tuple(datasets)), removed
