"""The gate: limits against what was measured. It says PASS only of what was measured well enough to know.

A limit FAILS only where the scores that are missing could not save it, and PASSES only with enough coverage; between
the two it is INCOMPLETE. Nothing in here prints, reads or writes.
"""

from collections.abc import Sequence

from evalspec.attempts import reply_limits
from evalspec.manifest.schema import CiGate
from evalspec.outline import MetricOutline
from evalspec.records import (
    DatasetResult,
    RegressionOutcome,
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
from evalspec.summary import compute_summary, find_interval, in_slice, pool_scores

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED

_NAMES_SHOWN = 5


def compute_outcome(
    threshold: Threshold,
    metric: MetricOutline,
    samples: Sequence[SampleResult],
    policy: CiGate,
    cluster: str | None = None,
) -> ThresholdOutcome:
    """Decide one limit over the samples of one dataset. `cluster`: metadata key of samples that belong together."""
    statistic = threshold.stat or metric.statistic
    members = [sample for sample in samples if in_slice(sample, threshold.slice)]
    scores, clusters = pool_scores(members, threshold.metric, statistic, cluster)
    interval = (
        find_interval(threshold.metric, scores, statistic, clusters, policy.confidence) if policy.confidence else None
    )
    summary = compute_summary(threshold.metric, statistic, scores, interval)
    bound = _worse_end(threshold, summary) if policy.confidence else None
    status, reason = _decide(threshold, metric, statistic, summary, scores, policy, bound)
    return ThresholdOutcome(threshold, status, summary.value, summary.scored, summary.expected, reason, bound)


def _worse_end(threshold: Threshold, summary: Summary) -> float | None:
    """The end of the interval that is nearer to breaking the limit, or beyond it."""
    if summary.interval is None:
        return None
    low, high = summary.interval
    if threshold.min is None or (threshold.max is not None and threshold.exceeded_by(high)):
        return high
    return low


def _decide(
    threshold: Threshold,
    metric: MetricOutline,
    statistic: str,
    summary: Summary,
    scores: Sequence[Score],
    policy: CiGate,
    bound: float | None,
) -> tuple[VerdictStatus, str | None]:
    if summary.skipped and summary.skipped == summary.expected:
        return NOT_GATED, next(score.reason for score in scores if score.reason)
    gap = _coverage_gap(summary, policy)
    missing = summary.expected - summary.scored
    broken = _break(threshold, summary.value, bound, policy.confidence)
    if broken is None:
        if policy.confidence and bound is None and not gap:
            return INCOMPLETE, f"{summary.scored} scored, an interval needs two"
        return (INCOMPLETE, gap) if gap else (PASS, None)
    if missing and not _breaks_even_at_best(threshold, metric, statistic, scores, missing):
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


def _break(threshold: Threshold, value: float | None, bound: float | None, confidence: float | None) -> str | None:
    """Which limit the value, or the end of its interval, is beyond, in words; None where it is within or not known."""
    if value is None:
        return None
    if broken := _beyond(threshold, value):
        return f"{value:.4g} is {broken}"
    if bound is not None and (broken := _beyond(threshold, bound)):
        return f"{value:.4g} is within the limit, but its {confidence:.0%} interval reaches {bound:.4g}, {broken}"
    return None


def _beyond(threshold: Threshold, value: float) -> str | None:
    if threshold.undercut_by(value):
        return f"below {threshold.min:g}"
    if threshold.exceeded_by(value):
        return f"above {threshold.max:g}"
    return None


def _breaks_even_at_best(
    threshold: Threshold, metric: MetricOutline, statistic: str, scores: Sequence[Score], missing: int
) -> bool:
    """Whether the limit stays broken had every missing score been the most helpful one that the metric can give."""
    known = [score.value for score in scores if score.value is not None]
    too_low = threshold.undercut_by(compute_statistic(known, statistic))
    best = metric.bounds[1] if too_low else metric.bounds[0]
    if best is None:
        return False
    at_best = compute_statistic(known + [best] * missing, statistic)
    return threshold.undercut_by(at_best) if too_low else threshold.exceeded_by(at_best)


def compute_verdict(
    datasets: Sequence[DatasetResult],
    policy: CiGate,
    *,
    partial: bool,
    regressions: Sequence[RegressionOutcome] = (),
) -> Verdict:
    """What all limits of all datasets say together, with every reason that is not a PASS."""
    if not policy.enabled:
        return Verdict(NOT_GATED, ("ciGate is off",), partial)
    outcomes = [(dataset.name, outcome) for dataset in datasets for outcome in dataset.outcomes]
    partial = partial or any(outcome.status is NOT_GATED for _, outcome in outcomes)
    if not outcomes and not regressions:
        return Verdict(NOT_GATED, ("no threshold applies to what was selected",), partial)
    reasons = {status: [_say(name, o) for name, o in outcomes if o.status is status] for status in VerdictStatus}
    for outcome in regressions:
        reasons[outcome.status].append(_say_regression(outcome))
    for status, reason in _pass_rates(datasets, policy):
        reasons[status].append(reason)
    reasons[INCOMPLETE] += _error_rates(datasets, policy)
    if reasons[FAIL]:
        return Verdict(FAIL, (*reasons[FAIL], *reasons[INCOMPLETE]), partial)
    if len(reasons[NOT_GATED]) == len(outcomes) + len(regressions):
        return Verdict(INCOMPLETE, ("no threshold could be checked", *reasons[NOT_GATED]), partial)
    if reasons[INCOMPLETE]:
        return Verdict(INCOMPLETE, tuple(reasons[INCOMPLETE]), partial)
    return Verdict(PASS, (), partial)


def _say(dataset: str, outcome: ThresholdOutcome) -> str:
    threshold = outcome.threshold
    where = f" [{threshold.slice}]" if threshold.slice else ""
    stat = f" {threshold.stat}" if threshold.stat else ""
    return f"{dataset}: {threshold.metric}{stat}{where}: {outcome.reason}"


def _say_regression(outcome: RegressionOutcome) -> str:
    what = f"{outcome.metric} against the baseline" if outcome.metric else "against the baseline"
    return f"{outcome.dataset}: {what}: {outcome.reason}"


def _pass_rates(datasets: Sequence[DatasetResult], policy: CiGate) -> list[tuple[VerdictStatus, str]]:
    """The floor under every single sample: which lie below it, and of which that cannot be told."""
    floor = policy.min_pass_rate
    if floor is None:
        return []
    found = []
    for dataset in datasets:
        limits = reply_limits(
            (outcome.threshold for outcome in dataset.outcomes),
            {metric: summary.statistic for metric, summary in dataset.summaries.items()},
        )
        held = [s for s in dataset.samples if any(in_slice(s, limit.slice) for limit in limits)]
        below = [s for s in held if s.pass_rate is not None and s.pass_rate < floor]
        unknown = [s for s in held if s.pass_rate is None]
        if below:
            found.append((FAIL, f"{dataset.name}: {_samples(below)} below minPassRate {floor:g}"))
        if unknown:
            found.append((INCOMPLETE, f"{dataset.name}: {_samples(unknown)} of which not every attempt is decided"))
    return found


def _samples(samples: Sequence[SampleResult]) -> str:
    shown = [s.id if s.pass_rate is None else f"{s.id} ({s.pass_rate:.2g})" for s in samples[:_NAMES_SHOWN]]
    more = ", …" if len(samples) > _NAMES_SHOWN else ""
    return f"{len(samples)} {'sample' if len(samples) == 1 else 'samples'} ({', '.join(shown)}{more})"


def _error_rates(datasets: Sequence[DatasetResult], policy: CiGate) -> list[str]:
    reasons = []
    for dataset in datasets:
        askings = [asking.status for sample in dataset.samples for asking in sample.attempts or (sample,)]
        failed = askings.count(SampleStatus.FAILED)
        if askings and failed / len(askings) > policy.max_error_rate:
            what = "attempts" if len(askings) > len(dataset.samples) else "samples"
            share = f"{failed} of {len(askings)} {what} have no reply"
            reasons.append(f"{dataset.name}: {share}, maxErrorRate is {policy.max_error_rate:g}")
    return reasons
