"""Comparisons of runs of a project, within a request or as a job."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import is_run_name
from evalspec.runs.store.stored_run import open_run
from evalspec.service.documents import to_json
from evalspec.service.settings import Project

if TYPE_CHECKING:
    from evalspec.model.comparisons import Comparison
    from evalspec.service.job_process import Work
    from evalspec.verdict.comparison.named_runs import NamedRun

COMPARISON = "comparison"
"""The kind of the jobs."""

_PROMOTED = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def run_comparison(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `comparison`, and return the document. The request: as for `compare_project_runs`."""
    return work.compute(lambda: to_json(compare_project_runs(work.project, work.job.request)))


def compare_project_runs(project: Project, asked: Mapping[str, Any]) -> "Comparison":
    """Return a comparison of runs.

    `asked`: `baseline` and `candidates` (ids, labels or promoted baselines), and options of `evalspec.compare`.
    `samples`: number of changed samples of each dataset to describe.

    Raises:
        InvalidInput: A run does not exist, or the runs are not comparable.
        StoreError: A run is damaged.
    """
    from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
    from evalspec.verdict.comparison.sample_changes import add_texts
    from evalspec.verdict.validity.changes import SignificanceRules

    named = [find_named(project, name) for name in (asked["baseline"], *asked["candidates"])]
    rules = SignificanceRules(asked["alpha"], resamples=asked["resamples"], seed=asked["seed"])
    choice = Choice(asked["datasets"], asked["metrics"], asked["allow_mismatch"])
    found = compare_runs(named[0], named[1:], rules, choice)
    return add_texts(_shorten(found, asked["samples"]), named, asked["samples"])


def find_named(project: Project, name: str) -> "NamedRun":
    """Return a run of a project as `find_run_folder`, or else a promoted baseline by its name. Paths are refused.

    Raises:
        InvalidInput: No run or baseline has that name.
        StoreError: The run is damaged.
    """
    from evalspec.api.runs import name_stored
    from evalspec.verdict.comparison.baseline import baseline_path
    from evalspec.verdict.comparison.run_files import read_run_file

    folder = find_run_folder(project, name)
    if folder is not None:
        return name_stored(open_run(folder), name)
    promoted = baseline_path(project.folder, name)
    if _PROMOTED.fullmatch(name) and promoted.is_file() and promoted.resolve().is_relative_to(project.folder):
        return read_run_file(promoted, name)
    fix = "use the id of a run (GET /v1/runs), a label, `latest` or a promoted baseline"
    raise InvalidInput(Problem(f"there is no run '{name[:100]}'", fix))


def find_run_folder(project: Project, name: str) -> Path | None:
    """Return the folder of a run by its id, by a label or as `latest`. None: there is no such run."""
    store = project.store
    if is_run_name(name):
        return store.runs / name if store.owns(store.runs / name) else None
    if name == LATEST_NAME:
        return next(iter(store.list()), None)
    return store.labels().get(name)


def _shorten(comparison: "Comparison", most: int) -> "Comparison":
    """Return a comparison with so many changed samples of each dataset."""
    candidates = (
        replace(one, datasets=tuple(replace(part, samples=part.samples[:most]) for part in one.datasets))
        for one in comparison.candidates
    )
    return replace(comparison, candidates=tuple(candidates))
