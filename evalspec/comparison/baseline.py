"""Read and write baselines: small files for git with the scores that later runs are compared with, but no sample texts.

A baseline has one line per sample, ordered by id, so a diff shows the changed samples.
"""

import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, to_builtins

from evalspec.attempts import combine_scores
from evalspec.errors import InvalidInput, Problem
from evalspec.json_text import render_line
from evalspec.model import (
    Attempt,
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
)
from evalspec.model.base import Interval, Number, Record, Statistic
from evalspec.model.fingerprints import Described
from evalspec.output_files import is_stream
from evalspec.summary import compute_summary, pool_scores
from evalspec.typed_json import check_version, convert, malformed, parse_document, read_bytes

KIND = "evalspec baseline"
FOLDER = Path("evals") / "baselines"

_KEPT = (
    "startedAt",
    "datasets",
    "selection",
    "repeats",
    "judge",
    "judgeSha256",
    "judgeRefused",
    "embeddingsSha256",
    "versions",
    "bestOf",
)
_OF_DATASET = ("name", "sha256", "available", "selected", "selectionSha256", "metricIdentities")
_WITHHELD = "not kept in a baseline"

_Value = Number | ScoreStatus
"""A score's value, or its status if it has none."""


class _Metric(Record, frozen=True):
    statistic: Statistic
    direction: Direction
    bounds: Interval | None = None


class _Sample(Record, frozen=True, kw_only=True):
    """`scores`: lists if there are several attempts. `passes`: whether each attempt passed."""

    id: str
    digest: str | None = None
    status: SampleStatus
    pass_rate: Number | None
    scores: Mapping[str, _Value | Annotated[tuple[_Value, ...], Meta(min_length=1)]]
    passes: tuple[bool | None, ...] | UnsetType = UNSET


class _Dataset(Record, frozen=True):
    name: str
    metrics: Mapping[str, _Metric]
    samples: tuple[_Sample, ...]


class _Baseline(Record, frozen=True):
    run_id: str
    fingerprint: Mapping[str, Any]
    datasets: tuple[_Dataset, ...]


def baseline_path(manifest_folder: Path, name: str) -> Path:
    """Return the path of a baseline: `evals/baselines/<name>.json` beside the manifest.

    A name with a path separator, or that ends with .json, is a path relative to the manifest's folder.
    """
    separators = {os.sep, os.altsep or os.sep, "/"}
    if name.endswith(".json") or any(separator in name for separator in separators):
        return manifest_folder / name
    return manifest_folder / FOLDER / f"{name}.json"


def render_baseline(run: Run) -> str:
    """Return the baseline file of a run. The same run always gives the same text.

    Raises:
        InvalidInput: the run has no samples to compare with.
    """
    if not any(dataset.samples for dataset in run.datasets):
        raise InvalidInput(f"run {run.id} has no scores per sample", "promote a run of `evalspec evaluate`")
    head = {
        "schemaVersion": 1,
        "kind": KIND,
        "runId": run.id,
        "fingerprint": _fingerprint(run.fingerprint),
    }
    lines = [f"{render_line(key)}: {render_line(value)}" for key, value in head.items()]
    datasets = ",\n".join(_render_dataset(dataset) for dataset in run.datasets)
    return "{\n" + ",\n".join(lines) + f',\n"datasets": [\n{datasets}\n]\n}}\n'


def build_baseline(document: Mapping[str, Any], shown_as: str) -> Run:
    """Return the run of a parsed baseline file. It has values of metrics, but no thresholds.

    Raises:
        InvalidInput: this version does not understand the baseline.
    """
    check_version(document, shown_as)
    convert(document, Described, shown_as)
    baseline = convert(document, _Baseline, shown_as)
    datasets = []
    for number, dataset in enumerate(baseline.datasets):
        try:
            datasets.append(_build_dataset(dataset))
        except ValueError as error:
            raise malformed(str(error), shown_as, f"datasets[{number}].samples") from error
    return Run(id=baseline.run_id, datasets=tuple(datasets), fingerprint=baseline.fingerprint, has_texts=False)


def refuse_missing(path: Path) -> InvalidInput:
    """Return the error for a missing baseline."""
    return InvalidInput(
        Problem("there is no such baseline", f"create it with `evalspec runs promote RUN --as {path.stem}`", str(path))
    )


def refuse_other_file(path: Path) -> None:
    """Check that a baseline overwrites only another baseline.

    Raises:
        InvalidInput: the file exists and is not a promoted baseline; it may be a report.
    """
    if is_stream(path) or not path.exists():
        return
    try:
        kind = parse_document(read_bytes(path), str(path)).get("kind")
    except InvalidInput:
        kind = None
    if kind != KIND:
        fix = "choose another name, or move the file away"
        raise InvalidInput(Problem("this file exists and is not a promoted baseline", fix, str(path), field="--as"))


def _fingerprint(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a fingerprint that decide comparability, without paths or addresses except the judge's."""
    kept = {key: given[key] for key in _KEPT if key in given}
    if isinstance(kept.get("datasets"), list):
        kept["datasets"] = [{key: entry[key] for key in _OF_DATASET if key in entry} for entry in kept["datasets"]]
    return kept


def _render_dataset(dataset: DatasetResult) -> str:
    metrics = {
        metric: _Metric(summary.statistic, summary.direction, summary.bounds)
        for metric, summary in dataset.metrics.items()
    }
    ordered = sorted(dataset.samples, key=lambda sample: sample.id)
    samples = ",\n".join(render_line(to_builtins(_describe(sample))) for sample in ordered)
    head = f'"name": {render_line(dataset.name)},\n"metrics": {render_line(to_builtins(metrics))}'
    return f'{{{head},\n"samples": [\n{samples}\n]}}'


def _describe(sample: SampleResult) -> _Sample:
    return _Sample(
        id=sample.id,
        digest=sample.digest,
        status=sample.status,
        pass_rate=sample.pass_rate,
        scores={metric: _describe_score(sample, metric) for metric in sample.scores},
        passes=tuple(attempt.passed for attempt in sample.attempts) if sample.attempts else UNSET,
    )


def _describe_score(sample: SampleResult, metric: str) -> _Value | tuple[_Value, ...]:
    if sample.attempts:
        return tuple(_value(attempt.scores.get(metric)) for attempt in sample.attempts)
    return _value(sample.scores[metric])


def _value(score: Score | None) -> _Value:
    if score is None:
        return ScoreStatus.FAILED
    return score.status if score.value is None else score.value


def _build_dataset(dataset: _Dataset) -> DatasetResult:
    samples = tuple(_build_sample(sample, dataset) for sample in dataset.samples)
    return DatasetResult(
        name=dataset.name,
        metrics={
            name: compute_summary(
                pool_scores(samples, name, metric.statistic)[0], metric.statistic, metric.direction, None, metric.bounds
            )
            for name, metric in dataset.metrics.items()
        },
        samples=samples,
    )


def _build_sample(sample: _Sample, dataset: _Dataset) -> SampleResult:
    """Return the scored sample, without texts.

    Raises:
        ValueError: it lacks a score of a metric of the dataset.
    """
    for name in dataset.metrics.keys() - sample.scores.keys():
        raise ValueError(f"sample {sample.id} has no score for {name}")
    attempts = _build_attempts(sample)
    for name, metric in dataset.metrics.items():
        if attempts and metric.statistic != "mean" and not isinstance(sample.scores[name], tuple):
            raise ValueError(f"sample {sample.id} has no list of attempts for {name}")
        _refuse_impossible(sample, name, metric)
    return SampleResult(
        id=sample.id,
        status=sample.status,
        error=_WITHHELD if sample.status is SampleStatus.FAILED else None,
        scores={name: _build_score(value) for name, value in sample.scores.items()},
        pass_rate=sample.pass_rate,
        attempts=attempts,
        digest=sample.digest,
    )


def _build_attempts(sample: _Sample) -> tuple[Attempt, ...]:
    """Return the attempts with their scores, and whether each passed. The oldest files have only percentiles."""
    kept = {name: values for name, values in sample.scores.items() if isinstance(values, tuple)}
    passes = () if sample.passes is UNSET else sample.passes
    lengths = {len(values) for values in [*kept.values(), *([passes] if passes else [])]}
    if len(lengths) > 1:
        raise ValueError(f"the lists of attempts of sample {sample.id} differ in length")
    count = max(lengths, default=0)
    return tuple(
        Attempt(
            SampleStatus.ANSWERED,
            scores={name: _build_score(values[place]) for name, values in kept.items()},
            passed=passed,
        )
        for place, passed in enumerate(passes or [None] * count)
    )


def _refuse_impossible(sample: _Sample, name: str, metric: _Metric) -> None:
    low, high = metric.bounds or (-inf, inf)
    given = sample.scores[name]
    for value in given if isinstance(given, tuple) else (given,):
        if isinstance(value, float) and not low <= value <= high:
            raise ValueError(f"{name} of sample {sample.id} is {value:g}, outside {low:g} to {high:g}")


def _build_score(value: _Value | tuple[_Value, ...]) -> Score:
    """Return the score of a value. Several values are combined like attempts.

    Raises:
        ValueError: a status that requires a value has none.
    """
    if isinstance(value, tuple):
        return combine_scores([_build_score(part) for part in value])
    return Score(value, reason=_WITHHELD) if isinstance(value, ScoreStatus) else Score.scored(value)
