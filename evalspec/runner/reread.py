"""A stored run concluded again from its log: nothing is asked, nothing judged, no dataset read."""

from collections.abc import Mapping

from evalspec.attempts import combine_attempts
from evalspec.model import Attempt, Run, Sample, SampleResult, SampleStatus, Score
from evalspec.outline import DatasetOutline, RunOutline
from evalspec.runner.conclude import RunMetadata, conclude
from evalspec.runner.diagnosing import diagnose
from evalspec.runner.results import find_reply_limits
from evalspec.store.log_index import AttemptKey, LogIndex
from evalspec.store.stored_run import StoredRun

_NOT_ASKED = "not asked: the run was ended before"
_NOT_SCORED = "not scored: the run was ended before"


def conclude_stored(stored: StoredRun) -> Run:
    """The Run that a folder holds, gated by the limits that it was begun with.

    What an unfinished run has not asked or scored is failed, and a note says so.

    Raises:
        StoreError: it cannot be read.
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
    """What a run is held against, as it was when the run began.

    Raises:
        InvalidInput: it cannot be read any more.
    """
    if not stored.baseline.exists():
        return None
    from evalspec.comparison.run_files import read_baseline

    return read_baseline(stored.baseline)


def _take_attempts(index: LogIndex, dataset: DatasetOutline, sample: Sample, outline: RunOutline) -> list[Attempt]:
    """The attempts of a sample, out of the index: each is needed once."""
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
    """A score for every metric, in their order."""
    return {metric.name: scores.get(metric.name) or Score.failed(reason) for metric in dataset.metrics}
