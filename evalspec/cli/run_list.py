"""The list of stored runs: verdicts, values, and the trend of the newest run's values."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.foreign_text import cut, inert
from evalspec.base.plural import counted
from evalspec.runs.store.run_rows import RunRow, StoredValue, read_row, read_values
from evalspec.runs.store.run_store import RunStore

_WITH_VALUES = 50
"""Number of newest runs whose values are read and shown."""
_METRICS_SHOWN, _DATASETS_SHOWN = 3, 3
_BARS = "▁▂▃▄▅▆▇█"
_LEAST_SPAN = 0.05
"""Share of the largest value that fills the height of a trend at least, so that noise does not look like a change."""


class ShownRun(Struct, frozen=True):
    """A run of the list. `values`: by dataset and metric, those with a threshold first."""

    row: RunRow
    labels: Sequence[str]
    values: dict[str, dict[str, StoredValue]]

    def to_document(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        row = self.row
        head = {"id": row.id, "state": row.state, "partial": row.partial}
        read = {} if row.started_at is None else {"startedAt": row.started_at, "retrievers": row.retrievers}
        known = {name: {metric: one.value for metric, one in own.items()} for name, own in self.values.items()}
        values = {"values": known} if known else {}
        error = {} if row.error is None else {"error": row.error}
        datasets = {one.name: one.selected for one in row.recorded.datasets}
        return {**head, **read, "datasets": datasets, **values, "labels": list(self.labels), **error}


def describe_runs(store: RunStore) -> list[ShownRun]:
    """Return a row per run, newest first. The row of an unreadable run has the error."""
    labels: dict[str, list[str]] = {}
    for name, folder in store.labels().items():
        labels.setdefault(folder.name, []).append(name)
    folders = store.list_all()
    rows = map(read_row, folders)
    return [
        ShownRun(
            row,
            labels.get(folder.name, []),
            read_values(folder, row.recorded) if place < _WITH_VALUES else {},
        )
        for place, (folder, row) in enumerate(zip(folders, rows, strict=True))
    ]


def render_run(run: ShownRun, width: int) -> Iterator[str]:
    """Yield a run as lines: one if it fits the width, else its parts below each other."""
    row = run.row
    parts = [inert(part) for part in (*_list_datasets(run), " ".join(run.labels), row.error or "") if part]
    state = inert(row.state) + (" (PARTIAL)" if row.partial else "")
    whole = "  ".join([inert(row.id), f"{state:<10}", *parts]).rstrip()
    if len(whole) <= width:
        yield whole
        return
    head = f"{inert(row.id)}  {state}"
    yield head if len(head) <= width else head.replace("  ", " ")
    yield from (f"  {line}" for part in parts for line in _wrap(part, max(width - 2, 1)))


def _list_datasets(run: ShownRun) -> Iterator[str]:
    for dataset in run.row.recorded.datasets:
        name = dataset.name
        asked = f" with retriever {run.row.retrievers[name]}" if name in run.row.retrievers else ""
        known = [f"{metric} {_render_value(one)}" for metric, one in run.values.get(name, {}).items() if one.scored]
        values = ", ".join(known[:_METRICS_SHOWN])
        yield f"{name}: {counted(dataset.selected, 'sample')}{asked}" + (f", {values}" if values else "")


def list_trends(runs: Sequence[ShownRun], width: int) -> Iterator[str]:
    """Yield the trends of the newest run's values over all runs that measured the same, oldest first."""
    newest = next((run for run in runs if run.values), None)
    if newest is None:
        return
    for dataset in list(newest.values)[:_DATASETS_SHOWN]:
        series = _find_series(runs, newest, dataset)
        if series:
            yield ""
            count = max(alike for _, _, alike in series)
            said = f"{dataset}, {count} runs on the same samples, oldest first"
            is_short = any(len(values) < count for _, values, _ in series)
            said += "; values over only some of them, or measured differently, are left out" if is_short else ""
            yield inert(cut(said, width))
        room = max((len(metric) for metric, _, _ in series), default=0)
        for metric, values, _ in series:
            ends = f"{_render(values[0])} → {_render(values[-1])}"
            line = f"  {inert(metric):<{room}}  {render_trend(values)}  {ends}"
            yield line if len(line) <= width else f"  {inert(cut(metric, width - 2))}"
            if len(line) > width:
                drawn = render_trend(values[-max(width - len(ends) - 6, 1) :])
                yield f"    {drawn}  {ends}"


def _find_series(runs: Sequence[ShownRun], newest: ShownRun, dataset: str) -> list[tuple[str, list[float], int]]:
    """Return the first metrics with several values of the newest run's series, and how many runs are in it.

    A value over only some of the samples is none.
    """
    asked = newest.row.retrievers.get(dataset)
    alike = [run.values.get(dataset, {}) for run in reversed(runs) if run.row.retrievers.get(dataset) == asked]
    found = []
    for metric, wanted in newest.values[dataset].items():
        read = [one for values in alike if (one := values.get(metric)) and one.series == wanted.series is not None]
        known = [one.value for one in read if one.value is not None and not _is_partial(one)]
        found += [(metric, known, len(read))] if len(known) > 1 else []
    return found[:_METRICS_SHOWN]


def render_trend(values: Sequence[float]) -> str:
    """Return values as bars."""
    low, high = min(values), max(values)
    span = max(high - low, _LEAST_SPAN * max(abs(low), abs(high))) or 1.0
    return "".join(_BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)] for value in values)


def _render_value(one: StoredValue) -> str:
    """Return a value, with the number of its samples if some are missing."""
    shown = "–" if one.value is None else _render(one.value)
    return f"{shown} ({one.scored:,}/{one.expected:,} scored)" if _is_partial(one) else shown


def _is_partial(one: StoredValue) -> bool:
    return one.scored < one.expected


def _render(value: float) -> str:
    decimals = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:,.{decimals}f}"


def _wrap(text: str, width: int) -> Iterator[str]:
    from textwrap import wrap

    yield from wrap(text, width) or [text]
