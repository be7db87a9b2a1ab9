"""The gate: limits against what was measured. It says PASS only of what was measured well enough to know.

A limit FAILS only where the scores that are missing could not save it, and PASSES only with enough coverage; between
the two it is INCOMPLETE. Nothing in here prints, reads or writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalspec.manifest.schema import CiGate
from evalspec.records import (
    DatasetResult,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Threshold,
    ThresholdOutcome,
    Verdict,
    VerdictStatus,
)
from evalspec.stats import compute_statistic
from evalspec.summary import compute_summary

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED

_ROUNDING = 1e-9
"""A mean of 0.8s may come out a few units in the last place under 0.8: equal passes."""


@dataclass(frozen=True, slots=True)
class MetricFacts:
    """What the gate must know of a metric: its own statistic, its lowest and highest possible value."""

    statistic: str
    bounds: tuple[float | None, float | None]


def in_slice(sample: Sample | SampleResult, name: str | None) -> bool:
    """Whether a sample belongs to a slice: None is everything, else a tag, or `key=value` of the metadata."""
    if name is None or name in sample.tags:
        return True
    key, equals, value = name.partition("=")
    return bool(equals) and key in sample.metadata and str(sample.metadata[key]) == value


def compute_outcome(
    threshold: Threshold, facts: MetricFacts, samples: Iterable[SampleResult], policy: CiGate
) -> ThresholdOutcome:
    """Decide one limit over the samples of one dataset."""
    scores = [sample.scores[threshold.metric] for sample in samples if in_slice(sample, threshold.slice)]
    statistic = threshold.stat or facts.statistic
    summary = compute_summary(threshold.metric, statistic, scores, with_interval=False)
    status, reason = _decide(threshold, facts, statistic, summary, scores, policy)
    return ThresholdOutcome(threshold, status, summary.value, summary.scored, summary.expected, reason)


def _decide(
    threshold: Threshold,
    facts: MetricFacts,
    statistic: str,
    summary: Summary,
    scores: Sequence[Score],
    policy: CiGate,
) -> tuple[VerdictStatus, str | None]:
    if summary.skipped and summary.skipped == summary.expected:
        return NOT_GATED, next(score.reason for score in scores if score.reason)
    gap = _coverage_gap(summary, policy)
    missing = summary.expected - summary.scored
    broken = _break(threshold, summary.value)
    if broken is None:
        return (INCOMPLETE, gap) if gap else (PASS, None)
    if missing and not _breaks_even_at_best(threshold, facts, statistic, scores, missing):
        detail = f"{broken}, but the {missing} missing could change it"
        return INCOMPLETE, gap or detail
    if summary.scored < policy.min_samples:
        return INCOMPLETE, gap
    return FAIL, broken


def _coverage_gap(summary: Summary, policy: CiGate) -> str | None:
    """Why the scored samples are too few to speak for all, or None."""
    if summary.scored == 0:
        return f"nothing was scored ({_missing_counts(summary) or 'it applies to no sample'})"
    if summary.scored < policy.min_samples:
        return f"{summary.scored} scored, minSamples is {policy.min_samples}"
    coverage = summary.scored / summary.expected
    if coverage < policy.min_coverage:
        counts = _missing_counts(summary)
        return f"{summary.scored} of {summary.expected} scored ({counts}), minCoverage is {policy.min_coverage:g}"
    return None


def _missing_counts(summary: Summary) -> str:
    counts = {
        "failed": summary.failed,
        "skipped": summary.skipped,
        "not applicable": summary.not_applicable if not summary.scored else 0,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _break(threshold: Threshold, value: float | None) -> str | None:
    """Which limit the value is beyond, in words; None where it is within, or where there is no value."""
    if value is None:
        return None
    if _below(threshold, value):
        return f"{value:.4g} is below {threshold.min:g}"
    if _above(threshold, value):
        return f"{value:.4g} is above {threshold.max:g}"
    return None


def _below(threshold: Threshold, value: float) -> bool:
    return threshold.min is not None and value < threshold.min - _ROUNDING * max(1.0, abs(threshold.min))


def _above(threshold: Threshold, value: float) -> bool:
    return threshold.max is not None and value > threshold.max + _ROUNDING * max(1.0, abs(threshold.max))


def _breaks_even_at_best(
    threshold: Threshold, facts: MetricFacts, statistic: str, scores: Sequence[Score], missing: int
) -> bool:
    """Whether the limit stays broken had every missing score been the most helpful one that the metric can give."""
    known = [score.value for score in scores if score.value is not None]
    too_low = _below(threshold, compute_statistic(known, statistic))
    best = facts.bounds[1] if too_low else facts.bounds[0]
    if best is None:
        return False
    at_best = compute_statistic(known + [best] * missing, statistic)
    return _below(threshold, at_best) if too_low else _above(threshold, at_best)


def compute_verdict(datasets: Sequence[DatasetResult], policy: CiGate, *, partial: bool) -> Verdict:
    """What all limits of all datasets say together, with every reason that is not a PASS."""
    if not policy.enabled:
        return Verdict(NOT_GATED, ("ciGate is off",), partial)
    outcomes = [(dataset.name, outcome) for dataset in datasets for outcome in dataset.outcomes]
    partial = partial or any(outcome.status is NOT_GATED for _, outcome in outcomes)
    if not outcomes:
        return Verdict(NOT_GATED, ("no threshold applies to what was selected",), partial)
    reasons = {status: [_say(name, o) for name, o in outcomes if o.status is status] for status in VerdictStatus}
    reasons[INCOMPLETE] += _error_rates(datasets, policy)
    if reasons[FAIL]:
        return Verdict(FAIL, (*reasons[FAIL], *reasons[INCOMPLETE]), partial)
    if len(reasons[NOT_GATED]) == len(outcomes):
        return Verdict(INCOMPLETE, ("no threshold could be checked", *reasons[NOT_GATED]), partial)
    if reasons[INCOMPLETE]:
        return Verdict(INCOMPLETE, tuple(reasons[INCOMPLETE]), partial)
    return Verdict(PASS, (), partial)


def _say(dataset: str, outcome: ThresholdOutcome) -> str:
    threshold = outcome.threshold
    where = f" [{threshold.slice}]" if threshold.slice else ""
    stat = f" {threshold.stat}" if threshold.stat else ""
    return f"{dataset}: {threshold.metric}{stat}{where}: {outcome.reason}"


def _error_rates(datasets: Sequence[DatasetResult], policy: CiGate) -> list[str]:
    reasons = []
    for dataset in datasets:
        failed = sum(sample.status is SampleStatus.FAILED for sample in dataset.samples)
        if dataset.samples and failed / len(dataset.samples) > policy.max_error_rate:
            share = f"{failed} of {len(dataset.samples)} samples have no reply"
            reasons.append(f"{dataset.name}: {share}, maxErrorRate is {policy.max_error_rate:g}")
    return reasons
