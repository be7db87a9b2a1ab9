"""Checks of datasets for pages: their problems, as `evalspec validate` reports them, and the profile of their samples.

A small dataset is checked within a request, a large one as a job. No code of the project is imported.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import cut, encodable, visible
from evalspec.base.json_text import change_values
from evalspec.inputs.datasets.base import ReadingNotes, Source, list_relevant
from evalspec.inputs.datasets.load import discard, find_format, load_dataset
from evalspec.model import Sample
from evalspec.model.base import built
from evalspec.runs.planning.checks import validate_manifest
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.profile import DatasetProfile, Profiler
from evalspec.service.places import hide_folder
from evalspec.service.posted_datasets import DATASET_FORMAT, describe_few, explain_irrelevant
from evalspec.service.project_datasets import DatasetPlace, FoundDataset, find_dataset
from evalspec.service.settings import Project

if TYPE_CHECKING:
    from evalspec.service.job_process import Work

KIND = "dataset_check"
SMALL_BYTES = 4 * 1_048_576
"""Size up to which a dataset is checked within a request."""
LISTED_BYTES = 64 * 1_048_576
"""Size up to which samples of a dataset are listed."""

_PROBLEMS_KEPT = 200
_LONGEST_TEXT = 1000
_FIRST_SAMPLES = 10
_WITH_PATHS = ("message", "fix", "file")


class DatasetCheck(Struct, frozen=True):
    """What is known of a dataset. `format`: empty if it was not read. `more_problems`, `more_warnings`: not kept."""

    signature: str
    format: str = ""
    problems: tuple[Problem, ...] = ()
    more_problems: int = 0
    warnings: tuple[Problem, ...] = ()
    more_warnings: int = 0
    profile: DatasetProfile = DatasetProfile()


def run_dataset_check(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `dataset_check`, and return the check. The request: a place with a signature."""
    found = find_dataset(work.project, msgspec.convert(work.job.request, built(DatasetPlace)))
    return {"check": _clean(msgspec.to_builtins(check_dataset(work.project, found)))}


def decode_check(result: Mapping[str, Any] | None, signature: str) -> DatasetCheck | None:
    """Return the check of a completed job. None: it was erased, or is of files that have changed since."""
    if not result:
        return None
    check = msgspec.convert(result["check"], built(DatasetCheck))
    return check if check.signature == signature else None


def check_small(project: Project, found: FoundDataset) -> DatasetCheck:
    """Return the check of a dataset, which is kept in memory until its files change."""
    return _check_small(_Key(project, found))


class _Key:
    """A dataset as a key: equal if its files are."""

    def __init__(self, project: Project, found: FoundDataset) -> None:
        self.project = project
        self.found = found

    def _identify(self) -> tuple[object, ...]:
        return self.project.folder, self.found.place, self.found.signature

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._identify() == other._identify()

    def __hash__(self) -> int:
        return hash(self._identify())


@lru_cache(maxsize=64)
def _check_small(key: _Key) -> DatasetCheck:
    return check_dataset(key.project, key.found)


def check_dataset(project: Project, found: FoundDataset) -> DatasetCheck:
    """Read a dataset, and return its problems and the profile of its samples."""
    if found.source is None:
        return _build(project, found, "", found.problems, (), DatasetProfile())
    profiler = Profiler()
    if found.loaded is None:
        return _check_file(project, found, found.source, profiler)

    def collect(samples: Iterable[Sample]) -> Sequence[Sample]:
        return discard(profiler.watch(samples))

    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()
    try:
        warnings, *_ = validate_manifest(found.loaded, RunOptions(datasets=(found.place.name,)), collect)
    except InvalidInput as error:
        problems = error.problems
    return _build(project, found, _detect_format(found, found.source), problems, warnings, profiler.finish())


def _check_file(project: Project, found: FoundDataset, source: Source, profiler: Profiler) -> DatasetCheck:
    data = load_dataset(source, found.format, lambda samples: discard(profiler.watch(samples)))
    profile = profiler.finish()
    warnings = [*describe_few(profile.samples), *data.warnings] if found.place.is_posted else data.warnings
    return _build(project, found, data.format, data.problems, warnings, profile)


def check_staged(path: Path, shown_as: str) -> tuple[DatasetCheck, Sequence[Sample]]:
    """Return the check of a file that waits to be confirmed, and its first samples."""
    profiler, first, lacking = Profiler(), list[Sample](), list[Problem]()

    def watch(samples: Iterable[Sample]) -> Sequence[Sample]:
        for sample in profiler.watch(samples):
            if len(first) < _FIRST_SAMPLES:
                first.append(sample)
            if not list_relevant(sample) and len(lacking) < _PROBLEMS_KEPT:
                lacking.append(explain_irrelevant(shown_as, sample.line))
        return ()

    data = load_dataset(Source(path, shown_as, takes_files=False), None, watch)
    problems = [*data.problems, *(lacking if data.format == DATASET_FORMAT else ())]
    warnings = [*(describe_few(profiler.survey.count) if data.format == DATASET_FORMAT else ()), *data.warnings]
    return _bound(DatasetCheck("", data.format, profile=profiler.finish()), problems, warnings), first


def _bound(check: DatasetCheck, problems: Sequence[Problem], warnings: Sequence[Problem]) -> DatasetCheck:
    """Return a check with the first problems and warnings."""
    return replace(
        check,
        problems=tuple(problems[:_PROBLEMS_KEPT]),
        more_problems=max(len(problems) - _PROBLEMS_KEPT, 0),
        warnings=tuple(warnings[:_PROBLEMS_KEPT]),
        more_warnings=max(len(warnings) - _PROBLEMS_KEPT, 0),
    )


def _build(
    project: Project,
    found: FoundDataset,
    format: str,
    problems: Sequence[Problem],
    warnings: Sequence[Problem],
    profile: DatasetProfile,
) -> DatasetCheck:
    bounded = _bound(DatasetCheck(found.signature, format, profile=profile), problems, warnings)
    hidden = [tuple(_hide(problem, project) for problem in kept) for kept in (bounded.problems, bounded.warnings)]
    return replace(bounded, problems=hidden[0], warnings=hidden[1])


def _hide(problem: Problem, project: Project) -> Problem:
    """Return a problem with paths in the project, as everybody may see them."""
    return replace(problem, **{key: hide_folder(getattr(problem, key), project.folder) for key in _WITH_PATHS})


def _detect_format(found: FoundDataset, source: Source) -> str:
    known = find_format(source, found.format, ReadingNotes())
    return known.name if known is not None else ""


def _clean(value: Any) -> Any:
    """Return a JSON value whose texts every database can store."""
    return change_values(value, lambda it: cut(visible(encodable(it)), _LONGEST_TEXT) if isinstance(it, str) else it)


def read_samples(found: FoundDataset, start: int, count: int) -> list[Sample]:
    """Return samples of a dataset from a position on. Those before are read, but not kept."""
    if found.source is None:
        return []
    kept: list[Sample] = []

    def collect(samples: Iterable[Sample]) -> Sequence[Sample]:
        kept.extend(islice(samples, start, start + count))
        return ()

    load_dataset(found.source, found.format, collect)
    return kept
