"""Find the shards of a dataset in a folder, as Hugging Face stores them on disk or in a repository."""

import re
from collections.abc import Iterator
from pathlib import Path

from evalspec.base.errors import Problem

_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}")
_PREFERRED = "test"
_SUFFIXES = (".arrow", ".parquet")


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split of a folder, in order; empty if there are none.

    The files are in the folder itself, in `data`, or in a folder per split.
    """
    splits: dict[str, list[Path]] = {}
    for place in (folder, folder / "data"):
        for file in _list_tables(place):
            splits.setdefault(_name_split(file), []).append(file)
    if splits or not (folder / "dataset_dict.json").is_file():
        return splits
    inner = {place.name: list(_list_tables(place)) for place in sorted(folder.iterdir()) if place.is_dir()}
    return {name: files for name, files in inner.items() if files}


def _list_tables(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (file for file in sorted(folder.iterdir()) if file.suffix in _SUFFIXES and file.is_file())


def _name_split(file: Path) -> str:
    sharded = _SHARD.fullmatch(file.stem)
    return sharded[1] if sharded else file.stem


def choose_files(folder: Path, shown_as: str, problems: list[Problem], warnings: list[Problem]) -> list[Path]:
    """Return the files of the only split, or of `test` among several, with a warning. Otherwise add a problem."""
    splits = find_splits(folder)
    if len(splits) == 1:
        return next(iter(splits.values()))
    names = ", ".join(splits)
    if _PREFERRED in splits:
        message = f"the folder has the splits {names}; evalspec reads {_PREFERRED}"
        warnings.append(Problem(message, "to read another one, set path to its file or folder", shown_as))
        return splits[_PREFERRED]
    message = f"the folder has several splits: {names}" if splits else "the folder has no Arrow or Parquet files"
    problems.append(Problem(message, "set path to the file or folder of one split", shown_as))
    return []
