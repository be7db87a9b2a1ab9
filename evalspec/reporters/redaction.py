"""A Run without secrets, for every reporter alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evalspec.records import DatasetResult, Run, SampleResult, Score


def redact_run(run: Run, redact: Callable[[Any], Any]) -> Run:
    """The run with every free text replaced by `redact` of it (References.redact_data).

    Names and ids stay: they come from the user's own files, not from the environment, and they are what results are
    found by.
    """
    return replace(
        run,
        verdict=replace(run.verdict, reasons=tuple(redact(run.verdict.reasons))),
        datasets=tuple(_redact_dataset(dataset, redact) for dataset in run.datasets),
        notes=tuple(redact(run.notes)),
        fingerprint={key: redact(value) for key, value in run.fingerprint.items()},
    )


def _redact_dataset(dataset: DatasetResult, redact: Callable[[Any], Any]) -> DatasetResult:
    return replace(
        dataset,
        samples=tuple(_redact_sample(sample, redact) for sample in dataset.samples),
        outcomes=tuple(replace(outcome, reason=redact(outcome.reason)) for outcome in dataset.outcomes),
    )


def _redact_sample(sample: SampleResult, redact: Callable[[Any], Any]) -> SampleResult:
    return replace(
        sample,
        metadata={key: redact(value) for key, value in sample.metadata.items()},
        error=redact(sample.error),
        scores={metric: _redact_score(score, redact) for metric, score in sample.scores.items()},
    )


def _redact_score(score: Score, redact: Callable[[Any], Any]) -> Score:
    if score.reason is None and score.evidence is None:
        return score
    return replace(score, reason=redact(score.reason), evidence=redact(score.evidence))
