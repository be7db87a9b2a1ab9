"""MLflow: a run with parameters, metrics, their intervals and counts, the verdict and statuses as tags, and reports."""

import asyncio
import math
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.foreign_text import cut, encodable
from evalspec.base.plural import counted
from evalspec.base.text import shorten_name
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.model import DatasetResult, Run, Summary
from evalspec.reports.base import StoredExchanges, reporter_for
from evalspec.reports.exports.base import Exporter, iterate_batches
from evalspec.reports.exports.connecting import connect
from evalspec.targets.http.failures import shown_url
from evalspec.verdict.wording import render_limit

_AT_ONCE = 100
"""The most parameters or tags of one request."""
_MOST_CHARACTERS = 5_000
_LONGEST_NAME = 150
_FORBIDDEN = re.compile(r"[^\w. -]|^\.")
_VARIABLES = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""How its client behaves. It prints on stdout, and sends its usage to its makers."""


async def send_run(run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    """Create a run of MLflow. Its status is FINISHED only if the exit code is 0; a run with a verdict is complete."""
    async with connect("mlflow", to) as connection:  # its own client takes minutes to say that nothing is there
        try:
            await connection.request("GET", "/health")
        except ServiceError as error:
            if error.status is None:
                raise
    return await asyncio.to_thread(_send, run, exchanges, to)


def _send(run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    timeout = {"MLFLOW_HTTP_REQUEST_TIMEOUT": str(math.ceil(to.timeout_seconds))}
    for name, value in (_VARIABLES | timeout).items():
        os.environ.setdefault(name, value)
    mlflow = import_module("mlflow")
    try:
        return _log_run(mlflow, mlflow.MlflowClient(tracking_uri=to.url), run, exchanges, to)
    except mlflow.MlflowException as error:
        raise ServiceError(f"MLflow did not take the run: {cut(str(error), _MOST_CHARACTERS)}") from error


def _log_run(mlflow: Any, client: Any, run: Run, exchanges: StoredExchanges, to: ExportConfig) -> str:
    experiment = _find_experiment(client, to.name or run.fingerprint.agent_name or "evalspec")
    started = run.fingerprint.started_at
    begun = datetime.fromisoformat(started).timestamp() if started else time.time()
    created = client.create_run(experiment, start_time=int(begun * 1000), run_name=run.id).info.run_id
    try:
        metrics = _log_values(mlflow.entities, partial(client.log_batch, created), run)
        for name in ("report.json", "report.html"):
            client.log_text(created, encodable(str(reporter_for(Path(name)).render(run, exchanges))), name)
        for key, value in _describe_verdict(run).items():
            client.set_tag(created, key, _text(value))
    except BaseException:
        with suppress(mlflow.MlflowException):  # the error that is raised says more
            client.set_terminated(created, "KILLED")
        raise
    client.set_terminated(created, "FINISHED" if run.exit_code == 0 else "FAILED")
    return f"{counted(metrics, 'metric')} to {shown_url(to.url).rstrip('/')}/#/experiments/{experiment}/runs/{created}"


def _find_experiment(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


def _log_values(entities: Any, log: Any, run: Run) -> int:
    """Log parameters, metrics and tags, and return the number of metrics."""
    now = int(time.time() * 1000)
    numbers: dict[str, float] = {}
    tags: dict[str, str] = {}
    for dataset in run.datasets:
        for metric, summary in dataset.metrics.items():
            name = f"{_name(dataset.name)}/{_name(metric)}"
            if f"{name}.status" in tags:
                raise ServiceError(f"two metrics would have the name {name} in MLflow; rename a dataset or a metric")
            numbers |= {f"{name}{end}": value for end, value in _list_numbers(summary).items() if value is not None}
            tags |= {f"{name}.{key}": text for key, text in _list_tags(dataset, metric, summary).items() if text}
    for batch in iterate_batches(_list_parameters(run).items(), _AT_ONCE):
        log(params=[entities.Param(key, _text(value)) for key, value in batch])
    for batch in iterate_batches(numbers.items(), _AT_ONCE):
        log(metrics=[entities.Metric(key, float(value), now, 0) for key, value in batch])
    for batch in iterate_batches(tags.items(), _AT_ONCE):
        log(tags=[entities.RunTag(key, _text(value)) for key, value in batch])
    return sum(len(dataset.metrics) for dataset in run.datasets)


def _list_numbers(summary: Summary) -> Mapping[str, float | None]:
    low, high = summary.interval or (None, None)
    counts = {f".{name}": getattr(summary, name) for name in ("scored", "failed", "skipped", "not_applicable", "units")}
    return {"": summary.value, ".low": low, ".high": high, **counts}


def _list_tags(dataset: DatasetResult, metric: str, summary: Summary) -> Mapping[str, str | None]:
    """Return what numbers cannot say: why there is none, and whether a limit is met."""
    limit = dataset.own_threshold(metric)
    without = "failed" if summary.failed else "skipped" if summary.skipped else "not applicable"
    return {
        "status": without if summary.value is None else "scored",
        "no_interval": summary.no_interval,
        "limit": None if limit is None else f"{limit.status}: {render_limit(limit)}",
    }


def _describe_verdict(run: Run) -> dict[str, Any]:
    reasons = {"evalspec.reasons": "\n".join(run.reasons)} if run.reasons else {}
    told = {"evalspec.run": run.id, "evalspec.partial": run.partial, "evalspec.exit_code": run.exit_code}
    return {**told, **reasons, "evalspec.verdict": str(run.verdict)}


def _list_parameters(run: Run) -> dict[str, Any]:
    known = run.fingerprint
    found = {
        "agent": known.agent_name,
        "agent.version": known.agent and known.agent.version,
        "manifest": known.manifest and known.manifest.path,
        "manifest.sha256": known.manifest and known.manifest.sha256,
        "judge": known.judge and known.judge.model,
        "repeats": known.attempts,
        "seed": known.selection and known.selection.seed,
        "sample_size": known.selection and known.selection.sample_size,
    }
    for dataset in known.datasets:
        of_dataset = {"file": dataset.file, "sha256": dataset.sha256, "selected": dataset.selected}
        found |= {f"{_name(dataset.name)}.{key}": value for key, value in of_dataset.items()}
    versions = {f"version.{_name(package)}": version for package, version in known.versions.items()}
    return {key: value for key, value in (found | versions).items() if value is not None}


def _name(text: str) -> str:
    """Return a name of a dataset or metric in the characters that MLflow permits: `Recall at 5` for `Recall@5`."""
    spelled = {"@": " at ", "^": " hat "}
    name = _FORBIDDEN.sub(lambda found: spelled.get(found[0]) or f"_{ord(found[0]):x}_", text)
    return shorten_name(name, _LONGEST_NAME)


def _text(value: Any) -> str:
    return encodable(cut(str(value), _MOST_CHARACTERS))


MLFLOW = Exporter("mlflow", send_run, imports=("mlflow",), extra="mlflow", connects_itself=True)
