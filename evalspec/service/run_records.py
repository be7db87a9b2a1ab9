"""The records of runs in lists and trends: what the index has of a run, REST returns, and pages show."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from evalspec.model import DatasetResult, Direction, Run, Summary, Threshold
from evalspec.model.base import Interval, Number, Record, project
from evalspec.model.fingerprints import CiBuild

LEFT_OUT = ("samples", "diagnosis")
"""Fields of a dataset's result with an entry for each sample."""


class RunStatus(StrEnum):
    """Whether a run is complete. RUNNING: a process is writing it. INTERRUPTED: it can be resumed."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


class RunKind(StrEnum):
    """What a run evaluates."""

    AGENT = "agent"
    RETRIEVER = "retriever"


class ListedValue(Record, frozen=True, kw_only=True):
    """The value of a metric over one dataset: a part of its summary."""

    value: Annotated[Number | None, Meta(description="null: no sample is scored.")]
    interval: Annotated[Interval | None, Meta(description="95 % confidence interval of the value.")]
    statistic: str
    direction: Direction
    scored: int
    expected: Annotated[int, Meta(description="Samples to which the metric applies: scored, failed and skipped.")]
    not_applicable: int
    threshold: Annotated[Mapping[str, float] | None, Meta(description="`min`, `max`; null: no limit.")]
    passed: Annotated[bool | None, Meta(description="Whether the limit passes; null: none, or undecided.")]
    series: Annotated[
        str | None,
        Meta(
            description="Equal in two runs that measured the same: dataset version, selection, formula and judge. "
            "Values of different series are not comparable; null: unknown."
        ),
    ]

    def find_limit(self, metric: str) -> Threshold | None:
        """Return the limit as a threshold of a metric."""
        limit = self.threshold
        return None if limit is None else Threshold(metric, min=limit.get("min"), max=limit.get("max"))


_SHOWN = tuple(name for name in ListedValue.__struct_fields__ if name != "series")


def list_value(summary: Summary, series: str | None) -> ListedValue:
    """Return what lists and trends show of a summary."""
    return ListedValue(**{name: getattr(summary, name) for name in _SHOWN}, series=series)


class DatasetRow(Record, frozen=True):
    """A dataset of a run. An unfinished run has no metrics yet."""

    name: str
    selected: Annotated[int, Meta(description="Number of samples.")]
    metrics: Mapping[str, ListedValue] = {}


class RunOrigin(Record, frozen=True):
    """Where a run is from."""

    ci: Annotated[CiBuild | None, Meta(description="The CI build of the run; null: none that is known.")] = None
    pushed_by: Annotated[
        str | None, Meta(description="Who pushed the run from another machine; null: it was evaluated here.")
    ] = None
    pushed_at: str | None = None

    @property
    def branch(self) -> str | None:
        """The branch of the CI build."""
        return None if self.ci is None else self.ci.branch


class RunEntry(Record, frozen=True):
    """A run in a list."""

    id: str = field(name="runId")
    status: RunStatus
    started_at: Annotated[str, Meta(description="In UTC, to the millisecond.")]
    verdict: Annotated[str | None, Meta(description="null: the run is not finished.")] = None
    partial: Annotated[
        bool | None, Meta(description="Whether the verdict is PARTIAL: something was left out on purpose.")
    ] = None
    manifest: Annotated[str | None, Meta(description="Path in the project.")] = None
    kind: Annotated[RunKind | None, Meta(description="What is evaluated; null: not known yet, or damaged.")] = None
    labels: tuple[str, ...] = ()
    error: Annotated[str | None, Meta(description="What is damaged.")] = None
    origin: RunOrigin = RunOrigin()
    datasets: tuple[DatasetRow, ...] = ()

    @property
    def samples(self) -> int:
        """The number of samples of all datasets."""
        return sum(dataset.selected for dataset in self.datasets)

    @property
    def moment(self) -> float:
        """When the run started, in seconds since 1970. 0: unknown."""
        return datetime.fromisoformat(self.started_at).timestamp()


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
