"""Combine the attempts at one sample into one result, and summarise repeated attempts."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from evalspec.base.plural import counted, pluralize
from evalspec.model import (
    Attempt,
    Cause,
    RepeatSummary,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Threshold,
    Variance,
)
from evalspec.verdict.outline import DatasetOutline, MetricOutline, PassRule
from evalspec.verdict.stats import compute_statistic
from evalspec.verdict.stats.repeats import compute_pass_at_k, compute_pass_hat_k, compute_variance_components
from evalspec.verdict.summary import in_slice

_GAPS = (ScoreStatus.FAILED, ScoreStatus.NOT_APPLICABLE, ScoreStatus.SKIPPED)
"""Statuses of a score that may leave the success of an attempt open, the most serious one first."""
_NOT_THE_AGENT = (Cause.ENVIRONMENT, Cause.USER, Cause.STOPPED)
"""Causes of a missing reply for which the agent is not to blame."""


def combine_attempts(
    sample: Sample | SampleResult,
    attempts: Sequence[Attempt],
    limits: Sequence[Threshold],
    over: Sequence[MetricOutline] = (),
) -> SampleResult:
    """Return the result of a sample from all its attempts, in order.

    `limits`: thresholds that apply to each reply. `over`: the metrics over the attempts, which these limits decide.
    """
    own = [limit for limit in limits if in_slice(sample, limit.slice)]
    passed = [decide_attempt(attempt, own) if own else attempt.passed for attempt in attempts]
    latencies = [attempt.latency_ms for attempt in attempts if attempt.latency_ms is not None]
    failed = [attempt for attempt in attempts if attempt.status is SampleStatus.FAILED]
    passes = {one.name: combine_passes(attempts, one.name, one.passes, own) for one in over if one.passes}
    first, is_single = attempts[0], len(attempts) == 1
    return SampleResult(
        id=sample.id,
        status=SampleStatus.FAILED if failed else SampleStatus.ANSWERED,
        tags=sample.tags,
        metadata=sample.metadata,
        latency_ms=fmean(latencies) if latencies else None,
        error=_of_how_many(failed[0].error, failed, attempts) if failed else None,
        scores=_combine_all([attempt.scores for attempt in attempts], passes),
        line=sample.line,
        pass_rate=None if None in passed else passed.count(True) / len(passed),
        attempts=() if is_single else tuple(map(_with_outcome, attempts, passed)),
        timings_ms=first.timings_ms if is_single else {},
        oddities=first.oddities if is_single else {},
        digest=sample.digest,
        finish_reason=first.finish_reason if is_single else None,
        slices=sample.slices,
        unit=sample.unit,
        retries=_add_known([attempt.retries for attempt in attempts]),
        answer_digest=first.answer_digest,
        question_digest=first.question_digest,
        request_digest=first.request_digest,
    )


def _with_outcome(attempt: Attempt, passed: bool | None) -> Attempt:
    return replace(attempt, passed=passed)


def _add_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def decide_attempt(attempt: Attempt, limits: Sequence[Threshold]) -> bool | None:
    """Return whether one reply is within all thresholds, or None if that is unknown.

    One violated threshold decides, even if other scores are missing. Thresholds on skipped metrics are ignored.
    """
    is_limited = is_scored = is_unknown = is_violated = False
    for limit in limits:
        score = attempt.scores[limit.metric]
        is_limited |= score.status is not ScoreStatus.SKIPPED
        is_unknown |= score.status is ScoreStatus.FAILED
        if score.value is not None:
            is_scored = True
            is_violated |= not limit.holds(score.value)
    if not is_limited or attempt.unreachable:
        return None
    if is_violated or attempt.status is SampleStatus.FAILED:
        return False
    return True if is_scored and not is_unknown else None


def _combine_all(scores: Sequence[Mapping[str, Score]], passes: dict[str, Score]) -> Mapping[str, Score]:
    """Return the combined scores of the attempts by metric, and then `passes`. Those of one attempt are not copied."""
    if len(scores) == 1:
        return {**scores[0], **passes} if passes else scores[0]
    return {metric: combine_scores([one[metric] for one in scores]) for metric in scores[0]} | passes


def combine_passes(attempts: Sequence[Attempt], metric: str, rule: PassRule, limits: Sequence[Threshold]) -> Score:
    """Return how likely k of the attempts at a sample all succeed, or one of them. `limits`: that apply to its replies.

    Attempts whose success is unknown do not count. If fewer than k remain, the score has failed: the sample stays in
    the coverage. It has failed too if the run stopped before some scores, since when it did depends on the others.
    """
    own = [limit for limit in limits if rule.of in (None, limit.metric)] + ([rule.implied] if rule.implied else [])
    outcomes = [_decide_success(attempt, own) for attempt in attempts]
    gaps = [_find_gap(attempt, own) for attempt, found in zip(attempts, outcomes, strict=True) if found is None]
    undefined = [gap for gap in gaps if gap.status is ScoreStatus.NOT_APPLICABLE and gap.cause is Cause.DATASET]
    if undefined or (len(gaps) == len(attempts) and all(gap.status is ScoreStatus.SKIPPED for gap in gaps)):
        return (undefined or gaps)[0]
    decided, successes = len(outcomes) - len(gaps), outcomes.count(True)
    compute = compute_pass_hat_k if rule.is_every else compute_pass_at_k
    share = compute(decided, successes, rule.k)
    why = f"; {_of_how_many(gaps[0].reason, gaps, attempts)}" if gaps else ""
    causes = [gap.cause for gap in gaps]
    if share is None or Cause.STOPPED in causes:
        needed = counted(rule.k, "decided attempt")
        cause = Cause.STOPPED if Cause.STOPPED in causes else next(filter(None, causes), Cause.OTHER)
        return Score.failed(f"{metric} needs {needed}, and {decided} {pluralize(decided, 'is', 'are')}{why}", cause)
    lacking = next((gap.cause for gap in gaps if gap.lacks_evidence), None)
    return Score(ScoreStatus.SCORED, share, f"{successes} of {decided} attempts succeed{why}", cause=lacking)


def _decide_success(attempt: Attempt, limits: Sequence[Threshold]) -> bool | None:
    """Return whether an attempt succeeds. Without a reply it does not, unless that says nothing about the agent."""
    causes = {attempt.scores[limit.metric].cause for limit in limits}
    if attempt.status is SampleStatus.FAILED and not causes.isdisjoint(_NOT_THE_AGENT):
        return None
    return decide_attempt(attempt, limits)


def _find_gap(attempt: Attempt, limits: Sequence[Threshold]) -> Score:
    """Return the score that leaves open whether an attempt succeeds."""
    gaps = [score for limit in limits if (score := attempt.scores[limit.metric]).value is None]
    nothing = Score.failed(attempt.error or "no limit applies")
    return min(gaps, key=lambda one: (_GAPS.index(one.status), one.cause is Cause.DATASET), default=nothing)


def combine_scores(scores: Sequence[Score]) -> Score:
    """Return one score for several attempts: the mean of the applicable scores, or the reason if one is missing."""
    if len(scores) == 1:
        return scores[0]
    for status in (ScoreStatus.FAILED, ScoreStatus.SKIPPED):
        found = [score for score in scores if score.status is status]
        if found:
            return Score(status, reason=_of_how_many(found[0].reason, found, scores), cause=found[0].cause)
    values = [score.value for score in scores if score.value is not None]
    lacking = [score for score in scores if score.lacks_evidence]
    if not values:
        return (lacking or scores)[0]
    reason = f"mean of {', '.join(f'{value:.4g}' for value in values)}"
    if not lacking:
        return Score.scored(compute_statistic(values, "mean"), reason)
    reason = f"{reason}; {_of_how_many(lacking[0].reason, lacking, scores)}"
    return Score(ScoreStatus.SCORED, compute_statistic(values, "mean"), reason, cause=lacking[0].cause)


def _of_how_many(reason: str | None, found: Sequence[object], of: Sequence[object]) -> str | None:
    return reason if len(of) == 1 else f"{len(found)} of {len(of)} attempts: {reason}"


def compute_repeats(samples: Sequence[SampleResult], dataset: DatasetOutline, repeats: int) -> RepeatSummary:
    """Return how much results vary if each sample has `repeats` attempts: pass rates, flaky samples, variances."""
    decided = [sample for sample in samples if sample.pass_rate is not None]
    passes = [sum(attempt.passed is True for attempt in sample.attempts) for sample in decided]
    return RepeatSummary(
        repeats=repeats,
        decided=len(decided),
        pass_at=_over_samples(compute_pass_at_k, passes, repeats),
        pass_all=_over_samples(compute_pass_hat_k, passes, repeats),
        flaky=tuple(sample.id for sample, count in zip(decided, passes, strict=True) if 0 < count < repeats),
        variance={metric.name: _variance(samples, metric) for metric in dataset.of_replies},
    )


def _over_samples(
    compute: Callable[[int, int, int], float | None], passes: Sequence[int], repeats: int
) -> dict[int, float]:
    """Return the mean over the samples for every k. Empty without samples."""
    found = {k: [compute(repeats, count, k) for count in passes] for k in range(1, repeats + 1)}
    return {k: fmean(value for value in values if value is not None) for k, values in found.items() if values}


def _variance(samples: Sequence[SampleResult], metric: MetricOutline) -> Variance:
    """Return the variance between replies and between gradings. Without a judge, all of it is due to the agent.

    Values are nested as samples, replies, gradings. Unscored replies are omitted.
    """
    components = compute_variance_components(
        [list(score.repeats or (score.value,)) for score in scores if score.value is not None]
        for scores in ([attempt.scores[metric.name] for attempt in sample.attempts] for sample in samples)
    )
    agent = components.agent if metric.judged else components.replies
    return Variance(components.replies, agent, components.judge)
