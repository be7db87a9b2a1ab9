"""What `evalspec score` measured, as tables for people."""

from evalspec.api.scoring import MEAN, SHARES, Scored, show


def render_queries(scored: Scored) -> str:
    """A table with a line for each query and a column for each metric."""
    names = [show(query) for query in scored.measured.queries]
    width = max(map(len, ["query", *names]))
    widths = [max(8, len(metric)) for metric in scored.columns]
    head = [f"{metric:>{size}}" for metric, size in zip(scored.columns, widths, strict=True)]
    lines = ["  ".join([f"{'query':<{width}}", *head])]
    for name, row in zip(names, zip(*scored.columns.values(), strict=True), strict=True):
        lines.append("  ".join([f"{name:<{width}}", *map(_cell, row, widths)]))
    return "\n".join([*lines, ""])


def render_summary(scored: Scored, *, with_interval: bool) -> str:
    """A table with the mean of each metric and the number of queries that it is taken over."""
    from evalspec.stats import compute_statistic
    from evalspec.validity.estimates import estimate

    width = max(map(len, ["metric", *scored.columns]))
    lines = [f"{'metric':<{width}}   value{'     95 % interval' if with_interval else ''}  queries"]
    for metric, column in scored.columns.items():
        values = [value for value in column if value is not None]
        mean = compute_statistic(values, MEAN) if values else None
        interval = estimate(values, MEAN, SHARES).interval if with_interval else None
        shown = f"  {_cell(interval[0], 6)} – {_cell(interval[1], 6)}" if interval else " " * 17 * with_interval
        lines.append(f"{metric:<{width}}  {_cell(mean, 6)}{shown}  {len(values):>7,}")
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.4f}':>{width}}"
