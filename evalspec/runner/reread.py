"""Conclude a stored run from its log, without requests, judge calls or dataset files."""

from collections.abc import Mapping

from evalspec.attempts import combine_attempts
from evalspec.model import Attempt, Run, Sample, SampleResult, SampleStatus, Score
from evalspec.outline import DatasetOutline, RunOutline
from evalspec.runner.conclude import RunMetadata, conclude
from evalspec.runner.diagnosing import diagnose
from evalspec.runner.results import find_reply_limits
from evalspec.store.log_index import AttemptKey, LogIndex
from evalspec.store.stored_run import StoredRun

_NOT_ASKED = "not asked: the run is not finished"
_NOT_SCORED = "not scored: the run is not finished"


def conclude_stored(stored: StoredRun) -> Run:
    """Return the Run of a folder, with the thresholds that it was started with.

    Missing attempts and scores of an unfinished run count as failed, and a note says so.

    Raises:
        StoreError: The run cannot be read.
    """
    outline, index = stored.outline, stored.read_whole_index()
    known = len(index.attempts)
    results: dict[str, list[SampleResult]] = {dataset.name: [] for dataset in outline.datasets}
    datasets = {dataset.name: (dataset, find_reply_limits(dataset)) for dataset in outline.datasets}
    for name, sample in stored.read_samples():
        dataset, limits = datasets[name]
        results[name].append(combine_attempts(sample, _take_attempts(index, dataset, sample, outline), limits))
    attempts = sum(map(len, results.values())) * outline.repeats
    missing = attempts - known
    notes = (f"the run is not finished: {missing} of {attempts} attempts are missing",) if missing else ()
    run_metadata = RunMetadata(
        stored.fingerprint, read_stored_baseline(stored), judge_usage=index.judge_usage, notes=notes
    )
    return diagnose(conclude(outline, stored.id, [*results.values()], run_metadata), stored)


def read_stored_baseline(stored: StoredRun) -> Run | None:
    """Return the baseline of a run, as it was when the run was started.

    Raises:
        InvalidInput: The stored baseline can no longer be read.
    """
    if not stored.baseline.exists():
        return None
    from evalspec.comparison.run_files import read_baseline

    return read_baseline(stored.baseline)


def _take_attempts(index: LogIndex, dataset: DatasetOutline, sample: Sample, outline: RunOutline) -> list[Attempt]:
    """Remove the attempts of a sample from the index and return them. Each is needed once."""
    return [
        _take_attempt(index, dataset, AttemptKey(dataset.name, sample.id, attempt))
        for attempt in range(1, outline.repeats + 1)
    ]


def _take_attempt(index: LogIndex, dataset: DatasetOutline, key: AttemptKey) -> Attempt:
    attempt = index.attempts.pop(key, None)
    if attempt is None:
        nothing = _complete({}, dataset, _NOT_ASKED)
        return Attempt(SampleStatus.FAILED, error=_NOT_ASKED, unreachable=True, scores=nothing)
    scores = _complete(attempt.scores, dataset, _NOT_SCORED)
    return attempt.to_attempt(scores)


def _complete(scores: Mapping[str, Score], dataset: DatasetOutline, reason: str) -> dict[str, Score]:
    """Return a score for every metric, in order. Missing scores are failed with the reason."""
    return {metric.name: scores.get(metric.name) or Score.failed(reason) for metric in dataset.metrics}
