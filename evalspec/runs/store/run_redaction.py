"""Remove secrets, or all texts, from a Run before any reporter renders it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.json import Encoder
from msgspec.structs import replace

from evalspec.model import (
    Attempt,
    DatasetResult,
    Run,
    SampleResult,
    Score,
    Summary,
    known_finish_reason,
)
from evalspec.model.log import WITHHELD, Change, change_texts
from evalspec.runs.store.log_records import change_fingerprint

_encode = Encoder().encode
_read_texts = attrgetter("tags", "metadata", "error", "attempts", "timings_ms", "oddities", "finish_reason", "slices")
"""What of a sample may have secrets beside its scores: what `_redact_sample` changes."""
_PART = 100
"""Samples that are looked at together."""
_Record = TypeVar("_Record", bound=Struct)
IsClean = Callable[[bytes], bool]


def redact_run(run: Run, redact: Change, is_clean: IsClean) -> Run:
    """Return the run with every free text redacted.

    `redact`: Redaction.mask_data. `is_clean`: Redaction.is_clean. Samples without a secret are not copied.

    Names and ids of datasets, samples, metrics and metadata keys are not redacted: they come from the user's own files,
    and results are identified by them. Retriever settings, stages and diagnoses are redacted entirely, because the
    documents of a retriever may have any id.
    """
    return replace(
        run,
        reasons=tuple(redact(run.reasons)),
        datasets=tuple(_redact_dataset(dataset, redact, is_clean) for dataset in run.datasets),
        notes=tuple(redact(run.notes)),
        regressions=change_texts(run.regressions, redact, ()),
        measurement=change_texts(run.measurement, redact, ()),
        fingerprint=change_fingerprint(run.fingerprint, redact),
    )


def _redact_dataset(dataset: DatasetResult, redact: Change, is_clean: IsClean) -> DatasetResult:
    return replace(
        dataset,
        samples=tuple(_redact_samples(dataset.samples, redact, is_clean)),
        thresholds=tuple(
            replace(threshold, slice=redact(threshold.slice), reason=redact(threshold.reason))
            for threshold in dataset.thresholds
        ),
        limits=tuple(replace(limit, slice=redact(limit.slice)) for limit in dataset.limits),
        metrics=_redact_summaries(dataset.metrics, redact),
        slices=tuple(
            replace(part, name=redact(part.name), metrics=_redact_summaries(part.metrics, redact))
            for part in dataset.slices
        ),
        retriever=change_texts(dataset.retriever, redact, ()),
        stages=change_texts(dataset.stages, redact, ()),
        diagnosis=change_texts(dataset.diagnosis, redact, ()),
        gold=change_texts(dataset.gold, redact, ()),
        source_id=redact(dataset.source_id),
        description=redact(dataset.description),
    )


def _redact_summaries(summaries: Mapping[str, Summary], redact: Change) -> dict[str, Summary]:
    """Return the summaries with their only text redacted: why there is no interval, which may name a cluster."""
    return {name: _with(summary, no_interval=redact(summary.no_interval)) for name, summary in summaries.items()}


def _redact_samples(samples: Sequence[SampleResult], redact: Change, is_clean: IsClean) -> Iterator[SampleResult]:
    for start in range(0, len(samples), _PART):
        part = samples[start : start + _PART]
        if _are_clean(part, is_clean):
            yield from part
        else:
            yield from (one if _are_clean([one], is_clean) else _redact_sample(one, redact) for one in part)


def _are_clean(samples: Sequence[SampleResult], is_clean: IsClean) -> bool:
    """Return whether samples have no secrets, as their encoded form shows. That is faster than a look at each text."""
    scores = [score for sample in samples for score in sample.scores.values()]
    reasons, evidence = {one.reason for one in scores}, [one.evidence for one in scores if one.evidence is not UNSET]
    try:
        return is_clean(_encode([*map(_read_texts, samples), reasons, evidence]))
    except (TypeError, ValueError):  # a lone surrogate, or metadata that msgspec cannot encode
        return False


def _redact_sample(sample: SampleResult, redact: Change) -> SampleResult:
    return _with(
        sample,
        tags=tuple(redact(sample.tags)),
        metadata={key: redact(value) for key, value in sample.metadata.items()},
        error=redact(sample.error),
        scores=_redact_scores(sample.scores, redact),
        attempts=tuple(_redact_attempt(attempt, redact) for attempt in sample.attempts),
        timings_ms=redact(sample.timings_ms),
        oddities=redact(sample.oddities),
        finish_reason=redact(sample.finish_reason),
        slices=tuple(redact(sample.slices)),
    )


def _redact_attempt(attempt: Attempt, redact: Change) -> Attempt:
    return _with(
        attempt,
        error=redact(attempt.error),
        scores=_redact_scores(attempt.scores, redact),
        timings_ms=redact(attempt.timings_ms),
        oddities=redact(attempt.oddities),
        finish_reason=redact(attempt.finish_reason),
    )


def _redact_scores(scores: Mapping[str, Score], redact: Change) -> dict[str, Score]:
    return {metric: _redact_score(score, redact) for metric, score in scores.items()}


def _redact_score(score: Score, redact: Change) -> Score:
    if score.reason is None and score.evidence is UNSET:
        return score
    evidence = UNSET if score.evidence is UNSET else redact(score.evidence)
    return _with(score, reason=redact(score.reason), evidence=evidence)


def _with(record: _Record, **values: Any) -> _Record:
    """Return the record with these values. Most records are unchanged and are not copied, which saves memory."""
    return (
        record if all(getattr(record, name) == value for name, value in values.items()) else replace(record, **values)
    )


def withhold_texts(run: Run, metadata_kept: Collection[str]) -> Run:
    """Return the run with measurements only.

    Reasons, errors, notes and diagnoses are removed, because they may quote questions, answers or documents. Only the
    given metadata keys are kept.
    """
    return replace(
        run,
        notes=(WITHHELD,) if run.notes else (),
        datasets=tuple(
            replace(
                dataset, samples=tuple(_withhold(sample, metadata_kept) for sample in dataset.samples), diagnosis=None
            )
            for dataset in run.datasets
        ),
        has_texts=False,
    )


def _withhold(sample: SampleResult, metadata_kept: Collection[str]) -> SampleResult:
    return replace(
        sample,
        metadata={key: value for key, value in sample.metadata.items() if key in metadata_kept},
        error=WITHHELD if sample.error is not None else None,
        scores=_withhold_scores(sample.scores),
        attempts=tuple(_withhold_attempt(attempt) for attempt in sample.attempts),
        finish_reason=known_finish_reason(sample.finish_reason),
    )


def _withhold_attempt(attempt: Attempt) -> Attempt:
    error = WITHHELD if attempt.error is not None else None
    finish_reason = known_finish_reason(attempt.finish_reason)
    return replace(attempt, error=error, scores=_withhold_scores(attempt.scores), finish_reason=finish_reason)


def _withhold_scores(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {metric: score.without_texts(WITHHELD) for metric, score in scores.items()}
