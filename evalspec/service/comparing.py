"""Comparisons of runs of a project, within a request or as a job, and what their page shows.

The content of a page is kept beside the candidate's index, without questions and answers, which are read when they are
shown.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import replace_file
from evalspec.model.comparisons import CandidateComparison, Comparison, DatasetComparison, SampleKind
from evalspec.reports.view.fit import Limits, fit_view
from evalspec.reports.view.parts import View
from evalspec.runs.store.derived import derived_folder, sign_run
from evalspec.runs.store.files import PRIVATE_FILE, PRIVATE_FOLDER, store_errors
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import is_run_name
from evalspec.runs.store.stored_run import open_run
from evalspec.service.documents import to_json
from evalspec.service.kept_json import decode_kept, encode_kept
from evalspec.service.settings import Project
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.new_failures import OutcomePair, pair_outcomes

if TYPE_CHECKING:
    from evalspec.service.access import Access
    from evalspec.service.job_process import Work

COMPARISON = "comparison"
"""The kind of the jobs."""

_PROMOTED = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def run_comparison(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `comparison`, and return the document. The request: as for `compare_project_runs`."""
    return work.compute(lambda: to_json(compare_project_runs(work.project, work.job.request)))


def compare_project_runs(project: Project, asked: Mapping[str, Any]) -> Comparison:
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
    fix = "use the id of a run (GET /v1/runs, GET /v1/baselines), a label, `latest` or a baseline in git"
    raise InvalidInput(Problem(f"there is no run '{name[:100]}'", fix))


def find_run_folder(project: Project, name: str) -> Path | None:
    """Return the folder of a run by its id, by a label or as `latest`. None: there is no such run."""
    store = project.store
    if is_run_name(name):
        return store.runs / name if store.owns(store.runs / name) else None
    if name == LATEST_NAME:
        return next(iter(store.list()), None)
    return store.labels().get(name)


def count_samples(access: "Access", asked: Mapping[str, Any]) -> int:
    """Return the number of samples of all runs to compare. Promoted baselines are not counted."""
    folders = (find_run_folder(access.project, name) for name in (asked["baseline"], *asked["candidates"]))
    return sum(access.runs.find(folder.name).samples for folder in folders if folder is not None)


def _shorten(comparison: Comparison, most: int) -> Comparison:
    """Return a comparison with so many changed samples of each dataset."""
    candidates = (
        replace(one, datasets=tuple(replace(part, samples=part.samples[:most]) for part in one.datasets))
        for one in comparison.candidates
    )
    return replace(comparison, candidates=tuple(candidates))


_SAMPLES_LISTED = 100
_FLIPS_KEPT = 1000
_LIMITS = Limits(other_rows=1000, items=20, notes=100, extras=12)
_LARGEST_CHANGES = (SampleKind.DEGRADED, SampleKind.MIXED)


class Flip(Struct, frozen=True):
    """A sample whose outcome changed. `candidate_dataset`: its dataset in the candidate."""

    dataset: str
    candidate_dataset: str
    id: str


class CandidateFlips(Struct, frozen=True):
    """The flips of a candidate. `changed`: the largest changes for the worse if no sample is known to pass or fail.

    `failing_count`, `passing_count`: how many there are; the lists may have fewer.
    """

    name: str
    run_id: str
    failing: tuple[Flip, ...]
    passing: tuple[Flip, ...]
    changed: tuple[Flip, ...]
    failing_count: int
    passing_count: int


class ComparisonContent(Struct, frozen=True):
    """Everything on the page but texts. `signature`: of the files of all runs that were compared."""

    signature: str
    baseline_id: str
    view: View
    candidates: tuple[CandidateFlips, ...]


def run_comparison_page(work: "Work") -> Mapping[str, Any]:
    """Execute a job of kind `comparison_page`: compute what the page shows, and keep it."""
    content = work.compute(lambda: _compare(work.project, work.job.request))
    _keep(work.project, work.job.request, content)
    return {}


def describe_request(baseline: str, candidates: Sequence[str], *, allow_mismatch: bool) -> dict[str, Any]:
    """Return the request of a comparison as JSON data."""
    return {"baseline": baseline, "candidates": list(candidates), "allow_mismatch": allow_mismatch}


def load_content(project: Project, asked: Mapping[str, Any]) -> ComparisonContent | None:
    """Return the kept content of a comparison. None: there is none, or a run has changed since."""
    path = _path_of(project, asked)
    if path is None:
        return None
    try:
        found = decode_kept(path.read_bytes(), ComparisonContent)
    except (OSError, ValueError):  # it is computed again
        return None
    return found if found.signature == _sign(project, asked) else None


def compute_content(project: Project, asked: Mapping[str, Any]) -> ComparisonContent:
    """Compare runs, keep what the page shows, and return it.

    Raises:
        InvalidInput: A run does not exist, or the runs are not comparable.
        StoreError: A run is damaged.
    """
    content = _compare(project, asked)
    _keep(project, asked, content)
    return content


def _compare(project: Project, asked: Mapping[str, Any]) -> ComparisonContent:
    from evalspec.reports.view.comparison import build_comparison_view
    from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
    from evalspec.verdict.validity.changes import SignificanceRules

    signature = _sign(project, asked)
    baseline, *others = (find_named(project, name) for name in (asked["baseline"], *asked["candidates"]))
    comparison = compare_runs(baseline, others, SignificanceRules(), Choice(allow_mismatch=asked["allow_mismatch"]))
    return ComparisonContent(
        signature,
        baseline.run.id,
        fit_view(build_comparison_view(comparison, _SAMPLES_LISTED), _LIMITS),
        tuple(_find_flips(baseline, *pair) for pair in zip(others, comparison.candidates, strict=True)),
    )


def _find_flips(baseline: NamedRun, candidate: NamedRun, one: CandidateComparison) -> CandidateFlips:
    pairs = [(part, pair) for part in one.datasets for pair in _pair_outcomes(baseline, candidate, part)]
    failing = [_flip(part, pair.id) for part, pair in pairs if pair.fails_newly]
    passing = [_flip(part, pair.id) for part, pair in pairs if pair.passes_newly]
    changed = () if failing or passing else tuple(islice(_list_changes(one), _SAMPLES_LISTED))
    kept = (tuple(failing[:_FLIPS_KEPT]), tuple(passing[:_FLIPS_KEPT]))
    return CandidateFlips(one.name, one.run_id, *kept, changed, len(failing), len(passing))


def _pair_outcomes(baseline: NamedRun, candidate: NamedRun, part: DatasetComparison) -> list[OutcomePair]:
    before = next(dataset for dataset in baseline.run.datasets if dataset.name == part.name)
    after = next(dataset for dataset in candidate.run.datasets if dataset.name == part.candidate_name)
    return pair_outcomes(before, after)[0]


def _list_changes(one: CandidateComparison) -> Iterator[Flip]:
    for part in one.datasets:
        yield from (_flip(part, change.id) for change in part.samples if change.kind in _LARGEST_CHANGES)


def _flip(part: DatasetComparison, id: str) -> Flip:
    return Flip(part.name, part.candidate_name, id)


def _keep(project: Project, asked: Mapping[str, Any], content: ComparisonContent) -> None:
    path = _path_of(project, asked)
    if path is None:
        return
    with store_errors(path):
        path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        replace_file(path, [encode_kept(content)], mode=PRIVATE_FILE)  # two requests may keep the same comparison


def _path_of(project: Project, asked: Mapping[str, Any]) -> Path | None:
    """Return where the content is kept: beside the index of the first candidate. None: that is not a stored run."""
    folder = find_run_folder(project, asked["candidates"][0])
    if folder is None:
        return None
    digest = sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
    return derived_folder(folder) / f"comparison-{digest}.json"


def _sign(project: Project, asked: Mapping[str, Any]) -> str:
    """Return names, sizes and times of the files of all runs. A promoted baseline counts with its name only."""
    signs = []
    for name in (asked["baseline"], *asked["candidates"]):
        folder = find_run_folder(project, name)
        signs.append(name if folder is None else f"{folder.name}:{sign_run(folder)}")
    return "|".join(signs)
