"""What the page of a run shows, without its samples: derived from the run's files once, and kept beside its index."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from evalspec.errors import StoreError
from evalspec.model import JudgeUsage, Run
from evalspec.reporters.html_report.overview import describe_charts
from evalspec.reporters.view.fit import Limits, fit_view
from evalspec.reporters.view.parts import View
from evalspec.reporters.view.run import build_view
from evalspec.reporters.wording import UNKNOWN, render_usage
from evalspec.store.derived import derived_folder, sign_run
from evalspec.store.files import PRIVATE_FILE, PRIVATE_FOLDER, store_errors
from evalspec.store.stored_run import StoredRun, open_run

_NAME = "page.json"
_LIMITS = Limits(other_rows=1000, items=20, reasons=200, notes=100, extras=12)
"""How much of a view is kept. Longer tables are in the report forms, which the page offers."""
_MOST_FACTS = 200
_MOST_CHARTS = 24


class DatasetCharts(Struct, frozen=True):
    """The distributions of a dataset, as `describe_charts` returns them. `more`: number of omitted charts."""

    dataset: str
    file: str | None
    charts: tuple[Mapping[str, Any], ...]
    latencies: Mapping[str, Any] | None
    more: int = 0


class RunContent(Struct, frozen=True):
    """Everything on the page of a run. `signature`: of the files that it was read from. `facts`: the run's metadata."""

    signature: str
    agent: str | None
    started_at: str | None
    verdict: str
    exit_code: int
    partial: bool
    has_texts: bool
    samples: int
    view: View
    charts: tuple[DatasetCharts, ...]
    usages: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]


def load_content(folder: Path) -> RunContent | None:
    """Return the kept content of a run. None: there is none, or the run's files have changed since.

    Raises:
        StoreError: The files of the run cannot be examined.
    """
    try:
        content = _path_of(folder).read_bytes()
        found = _decode(content)
    except (OSError, ValueError, msgspec.MsgspecError):  # it is derived again
        return None
    return found if found.signature == sign_run(folder) else None


def write_content(folder: Path) -> RunContent:
    """Derive the content of a run, keep it and return it.

    Raises:
        StoreError: The run is damaged, or the content cannot be written.
    """
    signature = sign_run(folder)
    content = build_content(read_run(open_run(folder)), signature)
    path = _path_of(folder)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    with store_errors(path):
        path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        written.touch(PRIVATE_FILE)
        written.write_bytes(_encode(content))
        written.replace(path)
    if sign_run(folder) != signature:  # perhaps texts were erased, which the file still has
        path.unlink(missing_ok=True)
        raise StoreError(f"{folder}: the run has changed meanwhile. try again")
    return content


def read_run(stored: StoredRun) -> Run:
    """Return the run of the report. An interrupted run is reconstructed from its log.

    Raises:
        StoreError: The run is damaged.
    """
    from evalspec.reporters.report_reading import read_report
    from evalspec.runner.reread import conclude_stored
    from evalspec.store.damage import refuse_damage

    refuse_damage(stored)
    return read_report(stored.report) if stored.report.is_file() else conclude_stored(stored)


def build_content(run: Run, signature: str) -> RunContent:
    """Return what the page of a run shows."""
    agent = run.fingerprint.get("agent", {}).get("name")
    started_at = run.fingerprint.get("startedAt")
    facts = tuple(_flatten(run.fingerprint))
    return RunContent(
        signature,
        None if agent is None else str(agent),
        None if started_at is None else str(started_at),
        str(run.verdict),
        int(run.exit_code),
        run.partial,
        run.has_texts,
        sum(dataset.selected for dataset in run.datasets),
        fit_view(build_view(run), _LIMITS),
        tuple(_list_charts(run)),
        tuple((metric, render_usage(usage)) for metric, usage in run.judge_usage.items() if usage != JudgeUsage()),
        facts[:_MOST_FACTS],
    )


def _list_charts(run: Run) -> Iterator[DatasetCharts]:
    for dataset in run.datasets:
        found = describe_charts(dataset)
        charts = [chart for chart in found["charts"] if chart["histogram"]]
        more = max(len(charts) - _MOST_CHARTS, 0)
        yield DatasetCharts(dataset.name, dataset.file, tuple(charts[:_MOST_CHARTS]), found["latencies"], more)


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested data as names like `judge.model` with their values."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        for number, item in enumerate(value):
            yield from _flatten(item, f"{path}[{number}]")
    else:
        yield path, value if isinstance(value, str) else UNKNOWN if value is None else json.dumps(value)


def _path_of(folder: Path) -> Path:
    return derived_folder(folder) / _NAME


def _encode(content: RunContent) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(msgspec.to_builtins(content)).encode()


def _decode(content: bytes) -> RunContent:
    try:
        return msgspec.json.decode(content, type=RunContent)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.convert(json.loads(content), RunContent)
