"""The records of a run and of trends that REST returns and pages show."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Annotated

from msgspec import Meta

from evalspec.model import DatasetResult, Run
from evalspec.model.base import Number, Record, project
from evalspec.model.listed_runs import ListedValue, RunEntry
from evalspec.verdict.stats.change_points import list_changes

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
    commit: str | None
    pull_request: str | None
    selected: Annotated[int, Meta(description="Number of samples.")]
    metrics: Mapping[str, ListedValue]


class LevelChange(Record, frozen=True):
    """A lasting change of a metric's level, by the first run after it."""

    run_id: str
    started_at: str
    commit: Annotated[str | None, Meta(description="Of the CI build; null: unknown.")]
    before: Annotated[Number, Meta(description="Mean of the comparable values back to the previous change.")]
    after: Annotated[Number, Meta(description="Mean of the comparable values up to the next change.")]


class MetricTrend(Record, frozen=True):
    """The values of one metric of one dataset, newest last. Runs without the metric are left out.

    A line may join neighbours of one `series` only.
    """

    dataset: str
    metric: str
    points: tuple[TrendPoint, ...]
    changes: Annotated[
        tuple[LevelChange, ...],
        Meta(
            description="Where the level of the metric changed, among the newest 100 comparable runs. Of histories "
            "of 100 runs without a change, at most 5 % show one, over all metrics of the dataset and after every run."
        ),
    ]


def iterate_level_changes(metric: str, points: Sequence[TrendPoint]) -> Iterator[LevelChange]:
    """Yield the changes of a metric's level. `points`: with all metrics of the dataset, newest last."""
    measured = [point for point in points if metric in point.metrics and point.metrics[metric].value is not None]
    for series, grouped in groupby(measured, key=lambda point: point.metrics[metric].series):
        runs = list(grouped)
        values = [value for point in runs if (value := point.metrics[metric].value) is not None]
        places = [] if series is None else list_changes(values, len(points[-1].metrics) or 1)
        levels = [fmean(values[start:end]) for start, end in pairwise([0, *places, len(values)])]
        for place, (before, after) in zip(places, pairwise(levels), strict=True):
            yield LevelChange(runs[place].run_id, runs[place].started_at, runs[place].commit, before, after)
