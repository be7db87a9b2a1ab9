"""A dataset from disk: read by its format, checked, hashed."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import evalspec.datasets.jsonl  # noqa: F401 - registers the format
from evalspec.datasets.base import DATASETS, ReadingNotes
from evalspec.errors import Problem
from evalspec.records import Sample


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """The samples of one file, its SHA-256, and what was found wrong on the way."""

    shown_as: str
    samples: tuple[Sample, ...]
    sha256: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def load_dataset(path: Path, shown_as: str, format_name: str = "jsonl") -> LoadedDataset:
    """Read a dataset whole. What is wrong with it is in the result, so that several datasets report together."""
    notes = ReadingNotes()
    dataset_format = DATASETS.find(format_name)
    if dataset_format is None:
        raise ValueError(f"unknown dataset format '{format_name}'")
    samples = tuple(dataset_format.read(path, shown_as, notes))
    return LoadedDataset(shown_as, samples, _hash(path), tuple(notes.problems), tuple(notes.warnings))


def _hash(path: Path) -> str:
    """SHA-256 of the file; empty where it cannot be read, which the reader has reported."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
