"""The records of a run and of trends that REST returns and pages show."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from evalspec.model import DatasetResult, Run
from evalspec.model.base import Record, project
from evalspec.model.listed_runs import ListedValue, RunEntry

LEFT_OUT = ("samples", "diagnosis")
"""Fields of a dataset's result with an entry for each sample."""


DatasetHead = project(DatasetResult, "DatasetHead", {*DatasetResult.__struct_fields__} - {*LEFT_OUT})
RunHead = project(
    Run,
    "RunHead",
    {*Run.__struct_fields__} - {"fingerprint"},
    datasets=tuple[DatasetHead, ...],  # type: ignore[valid-type]
)
"""A Run without its samples and fingerprint."""


class WholeRun(RunEntry, frozen=True, kw_only=True):
    """One run. `result` is the JSON report without samples and fingerprint."""

    job_id: Annotated[str | None, Meta(description="The newest job that writes the run; null: the command line did.")]
    result: Annotated[RunHead | None, Meta(description="null: not finished.")]  # type: ignore[valid-type]


class TrendPoint(Record, frozen=True):
    """The values of a dataset's metrics in one run."""

    run_id: str
    started_at: str
    verdict: str | None
    partial: bool | None
    manifest: str | None
    branch: str | None
    selected: Annotated[int, Meta(description="Number of samples.")]
    metrics: Mapping[str, ListedValue]


class MetricTrend(Record, frozen=True):
    """The values of one metric of one dataset, newest last. Runs without the metric are left out.

    A line may join neighbours of one `series` only.
    """

    dataset: str
    metric: str
    points: tuple[TrendPoint, ...]
