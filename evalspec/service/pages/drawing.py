"""Geometry of charts, which templates draw as SVG: a value on its scale, a distribution, a trend."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct

from evalspec.reports.view.parts import Plot, Table
from evalspec.verdict.wording import render_value

WIDTH, HEIGHT = 280, 116
_FLOOR, _TOP = 92, 22
_PLOT_LEFT, _PLOT_WIDTH = 4, 132
_FARTHEST_LIMIT = 3
"""How far from the values a limit is drawn, as a multiple of their spread."""
_TREND_WIDTH, _TREND_HEIGHT, _TREND_EDGE = 220, 44, 4


class IntervalDrawing(Struct, frozen=True):
    """Horizontal positions on a scale that is 140 wide."""

    point: float
    interval: tuple[float, float] | None
    limits: tuple[float, ...]


class Bar(Struct, frozen=True):
    """One bar of a distribution, with its description."""

    x: float
    y: float
    width: float
    height: float
    hint: str


class UprightLine(Struct, frozen=True):
    """A line at a value. `top`: where it begins. `label`: beside its top, on the left if `is_late`."""

    x: float
    kind: str
    top: float = 0
    label: str = ""
    is_late: bool = False


class HistogramDrawing(Struct, frozen=True):
    """A distribution. `low`, `high`: the ends of its scale. `caption`: what is known of the values."""

    bars: tuple[Bar, ...]
    lines: tuple[UprightLine, ...]
    low: str
    high: str
    caption: str


class TrendDrawing(Struct, frozen=True):
    """A line over runs, oldest first. `points`: as SVG reads them. `last`: position of the newest value."""

    pieces: tuple[str, ...]
    last: tuple[float, float]
    limits: tuple[float, ...]


def find_drawn(table: Table) -> list[bool]:
    """Return whether each column of a table has values to draw."""
    return [any(row.cells[place].plot for row in table.rows) for place in range(len(table.columns))]


def draw_interval(plot: Plot) -> IntervalDrawing:
    """Return a value with interval and limits on a scale from 0, or the lowest of them, to 1, or the highest."""
    bounds = [bound for bound in (plot.min, plot.max) if bound is not None]
    known = [plot.point, *(plot.ends or ()), *bounds]
    low = min(0.0, *known)
    high = 1.0 if max(known) <= 1 else max(known) * 1.05

    def place(value: float) -> float:
        return _round(_PLOT_LEFT + (value - low) / (high - low) * _PLOT_WIDTH)

    ends = None if plot.ends is None else (place(plot.ends[0]), place(plot.ends[1]))
    return IntervalDrawing(place(plot.point), ends, tuple(map(place, bounds)))


def draw_histogram(chart: Mapping[str, Any]) -> HistogramDrawing:
    """Return the distribution of a chart of `describe_charts`: of scores, or of latencies with their percentiles."""
    percentiles = chart.get("percentiles")
    if percentiles is None:
        histogram = chart["histogram"]
        said = [f"{histogram['n']:,} scored"]
        said += [f"median {chart['median']}"] if chart["median"] else []
        said += [f"limit {chart['limit']}"] if chart["limit"] else []
        limits = [(bound, chart["broken"]) for bound in chart["bounds"]]
    else:
        histogram, limits = chart, chart["limits"]
        said = [f"{name} {render_value('', value)}" for name, value in percentiles]
    low, high = histogram["low"], histogram["high"]

    def place(value: float) -> float:
        return _round(min(max((value - low) / (high - low) * WIDTH, 0.75), WIDTH - 0.75))

    lines = [UprightLine(place(bound), "limit broken" if broken else "limit") for bound, broken in limits]
    for number, (name, value) in enumerate(percentiles or ()):
        lines.append(UprightLine(place(value), "percentile", 10 * number, name, place(value) > WIDTH - 30))
    unit = "" if percentiles is None else " ms"
    ends = f"{_render_end(low)}{unit}", f"{_render_end(high)}{unit}"
    return HistogramDrawing(tuple(_list_bars(histogram, unit)), tuple(lines), *ends, " · ".join(said))


def _list_bars(histogram: Mapping[str, Any], unit: str) -> list[Bar]:
    counts, low, high = histogram["counts"], histogram["low"], histogram["high"]
    step, tallest = WIDTH / len(counts), max(counts)

    def edge(number: int) -> str:
        return _render_end(low + (high - low) * number / len(counts))

    bars = []
    for number, count in enumerate(counts):
        if count:
            height = max(count / tallest * (_FLOOR - _TOP), 1.5)
            hint = f"{edge(number)} to {edge(number + 1)}{unit}: {count:,}"
            place = _round(number * step + 0.75), _round(_FLOOR - height)
            bars.append(Bar(*place, _round(step - 1.5), _round(height), hint))
    return bars


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
        return _round(x), _round(_TREND_HEIGHT - _TREND_EDGE - middle * (_TREND_HEIGHT - 2 * _TREND_EDGE))

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


def _render_end(value: float) -> str:
    decimals = 0 if abs(value) >= 10 or value == int(value) else 2
    return f"{value:,.{decimals}f}"


def _round(value: float) -> float:
    return round(value, 2)
