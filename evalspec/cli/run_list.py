"""The list of stored runs: verdicts, values, and the trend of the newest run's values."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.foreign_text import cut, inert
from evalspec.base.plural import counted
from evalspec.model.listed_runs import ListedValue, RunStatus, StoredRunEntry
from evalspec.runs.store.run_rows import read_row, read_values
from evalspec.runs.store.run_store import RunStore

_WITH_VALUES = 50
"""Number of newest runs whose values are read and shown."""
_METRICS_SHOWN, _DATASETS_SHOWN = 3, 3
_STATES = {
    RunStatus.FINISHED: "finished",
    RunStatus.RUNNING: "running",
    RunStatus.INTERRUPTED: "unfinished",
    RunStatus.DAMAGED: "unreadable",
}
_BARS = "▁▂▃▄▅▆▇█"
_LEAST_SPAN = 0.05
"""Share of the largest value that fills the height of a trend at least, so that noise does not look like a change."""


def list_entries(store: RunStore) -> list[StoredRunEntry]:
    """Return an entry per run, newest first, the newest ones with their values. That of a damaged run has the error."""
    labels: dict[str, list[str]] = {}
    for name, folder in store.labels().items():
        labels.setdefault(folder.name, []).append(name)
    return [
        replace(_read_entry(folder, has_values=place < _WITH_VALUES), labels=tuple(labels.get(folder.name, ())))
        for place, folder in enumerate(store.list_all())
    ]


def _read_entry(folder: Path, *, has_values: bool) -> StoredRunEntry:
    row = read_row(folder)
    if not has_values:
        return row.entry
    values = read_values(folder, row.recorded)
    datasets = (replace(one, metrics=values.get(one.name, {})) for one in row.entry.datasets)
    return replace(row.entry, datasets=tuple(datasets))


def render_run(run: StoredRunEntry, width: int) -> Iterator[str]:
    """Yield a run as lines: one if it fits the width, else its parts below each other."""
    parts = [inert(part) for part in (*_list_datasets(run), " ".join(run.labels), run.error or "") if part]
    state = run.verdict or _STATES[run.status]
    state += " (PARTIAL)" if run.partial else ""
    whole = "  ".join([inert(run.id), f"{state:<10}", *parts]).rstrip()
    if len(whole) <= width:
        yield whole
        return
    head = f"{inert(run.id)}  {state}"
    yield head if len(head) <= width else head.replace("  ", " ")
    yield from (f"  {line}" for part in parts for line in _wrap(part, max(width - 2, 1)))


def _list_datasets(run: StoredRunEntry) -> Iterator[str]:
    for dataset in run.datasets:
        name = dataset.name
        asked = f" with retriever {run.retrievers[name]}" if name in run.retrievers else ""
        known = [f"{metric} {_render_value(one)}" for metric, one in dataset.metrics.items() if one.scored]
        values = ", ".join(known[:_METRICS_SHOWN])
        yield f"{name}: {counted(dataset.selected, 'sample')}{asked}" + (f", {values}" if values else "")


def list_trends(runs: Sequence[StoredRunEntry], width: int) -> Iterator[str]:
    """Yield the trends of the newest run's values over all runs that measured the same, oldest first."""
    newest = next((run for run in runs if any(one.metrics for one in run.datasets)), None)
    if newest is None:
        return
    measured = [one.name for one in newest.datasets if one.metrics]
    for dataset in measured[:_DATASETS_SHOWN]:
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


def _find_series(
    runs: Sequence[StoredRunEntry], newest: StoredRunEntry, dataset: str
) -> list[tuple[str, list[float], int]]:
    """Return the first metrics with several values of the newest run's series, and how many runs are in it.

    A value over only some of the samples is none.
    """
    asked = newest.retrievers.get(dataset)
    alike = [_values_of(run, dataset) for run in reversed(runs) if run.retrievers.get(dataset) == asked]
    found = []
    for metric, wanted in _values_of(newest, dataset).items():
        read = [one for values in alike if (one := values.get(metric)) and one.series == wanted.series is not None]
        known = [one.value for one in read if one.value is not None and not _is_partial(one)]
        found += [(metric, known, len(read))] if len(known) > 1 else []
    return found[:_METRICS_SHOWN]


def _values_of(run: StoredRunEntry, dataset: str) -> Mapping[str, ListedValue]:
    return next((one.metrics for one in run.datasets if one.name == dataset), {})


def render_trend(values: Sequence[float]) -> str:
    """Return values as bars."""
    low, high = min(values), max(values)
    span = max(high - low, _LEAST_SPAN * max(abs(low), abs(high))) or 1.0
    return "".join(_BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)] for value in values)


def _render_value(one: ListedValue) -> str:
    """Return a value, with the number of its samples if some are missing."""
    shown = "–" if one.value is None else _render(one.value)
    return f"{shown} ({one.scored:,}/{one.expected:,} scored)" if _is_partial(one) else shown


def _is_partial(one: ListedValue) -> bool:
    return one.scored < one.expected


def _render(value: float) -> str:
    decimals = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:,.{decimals}f}"


def _wrap(text: str, width: int) -> Iterator[str]:
    from textwrap import wrap

    yield from wrap(text, width) or [text]
