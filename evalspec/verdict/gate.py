"""The gate: compares measurements with thresholds, and decides the verdict of a run.

A threshold FAILS only if the missing scores could not change that, whatever they are. It PASSES only if they could not
change that either, or if the manifest accepts that they are missing. Otherwise it is INCOMPLETE. This module does no
I/O.
"""

import shlex
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.metric_spec import find_scored
from evalspec.model import (
    LARGEST_VALUE,
    UNDECIDED,
    Cause,
    DatasetResult,
    RegressionOutcome,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Summary,
    Threshold,
    Verdict,
    VerdictStatus,
)
from evalspec.model.corrections import JudgeCorrection
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.summary import compute_summary, estimate_scores, in_slice, pool_scores, reply_limits
from evalspec.verdict.validity.coverage import LostSamples, exceeds_share
from evalspec.verdict.wording import name_reasons

if TYPE_CHECKING:
    from evalspec.verdict.correction.estimates import Corrected
    from evalspec.verdict.correction.people import People

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED


def compute_outcome(
    threshold: Threshold,
    metric: MetricOutline,
    samples: Sequence[SampleResult],
    policy: CiGate,
    cluster: str | None = None,
    people: "People | None" = None,
) -> Threshold:
    """Return a threshold with its outcome over the samples of one dataset.

    `cluster`: metadata key that groups samples that are not independent. `people`: what people say about the scores.
    """
    if threshold.reason is not None:
        return threshold
    statistic = threshold.stat or metric.statistic
    members = [sample for sample in samples if in_slice(sample, threshold.slice)]
    scores, clusters = pool_scores(members, threshold.metric, statistic, cluster)
    excess = _not_applicable_gap(members, threshold.metric, policy)
    consultation = None
    if metric.is_opinion:
        from evalspec.verdict.correction.people import consult

        consultation = consult(threshold, metric, members, policy, cluster, people, with_lacking=bool(excess))
    estimate = consultation.estimate if consultation else None
    missing = [_is_missing(score, bool(excess)) for score in scores]
    measured = _Measured(metric, statistic, scores, clusters, missing, estimate)
    summary = compute_summary(scores, statistic, metric.direction)
    status, reason, bound = _decide(threshold, measured, summary, policy, excess)
    decided = replace(
        threshold,
        status=status,
        value=estimate.value if estimate else summary.value,
        basis=consultation.basis if consultation else None,
        bound=bound,
        scored=summary.scored,
        expected=summary.expected,
        not_applicable_causes=summary.not_applicable_causes,
        reason=reason,
    )
    return consultation.doubt(decided, policy) if consultation else decided


def doubt_lost(
    outcome: Threshold,
    metric: MetricOutline,
    samples: Sequence[SampleResult],
    lost: LostSamples,
    policy: CiGate,
    cluster: str | None,
    people: "People | None" = None,
) -> Threshold:
    """Return the outcome, INCOMPLETE if it passes only because samples were lost: if each had the worst score."""
    end = metric.bounds[outcome.min is None]
    is_mean = (outcome.stat or metric.statistic) == "mean"
    if outcome.status is not PASS or not lost or (end is None and is_mean):
        return outcome
    worst = {outcome.metric: Score.scored((-1) ** (outcome.min is not None) * LARGEST_VALUE if end is None else end)}
    attempts = tuple(replace(one, scores=worst) for one in (samples[0].attempts if samples else ()))
    edited = {one.id for one in lost.edited}
    kept = [one for one in samples if one.id not in edited]
    filled = [*kept, *(replace(one, scores=worst, attempts=attempts) for one in lost.samples)]
    if compute_outcome(outcome.as_stated(), metric, filled, policy, cluster, people).status is PASS:
        return outcome
    return replace(outcome, status=INCOMPLETE, reason=lost.describe())


class _Measured(Struct, frozen=True):
    """The scores that a limit applies to. `missing`: whether each is missing.

    `people`: the estimate of what people would say, which then takes the place of the scores.
    """

    metric: MetricOutline
    statistic: str
    scores: Sequence[Score]
    clusters: Sequence[Hashable] | None
    missing: Sequence[bool]
    people: "Corrected | None" = None

    def fill(self, *, high: bool) -> Sequence[Score]:
        """Return the scores with each missing one at an end of the metric's range."""
        end = self.metric.bounds[high]
        extreme = Score.scored((LARGEST_VALUE if high else -LARGEST_VALUE) if end is None else end)
        return [extreme if lost else score for score, lost in zip(self.scores, self.missing, strict=True)]

    def check(self, limit: Threshold, *, high: bool | None = None) -> "_Check":
        """Compare a limit with the statistic of the scores, and with the worse end of its interval.

        `high`: the end of the range at which missing scores are; None: without them.
        """
        if self.people is not None:
            return self._check_people(limit, self.people, high)
        scores = self.scores if high is None else self.fill(high=high)
        values = [score.value for score in scores if score.value is not None]
        found = None
        if limit.confidence:
            found = estimate_scores(scores, self.statistic, self.metric.reach, self.clusters, limit.confidence)
        bound = found.interval[limit.min is None] if found and found.interval else None
        broken = _break(limit, compute_statistic(values, self.statistic), bound) if values else None
        return _Check(
            broken, bound if bound is None or abs(bound) < LARGEST_VALUE else None, found.reason if found else None
        )

    def _check_people(self, limit: Threshold, people: "Corrected", high: bool | None) -> "_Check":
        value = people.value if high is None else people.ends[high]
        is_best = high is (limit.min is not None)  # the interval has missing replies at their worst
        is_tested = limit.confidence and not (is_best and people.describe_missing())
        bound = people.interval[limit.min is None] if is_tested else None
        return _Check(_break(limit, value, bound), bound, None)


class _Check(Struct, frozen=True):
    """How a limit is broken, in words; the end of the interval that was compared; why there is no interval."""

    broken: str | None
    bound: float | None
    no_interval: str | None


def _decide(
    threshold: Threshold, measured: _Measured, summary: Summary, policy: CiGate, excess: str | None
) -> tuple[VerdictStatus, str | None, float | None]:
    """Return the status of a threshold, its reason, and the end of the interval that was compared with it.

    `excess`: why too many scores are not applicable. If set, those scores count as missing.
    """
    scores = measured.scores
    if summary.skipped and summary.skipped == summary.expected:
        return NOT_GATED, next(score.reason for score in scores if score.status is ScoreStatus.SKIPPED), None
    gap = _coverage_gap(summary, scores, policy)
    if summary.scored < policy.min_samples:
        return INCOMPLETE, gap, None
    sides = [one for one in (replace(threshold, max=None), replace(threshold, min=None)) if one.min != one.max]
    found = [measured.check(side) for side in sides]
    worst = [measured.check(side, high=side.min is None) for side in sides]
    best = [measured.check(side, high=side.max is None) for side in sides]
    unknown = measured.people.describe_missing() if measured.people else None
    if unknown:
        unknown += f": `evalspec label latest --metric {shlex.quote(find_scored(threshold.metric))} --new`"
    gap = "; ".join(filter(None, [gap, excess, unknown])) or None
    tested = worst if gap or threshold.confidence else found
    broken = next((check.broken for check in (*found, *tested) if check.broken), None)
    bound = next((check.bound for check in tested if check.broken), tested[0].bound)
    if any(check.broken for check in best):
        return FAIL, broken, bound
    no_interval = next((check.no_interval for check in tested if check.no_interval), None)
    if broken is None and no_interval is None and not (gap and _is_stated(summary, policy, excess)):
        return PASS, None, bound
    if broken is None and not gap:
        return INCOMPLETE, f"there is no {_level(threshold.confidence or 0.0)} interval: {no_interval}", bound
    return INCOMPLETE, gap or f"{broken}, but the {sum(measured.missing)} missing could change it", bound


def _is_stated(summary: Summary, policy: CiGate, excess: str | None) -> bool:
    """Return whether the manifest itself states a rule that too few scores break. Defaults yield to certainty."""
    stated = policy.model_fields_set
    too_few = summary.scored / summary.expected < policy.min_coverage
    return (too_few and "min_coverage" in stated) or (excess is not None and "max_not_applicable" in stated)


def _coverage_gap(summary: Summary, scores: Sequence[Score], policy: CiGate) -> str | None:
    """Return why too few samples are scored for a verdict, or None."""
    if summary.scored == 0:
        away = [score for score in scores if score.status is ScoreStatus.NOT_APPLICABLE]
        not_applicable = f"{len(away)} not applicable: {name_reasons(away)}" if away else ""
        counts = ", ".join(filter(None, [_missing_counts(summary), not_applicable]))
        return f"nothing was scored ({counts or 'it applies to no sample'})"
    if summary.scored < policy.min_samples:
        return f"{summary.scored} scored, minSamples is {policy.min_samples}"
    coverage = summary.scored / summary.expected
    if coverage < policy.min_coverage:
        counts = _missing_counts(summary)
        return f"{summary.scored} of {summary.expected} scored ({counts}), minCoverage is {policy.min_coverage:g}"
    return None


def _missing_counts(summary: Summary) -> str:
    counts = {"failed": summary.failed, "skipped": summary.skipped}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _not_applicable_gap(members: Sequence[SampleResult], metric: str, policy: CiGate) -> str | None:
    """Return why replies or the judge make too many scores not applicable, or None. Each attempt counts."""
    of_samples = [(sample.id, score) for sample in members for score in sample.list_scores(metric)]
    attempts = [score for _, score in of_samples]
    lacking = [score for score in attempts if score.lacks_evidence]
    total = len(lacking) + sum(score.status is not ScoreStatus.NOT_APPLICABLE for score in attempts)
    share = policy.max_not_applicable
    if not exceeds_share(len(lacking), total, share, at_least=len(attempts) // max(len(members), 1)):
        return None
    names = name_some(list(dict.fromkeys(name for name, score in of_samples if score.lacks_evidence)))
    said = f"{len(lacking)} of {total} not applicable: {name_reasons(lacking)}: {names}"
    return f"{said}; maxNotApplicable is {share:g}"


def _break(threshold: Threshold, value: float | None, bound: float | None) -> str | None:
    """Return in words how the value, or the end of its interval, breaks the limit. None if it does not."""
    if value is None:
        return None
    if broken := _beyond(threshold, value):
        return f"{value:.4g} is {broken}"
    if bound is not None and (broken := _beyond(threshold, bound)):
        interval = f"its {_level(threshold.confidence or 0.0)} interval"
        return f"{value:.4g} is within the limit, but {interval} reaches {bound:.4g}, {broken}"
    return None


def _level(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _beyond(threshold: Threshold, value: float) -> str | None:
    if threshold.undercut_by(value):
        return f"below {threshold.min:g}"
    if threshold.exceeded_by(value):
        return f"above {threshold.max:g}"
    return None


def _is_missing(score: Score, excess: bool) -> bool:
    """Return whether a score is missing: failed or skipped.

    `excess`: scores that are not applicable are missing too, and means over attempts with such scores.
    """
    if score.status in (ScoreStatus.FAILED, ScoreStatus.SKIPPED):
        return True
    return excess and score.cause in (Cause.REPLY, Cause.JUDGE)


def compute_verdict(
    datasets: Sequence[DatasetResult],
    policy: CiGate,
    *,
    partial: bool,
    regressions: Sequence[RegressionOutcome] = (),
    lost: Mapping[str, LostSamples] | None = None,
) -> Verdict:
    """Return the verdict over all thresholds of all datasets, with every reason why it is not PASS.

    `lost`: samples that count as failed where replies are counted, by dataset.
    """
    lost = lost or {}
    if not policy.enabled:
        return Verdict(NOT_GATED, ("ciGate is off",), partial)
    outcomes = [(dataset.name, outcome) for dataset in datasets for outcome in dataset.thresholds]
    partial = partial or any(outcome.status is NOT_GATED for _, outcome in outcomes)
    if not outcomes and not regressions:
        return Verdict(NOT_GATED, ("no threshold applies to what was selected",), partial)
    reasons = {status: [_say(name, o) for name, o in outcomes if o.status is status] for status in VerdictStatus}
    for status, reason in _say_regressions(regressions):
        reasons[status].append(reason)
    for status, reason in _pass_rates(datasets, policy):
        reasons[status].append(reason)
    reasons[INCOMPLETE] += _error_rates(datasets, policy, lost)
    if policy.min_pass_rate:
        reasons[INCOMPLETE] += [f"{name}: {one.describe()}" for name, one in lost.items() if one]
    if reasons[FAIL]:
        return Verdict(FAIL, (*reasons[FAIL], *(f"{UNDECIDED}{reason}" for reason in reasons[INCOMPLETE])), partial)
    statuses = [outcome.status for _, outcome in outcomes] + [outcome.status for outcome in regressions]
    if all(status is NOT_GATED for status in statuses):
        return Verdict(
            INCOMPLETE, ("no threshold could be checked", *reasons[NOT_GATED], *reasons[INCOMPLETE]), partial
        )
    if reasons[INCOMPLETE]:
        return Verdict(INCOMPLETE, tuple(reasons[INCOMPLETE]), partial)
    return Verdict(PASS, (), partial)


def _is_decided(dataset: DatasetResult) -> bool:
    """Return whether every limit is decided, one of them over all samples: then no missing reply could change that."""
    limits = [limit for limit in dataset.thresholds if limit.status is not NOT_GATED]
    return any(limit.slice is None for limit in limits) and all(limit.status in (PASS, FAIL) for limit in limits)


def _say(dataset: str, outcome: Threshold) -> str:
    where = f" [{outcome.slice}]" if outcome.slice else ""
    stat = f" {outcome.stat}" if outcome.stat else ""
    return f"{dataset}: {outcome.metric}{stat}{where}: {outcome.reason}"


def _say_regressions(regressions: Sequence[RegressionOutcome]) -> Iterator[tuple[VerdictStatus, str]]:
    """Yield a line for each outcome. Limits of a dataset that are INCOMPLETE for the same reason share a line."""
    shared: dict[tuple[str, str | None], list[RegressionOutcome]] = {}
    for outcome in regressions:
        if outcome.status is INCOMPLETE:
            shared.setdefault((outcome.dataset, outcome.reason), []).append(outcome)
    sizes = Counter(outcome.dataset for outcome in regressions)
    for outcome in regressions:
        same = shared.get((outcome.dataset, outcome.reason), []) if outcome.status is INCOMPLETE else []
        if len(same) < 2:
            yield outcome.status, outcome.explain()
        elif outcome is same[0]:
            titles = "" if len(same) == sizes[outcome.dataset] else f"{', '.join(one.title for one in same)} "
            yield INCOMPLETE, f"{outcome.dataset}: {titles}against the baseline: {outcome.reason}"


def _pass_rates(datasets: Sequence[DatasetResult], policy: CiGate) -> list[tuple[VerdictStatus, str]]:
    """Return the findings on `minPassRate`: samples below it, and samples for which that is undecided."""
    floor = policy.min_pass_rate
    if floor is None:
        return []
    found = []
    for dataset in datasets:
        limits = reply_limits(
            (outcome for outcome in dataset.thresholds if outcome.status is not NOT_GATED),
            {metric: summary.statistic for metric, summary in dataset.metrics.items()},
        )
        judged = dict.fromkeys(limit.metric for limit in limits if limit.basis is not None)
        if judged and policy.judge.correct is JudgeCorrection.REQUIRE:
            why = f"minPassRate rests on single scores of the judge ({name_some([*judged])}), which no label corrects"
            found.append((INCOMPLETE, f"{dataset.name}: {why}, and ciGate.judge requires people's labels"))
        held: list[SampleResult] = []
        free: list[SampleResult] = []
        for sample in dataset.samples:
            (held if any(in_slice(sample, limit.slice) for limit in limits) else free).append(sample)
        below = [s for s in held if s.pass_rate is not None and s.pass_rate < floor]
        unknown = [s for s in held if s.pass_rate is None]
        if below:
            found.append((FAIL, f"{dataset.name}: {_samples(below)} below minPassRate {floor:g}"))
        if unknown:
            found.append((INCOMPLETE, f"{dataset.name}: {_samples(unknown)} with undecided attempts"))
        if free:
            found.append((INCOMPLETE, f"{dataset.name}: {_samples(free)} without a limit for minPassRate to check"))
    return found


def _samples(samples: Sequence[SampleResult]) -> str:
    shown = name_some([s.id if s.pass_rate is None else f"{s.id} ({s.pass_rate:.2g})" for s in samples])
    return f"{counted(len(samples), 'sample')} ({shown})"


def _error_rates(datasets: Sequence[DatasetResult], policy: CiGate, lost: Mapping[str, LostSamples]) -> list[str]:
    reasons = []
    for dataset in datasets:
        attempts = [attempt.status for sample in dataset.samples for attempt in sample.attempts or (sample,)]
        failed = attempts.count(SampleStatus.FAILED)
        is_stated = "max_error_rate" in policy.model_fields_set
        if not is_stated and _is_decided(dataset):
            continue
        if attempts and failed / len(attempts) > policy.max_error_rate:
            what = "attempts" if len(attempts) > len(dataset.samples) else "samples"
            share = f"{failed} of {len(attempts)} {what} have no usable reply"
            reasons.append(f"{dataset.name}: {share}, maxErrorRate is {policy.max_error_rate:g}")
            continue
        removed = len(lost.get(dataset.name, LostSamples()).removed) if is_stated else 0
        more = removed * len(attempts) // max(1, len(dataset.samples))
        if more and (failed + more) / (len(attempts) + more) > policy.max_error_rate:
            reasons.append(f"{dataset.name}: {lost[dataset.name].describe()}")
    return reasons
