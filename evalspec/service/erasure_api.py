"""The route that erases personal data: from runs, labels and baselines, and from the results and errors of jobs."""

import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine, or_, select, update

from evalspec.api.erasure import SHORTEST_TEXT, erase
from evalspec.curation.gold.quotes import Quotes
from evalspec.service.access import Administering
from evalspec.service.comparing import COMPARISON
from evalspec.service.database import reading, writing
from evalspec.service.examples import RUN_ID
from evalspec.service.jobs import OPEN
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.pushes import PUSHES_NAME, remove_idle_pushes
from evalspec.service.tables import JOBS

ROUTER = APIRouter(prefix="/v1/erasure", tags=["operations"], route_class=JsonRoute)

_ERASED = "erased, because it quoted an erased text"
_COMPUTED_AGAIN = frozenset({COMPARISON, "dataset_check"})
"""Kinds of jobs whose results have texts of samples, and are computed again on demand."""
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
    jobs_changed = _erase_from_jobs(access.engine, access.namespace, asked.texts, keys, dry_run=asked.dry_run)
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


def _erase_from_jobs(
    engine: Engine,
    namespace: str,
    texts: Collection[str],
    samples: Collection[tuple[str, str]],
    *,
    dry_run: bool,
) -> list[str]:
    """Remove texts from the results and errors of ended jobs that quote one of the texts, or compare a sample.

    Returns:
        The ids of these jobs.

    Raises:
        StoreError: The database does not answer.
    """
    quotes = Quotes(texts, shortest=1)
    shown = (JOBS.c.id, JOBS.c.kind, JOBS.c.result, JOBS.c.error)
    has_text = or_(JOBS.c.kind == COMPARISON, JOBS.c.error.is_not(None), JOBS.c.result.is_not(None))
    ended = select(*shown).where(JOBS.c.namespace == namespace, JOBS.c.status.not_in(OPEN), has_text)
    with reading(engine) as connection:
        found = [
            row
            for row in connection.execute(ended.order_by(JOBS.c.id))
            if quotes(_encode(row.result, row.error))
            or (row.kind == COMPARISON and _list_samples(row.result) & set(samples))
        ]
    if not dry_run:
        with writing(engine) as connection:
            for row in found:
                changed = update(JOBS).where(JOBS.c.namespace == namespace, JOBS.c.id == row.id)
                connection.execute(changed.values(result=_strip(row), error=row.error and _ERASED))
    return [row.id for row in found]


def _strip(row: Any) -> Mapping[str, Any] | None:
    """Return the result of a row of the table without texts. Scores of evaluations stay."""
    if row.result is None or row.kind in _COMPUTED_AGAIN:
        return None
    return {**row.result, "warnings": [_ERASED]} if "warnings" in row.result else row.result


def _encode(result: Any, error: str | None) -> bytes:
    return json.dumps([result, error], ensure_ascii=False).encode(errors="replace")


def _list_samples(result: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return the samples whose texts a comparison shows, by dataset and id."""
    return {
        (dataset["name"], sample["id"])
        for candidate in (result or {}).get("candidates", ())
        for dataset in candidate["datasets"]
        for sample in dataset["samples"]
    }
