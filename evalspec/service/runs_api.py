"""Routes of runs: start one from a manifest of the project."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from evalspec.api.public import validate
from evalspec.errors import InvalidInput
from evalspec.service import jobs
from evalspec.service.access import Access, permits
from evalspec.service.jobs_api import JobState, describe_job
from evalspec.service.run_jobs import resolve_manifest
from evalspec.service.settings import MANIFEST
from evalspec.service.tokens import Scope

ROUTER = APIRouter(prefix="/v1/runs", tags=["runs"])

Positive = Annotated[int, Field(ge=1)]


class RunRequest(BaseModel):
    """A run of a manifest of the project. The options are those of `evalspec evaluate`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    manifest: str = Field(MANIFEST, description="Path in the project.", max_length=1000)
    datasets: list[str] = Field([], description="Only these datasets.")
    sample_size: Positive | None = Field(None, description="At most so many samples per dataset.")
    seed: int = 0
    tags: list[str] = []
    exclude_tags: list[str] = []
    where: list[str] = []
    stratify: list[str] = []
    slice: str | None = None
    held_out: bool = False
    repeat: Annotated[int, Field(ge=1, le=100)] = 1
    judge_repeat: Annotated[int, Field(ge=1, le=100)] = 1
    no_judge: bool = False
    no_content: bool = False
    concurrency: Annotated[int, Field(ge=1, le=100)] = 10
    retriever: str | None = None
    mode: Literal["retrieve", "retrieve+rerank"] | None = None
    top_k: Positive | None = None
    rerank_top_k: Positive | None = None

    def to_options(self) -> dict[str, Any]:
        """Return the options of `evalspec.evaluate` that differ from their defaults."""
        return self.model_dump(exclude={"manifest"}, exclude_defaults=True)


@ROUTER.post("", status_code=HTTPStatus.ACCEPTED)
def start_run(
    asked: RunRequest, response: Response, access: Annotated[Access, Depends(permits(Scope.RUN))]
) -> JobState:
    """Start a run. It is checked first; the samples are queried by a worker."""
    options = asked.to_options()
    place = access.project.folder / resolve_manifest(access.project.folder, asked.manifest)
    found = validate(place, **options)
    if not found.is_valid:
        raise InvalidInput(found.problems)
    counts = (min(count, asked.sample_size or count) for count in found.samples.values())
    job = jobs.enqueue(
        access.engine,
        access.namespace,
        "run",
        {"manifest": asked.manifest, "options": options},
        access.caller.user,
        id=jobs.create_id("run"),
        calls=sum(counts) * asked.repeat,
        limits=access.service.settings.limits,
    )
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return describe_job(job)
