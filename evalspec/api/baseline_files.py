"""Promoted baselines of a project: find them, and take samples out of them."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from evalspec.comparison.baseline import KIND
from evalspec.model import Run
from evalspec.store.erasing import Key

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


def drop_samples(run: Run, keys: set[Key]) -> tuple[Run, int]:
    """Return a baseline without some samples, and their number. A dataset without other samples is dropped."""
    datasets, removed = [], 0
    for dataset in run.datasets:
        samples = tuple(sample for sample in dataset.samples if (dataset.name, sample.id) not in keys)
        removed += len(dataset.samples) - len(samples)
        datasets += [replace(dataset, samples=samples)] if samples else []
    return replace(run, datasets=tuple(datasets)), removed
