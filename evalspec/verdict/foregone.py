"""Whether a verdict is certain before all scores are known, so that the judge need not be asked further.

This module does no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Cause, SampleResult, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.verdict.gate import compute_outcome
from evalspec.verdict.outline import RunOutline

_UNKNOWN = Score.failed("unknown")
_MAY_BE_MISSING = (Cause.REPLY, Cause.JUDGE, Cause.STOPPED)
"""Causes of scores that count as missing if too many scores are not applicable. Missing scores may bring that about."""
_MAKE_INCOMPLETE = {"min_coverage", "max_error_rate", "max_not_applicable"}
"""Rules that missing scores or replies can break, so that a run within all limits is INCOMPLETE, if they are stated."""


def find_foregone(
    outline: RunOutline, results: Sequence[Sequence[SampleResult]], *, may_be_corrected: bool = False
) -> str | None:
    """Return why no outcome of the missing scores can change the verdict; None if one can.

    A verdict is certain if a limit is broken even if each missing score is the best possible: a broken limit fails the
    run whatever the baseline says, so no drop is confirmed. It is also certain if all limits are met even if each is
    the worst possible, and there is nothing but limits to check. Scores that may still come to count as missing are
    missing here, and an interval decides nothing, since missing scores may leave none.

    `results`: of all samples, by dataset. Missing scores are failed. `may_be_corrected`: people's labels may take the
    place of the judge's scores, so these make nothing certain.
    """
    outcomes = list(_decide_all(outline, results, may_be_corrected))
    broken = next((one for one in outcomes if one.status is VerdictStatus.FAIL), None)
    if broken is not None:
        return f"the verdict is FAIL whatever other scores are: {broken.metric}: {broken.reason}"
    statuses = {one.status for one in outcomes}
    is_met = VerdictStatus.PASS in statuses <= {VerdictStatus.PASS, VerdictStatus.NOT_GATED}
    if is_met and _checks_only_values(outline) and _is_answered(results):
        return "the verdict is PASS whatever other scores are"
    return None


def _decide_all(
    outline: RunOutline, results: Sequence[Sequence[SampleResult]], may_be_corrected: bool
) -> Iterator[Threshold]:
    for dataset, samples in zip(outline.datasets, results, strict=True):
        metrics = {metric.name: metric for metric in dataset.metrics}
        certain = [_without_doubtful(sample) for sample in samples]
        for threshold in dataset.thresholds:
            bare = replace(threshold, confidence=None)
            if may_be_corrected and metrics[threshold.metric].judged:
                yield replace(bare, status=VerdictStatus.INCOMPLETE)
                continue
            yield compute_outcome(bare, metrics[threshold.metric], certain, outline.policy, dataset.cluster)


def _without_doubtful(sample: SampleResult) -> SampleResult:
    attempts = tuple(replace(attempt, scores=_keep_certain(attempt.scores)) for attempt in sample.attempts)
    return replace(sample, scores=_keep_certain(sample.scores), attempts=attempts)


def _keep_certain(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {name: _UNKNOWN if score.cause in _MAY_BE_MISSING else score for name, score in scores.items()}


def _checks_only_values(outline: RunOutline) -> bool:
    policy: CiGate = outline.policy
    has_rules = policy.baseline is not None or policy.min_pass_rate is not None
    limits = [limit for dataset in outline.datasets for limit in dataset.thresholds]
    is_bare = all(limit.confidence is None for limit in limits)
    return is_bare and not has_rules and not _MAKE_INCOMPLETE & policy.model_fields_set


def _is_answered(results: Sequence[Sequence[SampleResult]]) -> bool:
    return all(sample.status is SampleStatus.ANSWERED for samples in results for sample in samples)
