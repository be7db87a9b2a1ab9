"""What a dataset is once it is read, and the registry of formats."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import Problem
from evalspec.records import Sample
from evalspec.registry import Registry


@dataclass(slots=True)
class ReadingNotes:
    """What a reader found on its way: `problems` refuse the dataset, `warnings` are told and accepted."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """One file format: `read` yields the samples of a file and writes what is wrong into the notes."""

    name: str
    summary: str
    read: Callable[[Path, str, ReadingNotes], Iterator[Sample]]


DATASETS: Registry[DatasetFormat] = Registry("dataset format", "evalspec.datasets")
