"""Pages of datasets: those of the manifests, the posted and the uploaded ones; one with problems and coverage."""

import time
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from msgspec import Struct

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.service.dataset_checks import (
    KIND,
    LISTED_BYTES,
    SMALL_BYTES,
    DatasetCheck,
    check_small,
    decode_check,
    read_samples,
)
from evalspec.service.gold_people import list_project_sets
from evalspec.service.jobs import JobStatus
from evalspec.service.pages.dataset_views import (
    ListedDataset,
    describe_check,
    describe_state,
    list_sample,
)
from evalspec.service.pages.gold_addresses import SetLinks
from evalspec.service.pages.templating import render_page
from evalspec.service.pages.visits import UPLOADING, Visit, Visitor
from evalspec.service.places import hide_folder
from evalspec.service.posted_datasets import list_datasets, list_versions
from evalspec.service.project_datasets import (
    DatasetPlace,
    FoundDataset,
    find_dataset,
    find_in_manifest,
    list_manifests,
    load_project_manifest,
)
from evalspec.service.requested_jobs import find_same_job, start_job
from evalspec.service.timestamps import render_minute
from evalspec.service.uploaded_datasets import list_upload_versions, list_uploads

ROUTER = APIRouter(include_in_schema=False)

_LIST_SECONDS = 1.0
"""How long the list checks datasets. Others are checked when somebody opens them."""
_DATASETS_SHOWN = 200
_PROBLEMS_SHOWN = 50
_SAMPLES_SHOWN = 50
_VERSIONS_SHOWN = 30

Word = Annotated[str, Query(max_length=1000)]


class CheckOutcome(Struct, frozen=True):
    """A check, or why there is none (yet)."""

    check: DatasetCheck | None = None
    error: str | None = None
    is_waiting: bool = False


class _Manifest(Struct, frozen=True):
    """A manifest with rows of its datasets, or why it cannot be read."""

    name: str
    datasets: list[ListedDataset]
    problems: list[str]


@ROUTER.get("/datasets")
def show_datasets(visit: Visitor) -> HTMLResponse:
    """Show all datasets of the project."""
    deadline = time.monotonic() + _LIST_SECONDS
    manifests = [_list_manifest(visit, name, deadline) for name in list_manifests(visit.project)]
    posted, problems = list[ListedDataset](), list[str]()
    for kind in (_list_posted, _list_uploaded):
        try:
            posted += kind(visit)
        except StoreError as error:
            problems.append(hide_folder(str(error), visit.project.folder))
    return render_page(
        "datasets.html",
        visit,
        manifests=manifests,
        posted=posted[:_DATASETS_SHOWN],
        more=max(len(posted) - _DATASETS_SHOWN, 0),
        file_problems=problems,
        may_upload=visit.may(*UPLOADING),
    )


def link_dataset(visit: Visit, place: DatasetPlace, **query: str | int | None) -> str:
    """Return the address of a dataset."""
    kind = "posted" if place.is_posted else None if place.manifest is not None else "uploaded"
    given: dict[str, str | int | None] = {"manifest": place.manifest, "kind": kind, "name": place.name}
    return visit.link("/datasets/dataset", **given, version=place.version, **query)


def _list_manifest(visit: Visit, name: str, deadline: float) -> _Manifest:
    try:
        loaded = load_project_manifest(visit.project, name)
    except InvalidInput as error:
        problems = [hide_folder(problem.render(), visit.project.folder) for problem in error.problems]
        return _Manifest(name, [], problems[:_PROBLEMS_SHOWN])
    rows = []
    for config in loaded.manifest.spec.evaluation.datasets[:_DATASETS_SHOWN]:
        place = DatasetPlace(config.name, name)
        found = find_in_manifest(visit.project, loaded, place)
        is_soon = found.size <= SMALL_BYTES and time.monotonic() < deadline
        check = check_small(visit.project, found) if is_soon else None
        samples = _count_samples(check, found)
        detail, format = config.path.removeprefix("$file:"), (check.format if check else None) or config.format or ""
        link = link_dataset(visit, place)
        rows.append(ListedDataset(config.name, link, detail, format, samples, None, describe_state(check)))
    return _Manifest(name, rows, [])


def _count_samples(check: DatasetCheck | None, found: FoundDataset) -> int | None:
    """Return the number of samples, None if it is unknown because some cannot be read."""
    if check is None or found.source is None:
        return None
    own = [problem for problem in check.problems if problem.file != found.place.manifest]
    return None if own else check.profile.samples


def _list_posted(visit: Visit) -> Iterator[ListedDataset]:
    for one in list_datasets(visit.project):
        link = link_dataset(visit, DatasetPlace(one.dataset_name, is_posted=True))
        state = ("pass", "✓", "valid")  # only valid ones are stored
        when = f"posted {render_minute(one.created_at)}"
        yield ListedDataset(one.dataset_name, link, when, "retrieval", one.query_count, one.version, state)


def _list_uploaded(visit: Visit) -> Iterator[ListedDataset]:
    for one in list_uploads(visit.project):
        place = DatasetPlace(one.name, version=one.version)
        check = check_small(visit.project, find_dataset(visit.project, place)) if one.size <= SMALL_BYTES else None
        samples = check.profile.samples if check is not None else None
        when = f"uploaded {render_minute(one.moment.isoformat())}"
        link, format = link_dataset(visit, DatasetPlace(one.name)), check.format if check else one.path.suffix[1:]
        yield ListedDataset(one.name, link, when, format, samples, one.version, describe_state(check))


@ROUTER.get("/datasets/dataset")
def show_dataset(
    visit: Visitor,
    name: Word,
    manifest: Annotated[str | None, Query(max_length=1000)] = None,
    kind: Literal["", "posted", "uploaded"] = "",
    version: Annotated[int | None, Query(ge=1)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> HTMLResponse:
    """Show a dataset: its problems with their fixes, balance and coverage, and a page of its samples."""
    found = find_dataset(visit.project, DatasetPlace(name, manifest, version, kind == "posted"))
    outcome = _check(visit, found)
    start = (page - 1) * _SAMPLES_SHOWN
    samples = read_samples(found, start, _SAMPLES_SHOWN + 1) if found.size <= LISTED_BYTES else []
    place = found.place

    def link(**query: str | int | None) -> str:
        return link_dataset(visit, place, **query)

    versions = [] if manifest is not None else _list_place_versions(visit, place)
    return render_page(
        "dataset.html",
        visit,
        name=name,
        place=place,
        path=hide_folder(found.source.shown_as, visit.project.folder) if found.source else None,
        size=found.size,
        outcome=outcome,
        **describe_check(outcome.check),
        samples=[list_sample(sample) for sample in samples[:_SAMPLES_SHOWN]],
        is_listed=found.size <= LISTED_BYTES,
        first=start + 1,
        page=page,
        next_page=link(page=page + 1) if len(samples) > _SAMPLES_SHOWN else None,
        previous_page=link(page=page - 1) if page > 1 else None,
        this_link=link(),
        versions=[(one, link_dataset(visit, DatasetPlace(name, None, one, place.is_posted))) for one in versions],
        gold_link=_find_gold(visit, found),
    )


def _list_place_versions(visit: Visit, place: DatasetPlace) -> list[int]:
    list_all = list_versions if place.is_posted else list_upload_versions
    return list_all(visit.project, place.name)[::-1][:_VERSIONS_SHOWN]


def _check(visit: Visit, found: FoundDataset) -> CheckOutcome:
    """Return the check of a dataset. A large one is checked by a worker."""
    if found.size <= SMALL_BYTES:
        return CheckOutcome(check_small(visit.project, found))
    asked = {**msgspec.to_builtins(found.place), "signature": found.signature}
    job = find_same_job(visit.access, KIND, asked)
    if job is not None and job.status == JobStatus.FAILED:
        return CheckOutcome(error=job.error or "the check failed")
    check = decode_check(job.result, found.signature) if job is not None else None
    if check is not None:
        return CheckOutcome(check)
    if job is None or not job.is_open:
        start_job(visit.access, KIND, asked, "check")
    return CheckOutcome(is_waiting=True)


def _find_gold(visit: Visit, found: FoundDataset) -> str | None:
    """Return the address of the gold set that a dataset is, None if it is none."""
    path = found.source.path.resolve() if found.source is not None else None
    sets = (root for root in list_project_sets(visit.project) if root.resolve() == path)
    return next((SetLinks(visit, root.name).part("/stats") for root in sets), None)
