"""What the list of runs shows: rows, and the trends of the metrics of one dataset."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import inf

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.model import VerdictStatus
from evalspec.model.listed_runs import DatasetRow, ListedValue, RunEntry
from evalspec.service.run_records import LevelChange, TrendPoint, iterate_level_changes
from evalspec.service.timestamps import render_minute
from evalspec.verdict.wording import MARKS, render_known, render_limit

TREND_RUNS = 50
"""The newest runs, which a trend draws. Changes of level are searched in more."""
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

    run: RunEntry
    started: str
    datasets: tuple[ShownDataset, ...]
    more_datasets: int
    origin: tuple[str, ...]


class TrendDot(Struct, frozen=True):
    """A run in a trend, in the coordinates of the chart. `name`: what the link to the run is called."""

    run_id: str
    x: float
    y: float
    name: str
    is_change: bool


class TrendDrawing(Struct, frozen=True):
    """A line over runs, oldest first. `pieces`, `bands`: points as SVG reads them. `dots`: the runs with a value."""

    pieces: tuple[str, ...]
    bands: tuple[str, ...]
    dots: tuple[TrendDot, ...]
    limits: tuple[float, ...]


class ShownChange(Struct, frozen=True):
    """A change of level, in words."""

    run_id: str
    started: str
    levels: str
    commit: str | None


class Trend(Struct, frozen=True):
    """The values of a metric over runs. `label`: the chart in words."""

    metric: str
    drawing: TrendDrawing
    caption: str
    label: str
    changes: tuple[ShownChange, ...]


def list_run(entry: RunEntry) -> ListedRun:
    """Return the row of a run."""
    return ListedRun(
        entry,
        render_minute(entry.started_at),
        tuple(map(_list_dataset, entry.datasets[:_DATASETS_SHOWN])),
        max(len(entry.datasets) - _DATASETS_SHOWN, 0),
        describe_origin(entry),
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
    changes = tuple(iterate_level_changes(metric, points))
    shown_runs = points[-TREND_RUNS:]
    drawing = _draw_trend(metric, newest, shown_runs, {change.run_id for change in changes})
    if drawing is None:
        return None
    found = [point.metrics[metric] for point in shown_runs if metric in point.metrics]
    measured = [one for one in found if one.value is not None]
    known = [one.value for one in measured if one.value is not None]
    shown = render_known(metric, newest.value)
    limit = newest.find_limit(metric)
    caption = f"{shown}, limit {render_limit(limit)}" if limit else shown
    spread = f"from {render_known(metric, min(known))} to {render_known(metric, max(known))}"
    label = f"Trend of {metric} over {counted(len(known), 'run')}, {spread}, newest {shown}"
    breaks = sum(before.series != after.series for before, after in pairwise(measured))
    more = f"; {counted(breaks, 'break')}, where the measurement changed" if breaks else ""
    return Trend(metric, drawing, caption + more, label + more, tuple(_show_change(metric, one) for one in changes))


def _show_change(metric: str, change: LevelChange) -> ShownChange:
    levels = f"{render_known(metric, change.before)} → {render_known(metric, change.after)}"
    commit = change.commit and change.commit[:_COMMIT_LENGTH]
    return ShownChange(change.run_id, render_minute(change.started_at), levels, commit)


def _draw_trend(
    metric: str, newest: ListedValue, points: Sequence[TrendPoint], changed: Collection[str]
) -> TrendDrawing | None:
    """Return the line of a metric over runs, oldest first. Without two values there is no line.

    An unknown value, and another series than before or an unknown one, interrupt it. A single value is a dot.

    Limits so far away that the line would look flat are left out.
    """
    found = [point.metrics.get(metric) for point in points]
    known = [one.value for one in found if one is not None and one.value is not None]
    if len(known) < 2:
        return None
    reach = _FARTHEST_LIMIT * (max(known) - min(known)) or inf
    limits = (newest.threshold or {}).values()
    near = [limit for limit in limits if min(known) - reach <= limit <= max(known) + reach]
    shown = [*known, *near, *(end for one in found if one is not None for end in one.interval or ())]
    low, high = min(shown), max(shown)

    def place(value: float) -> float:
        middle = 0.5 if high == low else (value - low) / (high - low)
        return round(_TREND_HEIGHT - _TREND_EDGE - middle * (_TREND_HEIGHT - 2 * _TREND_EDGE), 2)

    pieces: list[list[tuple[TrendDot, tuple[float, float] | None]]] = []
    before = None
    for number, (point, one) in enumerate(zip(points, found, strict=True)):
        series = None if one is None or one.value is None else one.series
        if one is not None and one.value is not None:
            if series is None or series != before:
                pieces.append([])
            x = round(_TREND_EDGE + number / (len(points) - 1) * (_TREND_WIDTH - 2 * _TREND_EDGE), 2)
            name = f"{render_minute(point.started_at)}: {render_known(metric, one.value)}"
            dot = TrendDot(point.run_id, x, place(one.value), name, point.run_id in changed)
            pieces[-1].append((dot, one.interval and (place(one.interval[0]), place(one.interval[1]))))
        before = series
    lines = [[(dot.x, dot.y) for dot, _ in piece] for piece in pieces]
    bands = [band for piece in pieces for band in _iterate_bands(piece)]
    dots = tuple(dot for piece in pieces for dot, _ in piece)
    drawn = tuple(_join_points(line if len(line) > 1 else line * 2) for line in lines)
    return TrendDrawing(drawn, tuple(bands), dots, tuple(map(place, near)))


def _iterate_bands(piece: Sequence[tuple[TrendDot, tuple[float, float] | None]]) -> Iterator[str]:
    """Yield the area between the ends of the intervals, for each stretch of runs that have one."""
    for is_known, stretch in groupby(piece, key=lambda one: one[1] is not None):
        ends = [(dot.x, interval) for dot, interval in stretch if interval is not None]
        if is_known:
            yield _join_points([*((x, low) for x, (low, _) in ends), *((x, high) for x, (_, high) in ends[::-1])])


def _join_points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
