"""What the list of runs shows: rows, and the trends of the metrics of one dataset."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import inf

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.model import VerdictStatus
from evalspec.model.listed_runs import DatasetRow, ListedValue, RunEntry, RunStatus
from evalspec.service.run_records import TrendPoint
from evalspec.verdict.wording import MARKS, render_known, render_limit

_DATASETS_SHOWN = 3
_VALUES_SHOWN = 6
_TRENDS_SHOWN = 8
_COMMIT_LENGTH = 7
_FARTHEST_LIMIT = 3
"""How far from the values a limit is drawn, as a multiple of their spread."""
_TREND_WIDTH, _TREND_HEIGHT, _TREND_EDGE = 220, 44, 4
_TONES = {True: "pass", False: "fail", None: ""}
_PASSED = {True: MARKS[VerdictStatus.PASS], False: MARKS[VerdictStatus.FAIL], None: ""}


class ShownValue(Struct, frozen=True):
    """The value of a metric. `mark`, `tone`: whether it is within its limit."""

    metric: str
    shown: str
    mark: str
    tone: str


class ShownDataset(Struct, frozen=True):
    """A dataset of a run. `more`: number of further metrics."""

    name: str
    values: tuple[ShownValue, ...]
    more: int


class ListedRun(Struct, frozen=True):
    """One row. `started`: a readable time. `origin`: branch, commit and pull request of the CI build."""

    id: str
    started: str
    status: str
    verdict: str | None
    partial: bool | None
    is_finished: bool
    samples: int
    manifest: str | None
    error: str | None
    datasets: tuple[ShownDataset, ...]
    more_datasets: int
    origin: tuple[str, ...]
    is_pushed: bool


class TrendDrawing(Struct, frozen=True):
    """A line over runs, oldest first. `points`: as SVG reads them. `last`: position of the newest value."""

    pieces: tuple[str, ...]
    last: tuple[float, float]
    limits: tuple[float, ...]


class Trend(Struct, frozen=True):
    """The values of a metric over runs. `label`: the chart in words."""

    metric: str
    drawing: TrendDrawing
    caption: str
    label: str


def list_run(entry: RunEntry) -> ListedRun:
    """Return the row of a run."""
    return ListedRun(
        entry.id,
        render_timestamp(entry.moment),
        str(entry.status),
        entry.verdict,
        entry.partial,
        entry.status is RunStatus.FINISHED,
        entry.samples,
        entry.manifest,
        entry.error,
        tuple(map(_list_dataset, entry.datasets[:_DATASETS_SHOWN])),
        max(len(entry.datasets) - _DATASETS_SHOWN, 0),
        describe_origin(entry),
        entry.origin.pushed_by is not None,
    )


def describe_origin(entry: RunEntry) -> tuple[str, ...]:
    """Return branch, commit and pull request of the CI build of a run, without those that are unknown."""
    ci = entry.origin.ci
    if ci is None:
        return ()
    commit = None if ci.commit is None else ci.commit[:_COMMIT_LENGTH]
    pull_request = None if ci.pull_request is None else f"#{ci.pull_request}"
    return tuple(filter(None, (ci.branch, pull_request, commit)))


def _list_dataset(dataset: DatasetRow) -> ShownDataset:
    """Return a dataset with the metrics that have a limit first."""
    ordered = sorted(dataset.metrics.items(), key=lambda item: item[1].threshold is None)
    values = tuple(_list_value(metric, found) for metric, found in ordered[:_VALUES_SHOWN])
    return ShownDataset(dataset.name, values, max(len(ordered) - _VALUES_SHOWN, 0))


def _list_value(metric: str, found: ListedValue) -> ShownValue:
    shown = render_known(metric, found.value, found.find_limit(metric))
    return ShownValue(metric, shown, _PASSED[found.passed], _TONES[found.passed])


def build_trends(points: Sequence[TrendPoint]) -> tuple[list[Trend], int]:
    """Return the trends of the metrics of the newest run, and how many were left out. `points`: newest last."""
    if not points:
        return [], 0
    ordered = sorted(points[-1].metrics.items(), key=lambda item: item[1].threshold is None)
    trends = [trend for metric, newest in ordered if (trend := _build_trend(metric, newest, points))]
    return trends[:_TRENDS_SHOWN], max(len(trends) - _TRENDS_SHOWN, 0)


def _build_trend(metric: str, newest: ListedValue, points: Sequence[TrendPoint]) -> Trend | None:
    found = [point.metrics.get(metric) for point in points]
    values = [None if one is None else one.value for one in found]
    series = [None if one is None else one.series for one in found]
    drawing = draw_trend(values, series, tuple((newest.threshold or {}).values()))
    if drawing is None:
        return None
    known = [value for value in values if value is not None]
    shown = render_known(metric, newest.value)
    limit = newest.find_limit(metric)
    caption = f"{shown}, limit {render_limit(limit)}" if limit else shown
    spread = f"from {render_known(metric, min(known))} to {render_known(metric, max(known))}"
    label = f"Trend of {metric} over {counted(len(known), 'run')}, {spread}, newest {shown}"
    measured = [one.series for one in found if one is not None and one.value is not None]
    breaks = sum(before != after for before, after in pairwise(measured))
    more = f"; {counted(breaks, 'break')}, where the measurement changed" if breaks else ""
    return Trend(metric, drawing, caption + more, label + more)


def draw_trend(
    values: Sequence[float | None], series: Sequence[str | None], limits: Sequence[float] = ()
) -> TrendDrawing | None:
    """Return the line of some values, oldest first. Without two values there is no line.

    A value that is None, and another series than before or an unknown one, interrupt it. A single value is a dot.

    Limits so far away that the line would look flat are left out.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    reach = _FARTHEST_LIMIT * (max(known) - min(known)) or inf
    near = [limit for limit in limits if min(known) - reach <= limit <= max(known) + reach]
    shown = [*known, *near]
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0

    def place(number: int, value: float) -> tuple[float, float]:
        x = _TREND_EDGE + number / (len(values) - 1) * (_TREND_WIDTH - 2 * _TREND_EDGE)
        middle = 0.5 if high == low else (value - low) / span
        return round(x, 2), round(_TREND_HEIGHT - _TREND_EDGE - middle * (_TREND_HEIGHT - 2 * _TREND_EDGE), 2)

    pieces: list[list[str]] = [[]]
    last = (0.0, 0.0)
    for number, value in enumerate(values):
        if value is None or series[number] is None or series[number] != series[number - 1]:
            pieces.append([])
        if value is None:
            continue
        last = place(number, value)
        pieces[-1].append(f"{last[0]},{last[1]}")
    lines = tuple(" ".join(piece if len(piece) > 1 else piece * 2) for piece in pieces if piece)
    return TrendDrawing(lines, last, tuple(place(0, limit)[1] for limit in near))


def render_timestamp(moment: float) -> str:
    """Return a time as `2026-11-23 06:15 UTC`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
