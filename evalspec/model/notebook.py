"""A run in a notebook: as HTML, and as a data frame."""

from collections.abc import Iterator
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from evalspec.model.runs import Run


def build_frame(run: Run, library: Literal["pandas", "polars"] | None) -> Any:
    """Return a data frame with a row for each sample; see `Run.to_frame`.

    Raises:
        ImportError: The library is not installed.
    """
    metrics = dict.fromkeys(metric for dataset in run.datasets for metric in dataset.metrics)
    rows = [
        {"dataset": dataset.name, "id": sample.id, "status": str(sample.status), "latency_ms": sample.latency_ms}
        | {metric: score.value if (score := sample.scores.get(metric)) else None for metric in metrics}
        for dataset in run.datasets
        for sample in dataset.samples
    ]
    name = library or ("pandas" if find_spec("pandas") else "polars")
    return import_module(name).DataFrame(rows)


def render_notebook(run: Run) -> str:
    """Return verdict, reasons and a table of the metrics as HTML."""
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in _list_values(run))
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in run.reasons)
    head = "<tr><th>dataset</th><th>metric</th><th>value</th><th>95 % interval</th><th>scored</th></tr>"
    return f"<b>{run.verdict_text}</b> {escape(run.id)}<ul>{reasons}</ul><table>{head}{rows}</table>"


def _list_values(run: Run) -> Iterator[tuple[str, ...]]:
    for dataset in run.datasets:
        for metric, found in dataset.metrics.items():
            value = "–" if found.value is None else f"{found.value:.4g}"
            interval = "–" if found.interval is None else " – ".join(f"{bound:.4g}" for bound in found.interval)
            yield dataset.name, metric, value, interval, f"{found.scored}/{found.expected}"
