"""Charts as SVG: a value on its scale, and the distribution of the values of a metric."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalspec.reports.markup.elements import Element, Nodes, el, name
from evalspec.reports.view.parts import Plot, Tone
from evalspec.verdict.wording import render_value

_WIDTH, _HEIGHT = 280, 116
_FLOOR, _TOP = 92, 22
_PLOT_LEFT, _PLOT_WIDTH = 4, 132


def draw_plot(plot: Plot, tone: Tone) -> Element:
    """Return a value with interval and limits on a scale from 0, or the lowest of them, to 1, or the highest.

    The table shows the numbers beside it.
    """
    bounds = [bound for bound in (plot.min, plot.max) if bound is not None]
    known = [plot.point, *(plot.ends or ()), *bounds]
    low: float = min(0.0, *known)
    high: float = 1.0 if max(known) <= 1 else max(known) * 1.05

    def place(value: float) -> float:
        return round(_PLOT_LEFT + (value - low) / (high - low) * _PLOT_WIDTH, 2)

    return el(
        "svg",
        _line("floor", _PLOT_LEFT, 9, _PLOT_LEFT + _PLOT_WIDTH, 9),
        [_line("limit", place(bound), 1, place(bound), 17) for bound in bounds],
        plot.ends and _line("interval", place(plot.ends[0]), 9, place(plot.ends[1]), 9),
        el("circle", class_="point", cx=place(plot.point), cy=9, r=4),
        class_=f"plot {tone}".strip(),
        viewBox="0 0 140 18",
        aria_hidden="true",
    )


def draw_histogram(title: str, chart: Mapping[str, Any]) -> Element:
    """Return the distribution of a chart of `describe_charts`: of scores, or of latencies with their percentiles."""
    percentiles = chart.get("percentiles")
    if percentiles is None:
        said = [f"{chart['histogram']['n']:,} scored"]
        said += [f"median {chart['median']}"] if chart["median"] else []
        said += [f"limit {chart['limit']}"] if chart["limit"] else []
        return _draw(title, chart["histogram"], [(bound, chart["broken"]) for bound in chart["bounds"]], said)
    said = [f"{one} {render_value('', value)}" for one, value in percentiles]
    return _draw(title, chart, chart["limits"], said, percentiles, " ms")


def _draw(
    title: str,
    histogram: Mapping[str, Any],
    limits: list[tuple[float, bool]],
    said: list[str],
    percentiles: list[tuple[str, float]] | tuple[()] = (),
    unit: str = "",
) -> Element:
    low, high = float(histogram["low"]), float(histogram["high"])

    def place(value: float) -> float:
        return round(min(max((value - low) / (high - low) * _WIDTH, 0.75), _WIDTH - 0.75), 2)

    drawing = el(
        "svg",
        _draw_bars(histogram, unit),
        _line("floor", 0, _FLOOR, _WIDTH, _FLOOR),
        el("text", _render_end(low) + unit, x=0, y=_FLOOR + 14),
        el("text", _render_end(high) + unit, x=_WIDTH, y=_FLOOR + 14, text_anchor="end"),
        [_upright("limit broken" if broken else "limit", place(bound)) for bound, broken in limits],
        [_draw_percentile(number, one, place(value)) for number, (one, value) in enumerate(percentiles)],
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"Distribution of {title}: {', '.join(said)}",
    )
    return el(
        "figure", el("h3", name(title), unit and " in ms"), drawing, el("figcaption", " · ".join(said)), class_="chart"
    )


def _draw_bars(histogram: Mapping[str, Any], unit: str) -> Iterator[Element]:
    counts, low, high = histogram["counts"], histogram["low"], histogram["high"]
    step, tallest = _WIDTH / len(counts), max(counts)

    def edge(number: int) -> str:
        return _render_end(low + (high - low) * number / len(counts))

    for number, count in enumerate(counts):
        if count:
            height = round(max(count / tallest * (_FLOOR - _TOP), 1.5), 2)
            hint = el("title", f"{edge(number)} to {edge(number + 1)}{unit}: {count:,}")
            x, y, width = round(number * step + 0.75, 2), round(_FLOOR - height, 2), round(step - 1.5, 2)
            yield el("rect", hint, class_="bar", x=x, y=y, width=width, height=height, rx=1)


def _draw_percentile(number: int, title: str, x: float) -> Iterator[Nodes]:
    is_late = x > _WIDTH - 30
    text_x, anchor = (x - 3, "end") if is_late else (x + 3, "start")
    yield _upright("percentile", x, 10 * number)
    yield el("text", title, x=round(text_x, 2), y=10 * number + 8, text_anchor=anchor)


def _upright(kind: str, x: float, top: float = 0) -> Element:
    return _line(kind, x, top, x, _FLOOR)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Element:
    return el("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2)


def _render_end(value: float) -> str:
    """Return the end of a scale."""
    decimals = 0 if abs(value) >= 10 or value == int(value) else 2
    return f"{value:,.{decimals}f}"
