"""The report for spreadsheets and data frames: CSV (RFC 4180), a row for each sample, asking and metric.

UTF-8 without a byte order mark, which most readers would take for a part of the first column's name.
"""

import csv
from io import StringIO
from typing import Any

from evalspec.foreign_text import visible
from evalspec.model import Run
from evalspec.reporters.base import Reporter, StoredExchanges
from evalspec.reporters.rows import (
    COLUMNS,
    cause_column,
    identify,
    read_attempts,
    score_columns,
    score_rows,
    timing_columns,
    to_json,
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a text for a formula; the full-width forms do in East Asian locales."""


def render_csv(run: Run, exchanges: StoredExchanges) -> bytes:
    """The table with its header. What is not known is an empty cell, whatever the column."""
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
    """Numbers as they are; lists and objects as JSON; a text that a spreadsheet would compute after an apostrophe."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else to_json(value)
    return visible(f"'{text}" if text.startswith(_FORMULA) else text)


CSV = Reporter("csv", (".csv",), render_csv)
