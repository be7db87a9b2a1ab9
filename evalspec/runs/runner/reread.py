"""Conclude a stored run from its log, without requests, judge calls or dataset files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evalspec.inputs.manifest.redaction import FOR_READERS
from evalspec.model import Attempt, Run, Sample, SampleResult, SampleStatus, Score, add_usage
from evalspec.runs.runner.conclude import RunMetadata, conclude
from evalspec.runs.runner.diagnosing import diagnose
from evalspec.runs.runner.open_gate import explain_unreached
from evalspec.runs.runner.results import find_reply_limits
from evalspec.runs.runner.second_attempts import SecondAttempts, explain_no_second, outline_second
from evalspec.runs.store.batch_log import read_batch_usage
from evalspec.runs.store.log_index import AttemptKey, LogIndex
from evalspec.runs.store.run_redaction import redact_run
from evalspec.runs.store.stored_run import StoredRun
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.outline import DatasetOutline, RunOutline

if TYPE_CHECKING:
    from evalspec.verdict.comparison.baseline import Baseline

_NOT_ASKED = "not asked: the run is not finished"
_NOT_SCORED = "not scored: the run is not finished"
UNCONFIRMED = "the second attempts that confirm a drop are not finished: resume the run"


def conclude_stored(stored: StoredRun, more_notes: Sequence[str] = ()) -> Run:
    """Return the Run of a folder, with the thresholds that it was started with.

    Missing attempts and scores of an unfinished run count as failed, and a note says so. `more_notes`: what the
    log does not say.

    Raises:
        StoreError: The run cannot be read.
    """
    outline, index = stored.outline, stored.read_whole_index()
    known = sum(key.attempt <= outline.repeats for key in index.attempts)
    unreached = sum(found.attempt.unreachable for found in index.attempts.values())
    results = _combine_all(stored, index, outline)
    attempts = sum(map(len, results)) * outline.repeats
    missing = attempts - known
    notes = (f"the run is not finished: {missing} of {attempts} attempts are missing",) if missing else ()
    run_metadata = RunMetadata(
        stored.fingerprint,
        read_stored_baseline(stored),
        judge_usage=add_usage(index.judge_usage, read_batch_usage(stored.folder)),
        notes=(*notes, *more_notes),
        unfinished=notes[0] if notes else explain_unreached(stored.fingerprint, unreached),
        people=index.people,
        controls=index.controls,
    )
    run = conclude(outline, stored.id, results, run_metadata)
    second = outline_second(outline, run)
    if second is not None:
        found, can_go_on = _find_second(stored, index, second), explain_no_second(stored.fingerprint) is None
        if can_go_on and not stored.report.exists():
            run_metadata = replace(run_metadata, unfinished=UNCONFIRMED)
        run = conclude(outline, stored.id, results, replace(run_metadata, second=found))
    return diagnose(redact_run(run, FOR_READERS.mask_data, FOR_READERS.is_readable), stored)


def _find_second(stored: StoredRun, index: LogIndex, second: RunOutline) -> SecondAttempts | str:
    """Return the second attempts of a run, or why it has none."""
    if index.attempts:
        return second, _combine_all(stored, index, second, after=second.repeats)
    return explain_no_second(stored.fingerprint) or RunMetadata().second


def _combine_all(
    stored: StoredRun, index: LogIndex, outline: RunOutline, after: int = 0
) -> Sequence[Sequence[SampleResult]]:
    """Return the results of the samples of each dataset, from their attempts `after` a number."""
    results: dict[str, list[SampleResult]] = {dataset.name: [] for dataset in outline.datasets}
    datasets = {dataset.name: (dataset, find_reply_limits(dataset)) for dataset in outline.datasets}
    for name, sample in stored.read_samples():
        if name in datasets:
            dataset, limits = datasets[name]
            attempts = _take_attempts(index, dataset, sample, range(after + 1, after + outline.repeats + 1))
            results[name].append(combine_attempts(sample, attempts, limits, dataset.of_attempts))
    return [*results.values()]


def read_stored_baseline(stored: StoredRun) -> "Baseline | None":
    """Return the baseline of a run, as it was when the run was started.

    Raises:
        InvalidInput: The stored baseline can no longer be read.
    """
    if not stored.baseline.exists():
        return None
    from evalspec.verdict.comparison.run_files import read_baseline

    return read_baseline(stored.baseline)


def _take_attempts(index: LogIndex, dataset: DatasetOutline, sample: Sample, numbers: range) -> list[Attempt]:
    """Remove the attempts of a sample from the index and return them. Each is needed once."""
    return [_take_attempt(index, dataset, AttemptKey(dataset.name, sample.id, number)) for number in numbers]


def _take_attempt(index: LogIndex, dataset: DatasetOutline, key: AttemptKey) -> Attempt:
    attempt = index.attempts.pop(key, None)
    if attempt is None:
        nothing = _complete({}, dataset, _NOT_ASKED)
        return Attempt(SampleStatus.FAILED, error=_NOT_ASKED, unreachable=True, scores=nothing)
    scores = _complete(attempt.scores, dataset, _NOT_SCORED)
    return attempt.to_attempt(scores)


def _complete(scores: Mapping[str, Score], dataset: DatasetOutline, reason: str) -> dict[str, Score]:
    """Return a score for every metric of replies, in order. Missing scores are failed with the reason."""
    return {metric.name: scores.get(metric.name) or Score.failed(reason) for metric in dataset.of_replies}
