"""The comparison with the baseline in the Markdown report."""

from collections.abc import Sequence

from evalspec.records import RegressionOutcome
from evalspec.reporters.markdown_parts import cell, table
from evalspec.reporters.wording import UNKNOWN, mark_regression, render_value

_LONGEST_REASON = 200
_ROWS_SHOWN = 60


def render_regressions(regressions: Sequence[RegressionOutcome]) -> str:
    """What became of each metric, under its own heading."""
    header = ("dataset", "metric", "baseline:", "candidate:", "delta:", "pairs:", "")
    rows = (_regression_cells(outcome) for outcome in regressions)
    return f"### Against the baseline\n\n{table(header, rows, _ROWS_SHOWN)}"


def _regression_cells(outcome: RegressionOutcome) -> list[str]:
    metric = outcome.metric or ""

    def value(number: float | None, sign: str = "") -> str:
        if number is None:
            return UNKNOWN
        return f"{sign if number > 0 else ''}{render_value(metric, number)}"

    return [
        cell(outcome.dataset) if outcome.dataset else "",
        cell(metric) if metric else "baseline" if outcome.of_baseline else "samples that fail newly",
        value(outcome.baseline),
        value(outcome.candidate),
        value(outcome.delta, "+"),
        f"{outcome.pairs:,}" if metric else "",
        f"{mark_regression(outcome)} {cell(outcome.reason, _LONGEST_REASON) if outcome.reason else ''}".rstrip(),
    ]
