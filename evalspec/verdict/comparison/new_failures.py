"""Count samples that passed in the baseline and fail now, and test whether their number exceeds noise."""

from collections.abc import Sequence

from msgspec import Struct

from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    Attempt,
    DatasetResult,
    RegressionOutcome,
    SampleResult,
    SampleStatus,
    Threshold,
    VerdictStatus,
)
from evalspec.verdict.attempts import decide_attempt
from evalspec.verdict.comparison.pairing import has_all_attempts, is_edited
from evalspec.verdict.comparison.wording import render_p
from evalspec.verdict.stats.repeats import compute_new_failure_p_value
from evalspec.verdict.summary import in_slice, reply_limits


class OutcomePair(Struct, frozen=True):
    """A sample, and whether each of its attempts passed in the baseline and now; None if unknown.

    `unit`: copies have the same.
    """

    id: str
    before: Sequence[bool | None]
    after: Sequence[bool | None]
    unit: str

    @property
    def fails_newly(self) -> bool:
        """Whether it passed in the baseline and fails now."""
        return all(self.before) and False in self.after

    @property
    def passes_newly(self) -> bool:
        """Whether it failed in the baseline and passes now."""
        return False in self.before and bool(self.after) and all(self.after)

    @property
    def may_fail_newly(self) -> bool:
        """Return whether it may have passed before and fail now, given unknown outcomes."""
        return not self.fails_newly and False not in self.before and not all(self.after)


def decide_new_failures(before: DatasetResult, after: DatasetResult, policy: CiGate) -> RegressionOutcome:
    """Return the outcome of the limit on new failures.

    A sample passes if all its attempts meet the thresholds that apply to a single reply. Both runs use the current
    thresholds, because a tightened threshold is no change of the agent, and only for metrics that both runs computed.

    A sample without a reply fails, whatever the reason. A sample with an unknown outcome may be a new failure: if such
    samples decide, the outcome is INCOMPLETE. An unchanged but flaky agent has new failures in most runs, so the limit
    fails only if their number exceeds noise.
    """
    pairs, alone = pair_outcomes(before, after)
    status, reason, p_value = _decide(pairs, policy)
    tested = 0 if p_value is None else len(pairs)
    gap = f"; {', '.join(alone)} left out: the baseline did not compute it" if alone else ""
    reason = f"{reason}{gap}"
    return RegressionOutcome(after.name, None, status, p_value=p_value, pairs=len(pairs), reason=reason, units=tested)


def pair_outcomes(before: DatasetResult, after: DatasetResult) -> tuple[list[OutcomePair], dict[str, None]]:
    """Return the common samples with their outcomes, and the limited metrics that the baseline did not compute."""
    statistics = {metric: summary.statistic for metric, summary in after.metrics.items()}
    gated = (outcome for outcome in after.thresholds if outcome.status is not VerdictStatus.NOT_GATED)
    limits = reply_limits(gated, statistics)
    shared = [limit for limit in limits if _computes(before, limit.metric)]
    known = {sample.id: sample for sample in before.samples}
    both = ((known[new.id], new) for new in after.samples if new.id in known)
    pairs = [_pair(old, new, shared) for old, new in both if not is_edited(old, new)]
    return pairs, dict.fromkeys(limit.metric for limit in limits if limit not in shared)


def _computes(dataset: DatasetResult, metric: str) -> bool:
    summary = dataset.metrics.get(metric)
    return summary is not None and summary.skipped < summary.expected


def _pair(old: SampleResult, new: SampleResult, limits: Sequence[Threshold]) -> OutcomePair:
    """Pair a sample. Only as many attempts as the baseline has count, because passing more of them is harder."""
    own = [limit for limit in limits if in_slice(new, limit.slice)]
    before, after = _outcomes(old, own), _outcomes(new, own)
    return OutcomePair(new.id, before, after[: len(before)], new.unit or new.id)


def _outcomes(sample: SampleResult, limits: Sequence[Threshold]) -> list[bool | None]:
    """Return whether each attempt meets the limits. If a file has only means, return its stored outcome."""
    if sample.attempts and not has_all_attempts(sample):
        return [_or_failed(attempt.passed, attempt.status) for attempt in sample.attempts]
    attempts = sample.attempts or (Attempt(sample.status, scores=sample.scores),)
    return [_or_failed(decide_attempt(attempt, limits), attempt.status) for attempt in attempts]


def _or_failed(passed: bool | None, status: SampleStatus) -> bool | None:
    return False if passed is None and status is SampleStatus.FAILED else passed


def _decide(pairs: Sequence[OutcomePair], policy: CiGate) -> tuple[VerdictStatus, str, float | None]:
    """Return status, reason and p-value (None without a test)."""
    if not pairs:
        return VerdictStatus.INCOMPLETE, "no sample is in both runs", None
    limit = policy.new_failures or 0
    failing = [pair.id for pair in pairs if pair.fails_newly]
    unknown = [pair.id for pair in pairs if pair.may_fail_newly]
    named = f"{counted(len(failing), 'new failure')}{_name(failing)}"
    if len(failing) > limit:
        return _weigh(pairs, policy, f"{named}, more than the {limit} allowed")
    said = f"{named}, newFailures is {limit}"
    if len(failing) + len(unknown) <= limit or not unknown:
        return VerdictStatus.PASS, said, None
    if len(unknown) == len(pairs):
        fix = "add a threshold that applies to a single reply"
        return VerdictStatus.INCOMPLETE, f"no sample is known to pass or fail; {fix}", None
    return VerdictStatus.INCOMPLETE, f"{said}; {len(unknown)} unknown{_name(unknown)}", None


def _weigh(pairs: Sequence[OutcomePair], policy: CiGate, said: str) -> tuple[VerdictStatus, str, float | None]:
    """Test whether an unchanged agent would have as many failures. Attempts with unknown outcomes are excluded.

    Of copies, the first counts.
    """
    if policy.alpha is None:
        return VerdictStatus.FAIL, f"{said}; alpha is null: every new failure counts", None
    units = {pair.unit: pair for pair in reversed(pairs)}.values()
    failing = sum(pair.fails_newly for pair in units)
    known = [[[p for p in side if p is not None] for side in (pair.before, pair.after)] for pair in units]
    attempts = [(sum(old), len(old), sum(new), len(new)) for old, new in known if old and new]
    p_value = compute_new_failure_p_value(attempts, failing)
    if p_value < policy.alpha:
        return VerdictStatus.FAIL, f"{said} ({render_p(p_value)})", p_value
    more = "more attempts in both runs would settle it"
    return VerdictStatus.PASS, f"{said}, but not significant ({render_p(p_value)}); {more}", p_value


def _name(ids: Sequence[str]) -> str:
    return f" ({name_some(ids)})" if ids else ""
