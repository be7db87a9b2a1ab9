"""The route that erases personal data."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from evalspec.api.erasure import SHORTEST_TEXT, erase
from evalspec.service.access import Administering
from evalspec.service.examples import RUN_ID
from evalspec.service.job_erasure import erase_from_jobs
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.pushes import PUSHES_NAME, remove_idle_pushes

ROUTER = APIRouter(prefix="/v1/erasure", tags=["operations"], route_class=JsonRoute)

_REQUEST: dict[str, Any] = {
    "texts": ["ben@example.com"],
    "samples": [{"dataset": "qa", "id": "refund"}],
    "dry_run": True,
}
_REPORT: dict[str, Any] = {
    "dry_run": True,
    "runs": {RUN_ID: 2},
    "labels": {RUN_ID: 1},
    "baselines": {},
    "jobs": [],
    "removed": [],
    "failed": [],
    "unreachable": [
        "qa.jsonl still quotes a text",
        "backups, clones and caches of CI",
        "reports and datasets that were written or sent elsewhere",
        "the services that answered or judged the samples",
    ],
}


class SampleName(BaseModel):
    """A sample of a dataset."""

    model_config = ConfigDict(extra="forbid")
    dataset: str = Field(max_length=1000)
    id: str = Field(max_length=1000)


class ErasureRequest(BaseModel):
    """What to erase. The texts are neither stored nor logged."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_REQUEST]})
    texts: list[Annotated[str, Field(min_length=SHORTEST_TEXT, max_length=10_000)]] = Field(
        [], max_length=100, description="Every sample that quotes one of these texts is erased."
    )
    samples: list[SampleName] = Field([], max_length=10_000, description="These samples are erased.")
    dry_run: bool = Field(False, description="Change nothing.")


class ErasureReport(BaseModel):
    """What was erased, or would be."""

    model_config = ConfigDict(json_schema_extra={"examples": [_REPORT]})
    dry_run: bool
    runs: dict[str, int] = Field(description="Number of erased samples, by run.")
    labels: dict[str, int] = Field(description="Number of labels without their words, by run.")
    baselines: dict[str, int] = Field(description="Number of removed samples, by file.")
    jobs: list[str] = Field(description="Ended jobs whose results or errors quoted a text or a sample.")
    removed: list[str] = Field(description="Deleted files, and pushes in progress.")
    failed: list[str] = Field(description="What has to be done again.")
    unreachable: list[str] = Field(description="Where the texts may still be.")


@ROUTER.post("", summary="Erase personal data")
def erase_data(asked: ErasureRequest, access: Administering) -> ErasureReport:
    """Erase texts of samples from the stored runs of the namespace. Scores stay.

    The request waits for the end, because a job would have to store the texts.
    """
    keys = [(sample.dataset, sample.id) for sample in asked.samples]
    done = erase(access.project.folder, asked.texts, keys, dry_run=asked.dry_run)
    pushes = remove_idle_pushes(access.project, 0, dry_run=asked.dry_run)  # they may quote a text, and begin again
    jobs_changed = erase_from_jobs(access.engine, access.namespace, asked.texts, keys, dry_run=asked.dry_run)
    return ErasureReport(
        dry_run=done.is_dry_run,
        runs=done.runs,
        labels=done.labels,
        baselines=done.baselines,
        jobs=jobs_changed,
        removed=[*done.removed, *(f".evalspec/{PUSHES_NAME}/{name}" for name in pushes)],
        failed=done.failed,
        unreachable=done.unreachable,
    )
