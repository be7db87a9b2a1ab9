"""Runs made of plain numbers, for comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.model import (
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    SliceResult,
    VerdictStatus,
)
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import group_by_slice, summarise
from fingerprints import as_fingerprint

COSTS = {"latency_p95", "tokens_mean"}
LOWER = {"latency_p95", "hallucination", "error_rate"}


def make_sample(name: str, scores: Mapping[str, Any], **fields: Any) -> SampleResult:
    """A value, or a Score where there is none."""
    given = {metric: value if isinstance(value, Score) else Score.scored(value) for metric, value in scores.items()}
    return SampleResult(id=name, status=SampleStatus.ANSWERED, scores=given, **fields)


def make_dataset(
    samples: Sequence[SampleResult], name: str = "qa", slices: Sequence[str] = (), cluster: str | None = None
) -> DatasetResult:
    metrics = [make_outline(metric, samples) for metric in (samples[0].scores if samples else ())]
    parts = tuple(
        SliceResult(name=key, selected=len(members), metrics=summarise(members, metrics), small=len(members) < 5)
        for key, members in group_by_slice(samples, slices).items()
    )
    summaries = summarise(samples, metrics, cluster)
    return DatasetResult(
        name=name, samples=tuple(samples), metrics=summaries, thresholds=(), slices=parts, cluster=cluster
    )


def make_outline(metric: str, samples: Sequence[SampleResult]) -> MetricOutline:
    """Its scores are between 0 and 1 unless one of them is not."""
    values = [sample.scores[metric].value for sample in samples]
    bounded = metric not in COSTS and all(value is None or 0 <= value <= 1 for value in values)
    return MetricOutline(
        metric,
        "p95" if metric == "latency_p95" else "mean",
        Direction.LOWER if metric in LOWER else Direction.HIGHER,
        (0.0, 1.0) if bounded else (None, None),
    )


def make_run(columns: Mapping[str, Sequence[Any]], run_id: str = "r", **fields: Any) -> Run:
    """One dataset `qa`; the samples are s0, s1 …, and `columns` their scores by metric."""
    count = len(next(iter(columns.values())))
    samples = [
        make_sample(f"s{at}", {metric: values[at] for metric, values in columns.items()}, **fields)
        for at in range(count)
    ]
    return run_of(make_dataset(samples), run_id=run_id)


def run_of(*datasets: DatasetResult, run_id: str = "r", fingerprint: Mapping[str, Any] | None = None) -> Run:
    return Run(
        id=run_id,
        verdict=VerdictStatus.NOT_GATED,
        exit_code=0,
        datasets=datasets,
        fingerprint=as_fingerprint(fingerprint or {}),
    )
