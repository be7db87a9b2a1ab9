"""The records of runs in lists: what `runs list --json` prints, REST returns, and pages show."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from evalspec.model.base import Interval, Number, Record
from evalspec.model.fingerprints import CiBuild
from evalspec.model.summaries import Direction, Summary, Threshold


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
    ] = None

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


class StoredRunEntry(RunEntry, frozen=True, kw_only=True):
    """A run in the list of a store."""

    retrievers: Annotated[Mapping[str, str], Meta(description="Names by dataset; empty: the target is an agent.")] = {}
