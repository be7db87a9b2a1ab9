"""The report for spreadsheets and data frames: CSV (RFC 4180) with a row for each sample, attempt and metric.

UTF-8 without a byte order mark, which most readers would read as part of the first column's name.
"""

import csv
from io import StringIO
from typing import Any

from evalspec.base.foreign_text import visible
from evalspec.model import Run
from evalspec.reports.base import Reporter, StoredExchanges
from evalspec.reports.rows import (
    COLUMNS,
    cause_column,
    identify,
    read_attempts,
    score_columns,
    score_rows,
    timing_columns,
    to_json,
)

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Prefixes that spreadsheets treat as formulas. Full-width forms are for East Asian locales."""


def render_csv(run: Run, exchanges: StoredExchanges) -> bytes:
    """Return the table with its header. Unknown values are empty cells."""
    stream = StringIO(newline="")
    rows = csv.writer(stream)
    rows.writerow(COLUMNS)
    for attempt_row in read_attempts(run, exchanges):
        about, timings = _cells(identify(run, attempt_row)), _cells(timing_columns(attempt_row))
        for metric, score in score_rows(attempt_row):
            rows.writerow([*about, *_cells(score_columns(metric, score)), *timings, *_cells(cause_column(score))])
    return stream.getvalue().encode()


def _cells(columns: dict[str, Any]) -> list[Any]:
    return [_cell(value) for value in columns.values()]


def _cell(value: Any) -> Any:
    """Return the value of a cell.

    Numbers are unchanged. Lists and objects become JSON. Text that a spreadsheet would evaluate gets an apostrophe.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else to_json(value)
    return visible(f"'{text}" if text.startswith(FORMULA) else text)


CSV = Reporter("csv", (".csv",), render_csv)
