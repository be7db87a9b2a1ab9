"""Answers about runs: rows of lists, and whole runs."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from evalspec.model.fingerprints import CiBuild
from evalspec.service.answers import describe, model_of
from evalspec.service.cursors import NextCursor
from evalspec.service.examples import MOMENT, RUN_ID, RUN_RESULT
from evalspec.service.jobs import render_time
from evalspec.service.run_heads import RunEntry, RunHead
from evalspec.service.settings import Project

Pair = tuple[float, float]


class MetricValue(BaseModel):
    """One metric over one dataset. `value` is null if no sample is scored."""

    value: float | None
    interval: Pair | None = Field(description="95 % interval of the value.")
    statistic: str
    direction: str = Field(description="The direction in which the metric improves: higher or lower.")
    scored: int
    expected: int = Field(description="Samples to which the metric applies: scored, failed and skipped.")
    not_applicable: int
    threshold: dict[str, float] | None = Field(description="`min`, `max`.")
    passed: bool | None = Field(description="Whether the value is within the threshold; null: none, or undecided.")
    series: str | None = Field(
        description="Equal in two runs that measured the same: dataset version, selection, formula and judge. Values "
        "of different series are not comparable; null: unknown."
    )


class ListedDataset(BaseModel):
    """A dataset of a run. An unfinished run has no metrics yet."""

    name: str
    selected: int = Field(description="Number of samples.")
    metrics: dict[str, MetricValue]


_VALUE = {
    "value": 0.75,
    "interval": [0.25, 0.97],
    "statistic": "mean",
    "direction": "higher",
    "scored": 4,
    "expected": 4,
    "not_applicable": 0,
    "threshold": {"min": 0.7},
    "passed": True,
    "series": "5f2b6a90c1d47e38",
}
_HEAD: Mapping[str, Any] = {
    "run_id": RUN_ID,
    "status": "finished",
    "verdict": "PASS",
    "partial": False,
    "started_at": MOMENT,
    "manifest": "agent.yaml",
    "labels": ["main"],
    "error": None,
    "ci": {
        "service": "GitHub Actions",
        "branch": "main",
        "commit": "2f0c1c5e",
        "pull_request": None,
        "url": "https://github.com/example/bot/actions/runs/1",
    },
    "pushed_by": "ci@example.com",
    "pushed_at": MOMENT,
}
LISTED: Mapping[str, Any] = {**_HEAD, "datasets": [{"name": "qa", "selected": 4, "metrics": {"exact_match": _VALUE}}]}


_CI: Any = model_of(CiBuild, "CiBuild")


class ListedRun(BaseModel):
    """A run in a list."""

    run_id: str
    status: str = Field(description="running, finished, interrupted or damaged.")
    verdict: str | None = Field(description="PASS, FAIL, INCOMPLETE or NOT_GATED; null: not finished.")
    partial: bool | None = Field(description="Whether the verdict is PARTIAL: something was left out on purpose.")
    started_at: str
    manifest: str | None = Field(description="Path in the project.")
    labels: list[str]
    error: str | None = Field(description="What is damaged.")
    ci: _CI | None = Field(description="The CI build of the run; null: none that is known.")
    pushed_by: str | None = Field(description="Who pushed the run from another machine; null: it was evaluated here.")
    pushed_at: str | None
    datasets: list[ListedDataset]


class RunPage(BaseModel):
    """A page of runs, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"runs": [dict(LISTED)], "next_cursor": None}]})
    runs: list[ListedRun]
    next_cursor: NextCursor


_RESULT: Any = model_of(RunHead, "RunResult", ("id", "schema_version"))
RunAnswer = create_model(
    "RunAnswer",
    __base__=ListedRun,
    __doc__="One run. `result` has the keys of the JSON report in snake_case, without samples and fingerprint.",
    __config__=None,
    job_id=(str | None, Field(description="The newest job that writes the run; null: the command line did.")),
    result=(_RESULT | None, Field(description="null: not finished.")),
)
RunAnswer.model_config = ConfigDict(
    json_schema_extra={"examples": [{**LISTED, "job_id": "run_0123456789ab", "result": RUN_RESULT}]}
)
RunAnswer.model_rebuild(force=True)


def read_labels(project: Project) -> dict[str, list[str]]:
    """Return the labels of each run that has one, by id."""
    found: dict[str, list[str]] = {}
    for label, folder in project.store.labels().items():
        found.setdefault(folder.name, []).append(label)
    return found


def describe_listed(entry: RunEntry, labels: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a run as lists show it."""
    return {
        "run_id": entry.id,
        "status": str(entry.status),
        "verdict": entry.verdict,
        "partial": entry.partial,
        "started_at": render_time(entry.started_at),
        "manifest": entry.manifest,
        "labels": labels.get(entry.id, []),
        "error": entry.error,
        "ci": describe(entry.origin.ci),
        "pushed_by": entry.origin.pushed_by,
        "pushed_at": entry.origin.pushed_at,
        "datasets": [{"name": one.name, "selected": one.selected, "metrics": one.metrics} for one in entry.datasets],
    }


def describe_run(entry: RunEntry, labels: Mapping[str, list[str]], job_id: str | None) -> dict[str, Any]:
    """Return a whole run, without its samples."""
    result = None if entry.details is None else json.loads(entry.details)
    return {**describe_listed(entry, labels), "job_id": job_id, "result": result}
