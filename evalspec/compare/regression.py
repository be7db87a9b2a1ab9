"""The regression gate: what a run was held against, and what came of it.

A metric FAILS that is worse by more than `maxDrop`, where chance does not explain that; it PASSES where it is not, or
where chance may explain it and there are samples enough for chance to be told from anything. What cannot be decided is
INCOMPLETE. Nothing in here prints, reads or writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalspec.compare.comparability import find_content_mismatches, find_judge_mismatches
from evalspec.compare.comparison import Delta
from evalspec.compare.drops import find_limits
from evalspec.compare.new_failures import find_new_failures
from evalspec.compare.pairing import ScorePairs, describe_unpaired, label_clusters, pair_samples, pair_scores, sign_of
from evalspec.compare.testing import Rules, can_reach, compute_delta, compute_p_value, count_needed
from evalspec.manifest.schema import CiGate
from evalspec.records import DatasetResult, RegressionOutcome, Run, Verdict, VerdictStatus
from evalspec.stats.effects import compute_minimum_detectable_change
from evalspec.stats.holm import compute_holm
from evalspec.stats.paired import Alternative

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED

_CONFIDENCE = 0.95
_ROUNDING = 1e-9
_PROMOTE = "promote a new baseline"


@dataclass(frozen=True, slots=True)
class _Held:
    """One metric of one dataset and its limit. `blocked`: why nothing can be said, where that is known beforehand."""

    before: DatasetResult | None
    after: DatasetResult
    metric: str
    limit: float
    cluster: str | None = None
    blocked: str | None = None
    skipped: str | None = None
    scores: ScorePairs = field(default_factory=lambda: ScorePairs((), (), (), (), (), ()))
    found: Delta = field(default_factory=lambda: Delta(None, None, None, None, 0))
    p_value: float | None = None
    unpaired: str = ""

    @property
    def statistic(self) -> str:
        return self.after.summaries[self.metric].statistic

    @property
    def sign(self) -> int:
        return sign_of(self.after.direction[self.metric])

    @property
    def drop(self) -> float:
        """How much worse the candidate is; negative where it is better."""
        return -(self.found.delta or 0.0) * self.sign


def find_regressions(
    baseline: Run,
    datasets: Sequence[DatasetResult],
    policy: CiGate,
    fingerprint: Mapping[str, Any],
    clusters: Mapping[str, str] | None = None,
) -> tuple[RegressionOutcome, ...]:
    """Each limit on getting worse, in the order of the datasets and their metrics, then of new failures.

    `datasets` and `fingerprint` are those of the run that is held against the baseline. `clusters`: by dataset the
    metadata key of samples that belong together. The p-values are one-sided and adjusted over all metrics (Holm).
    """
    candidate = Run("", Verdict(NOT_GATED), 0, tuple(datasets), fingerprint=fingerprint)
    known = {dataset.name: dataset for dataset in baseline.datasets}
    held = [
        _test(one, policy)
        for dataset in datasets
        for one in _hold(baseline, candidate, known.get(dataset.name), dataset, policy, clusters or {})
    ]
    tested = [one.p_value for one in held if one.p_value is not None]
    adjusted = iter(compute_holm(tested))
    outcomes = [_decide(one, next(adjusted) if one.p_value is not None else None, len(tested), policy) for one in held]
    failures = [
        find_new_failures(known.get(dataset.name), dataset, policy.new_failures, _block(baseline, candidate, dataset))
        for dataset in datasets
        if policy.new_failures is not None
    ]
    return (*outcomes, *failures)


def _block(baseline: Run, candidate: Run, dataset: DatasetResult) -> str | None:
    """Why no sample of a dataset can be held against the baseline. Other samples of the same content can."""
    if dataset.name not in {found.name for found in baseline.datasets}:
        return f"the baseline has no dataset '{dataset.name}': {_PROMOTE}"
    changed = [m for m in find_content_mismatches(baseline, candidate, dataset.name, dataset.name) if "content" in m]
    return f"the dataset is not that of the baseline: {_PROMOTE}" if changed else None


def _hold(
    baseline: Run,
    candidate: Run,
    before: DatasetResult | None,
    after: DatasetResult,
    policy: CiGate,
    clusters: Mapping[str, str],
) -> list[_Held]:
    """The limited metrics of a dataset, with what stands in the way of deciding them."""
    blocked = _block(baseline, candidate, after)
    limits = find_limits(policy, before or after, after)
    held = []
    for metric, limit in limits.items():
        judge = next(find_judge_mismatches(baseline, candidate, [metric]), None)
        why = blocked or (f"{judge}: {_PROMOTE}" if judge else None)
        if before is not None and metric not in before.summaries:
            why = why or f"the baseline has no scores of it: {_PROMOTE}"
        summary = after.summaries[metric]
        reasons = (sample.scores[metric].reason for sample in after.samples if metric in sample.scores)
        all_skipped = summary.skipped and summary.skipped == summary.expected
        skipped = next((reason for reason in reasons if reason), "it was skipped") if all_skipped else None
        held.append(_Held(before, after, metric, limit, clusters.get(after.name), why, skipped))
    return held


def _test(one: _Held, policy: CiGate) -> _Held:
    """The scores of both runs, their difference, and the p-value that it is worse."""
    if one.blocked or one.skipped or one.before is None:
        return one
    pairs = pair_samples(one.before, one.after)
    scores = pair_scores(pairs.both, one.metric).pick()
    unpaired = describe_unpaired(pairs)
    rules = Rules(1 - _CONFIDENCE)
    found = compute_delta(scores, one.metric, one.statistic, one.cluster, rules)
    p_value = None
    if one.statistic == "mean" and len(scores) and policy.alpha is not None:
        worse: Alternative = "less" if one.sign > 0 else "greater"
        labels = label_clusters(scores.members, one.cluster)
        tested = compute_p_value(scores, worse, labels, rules.resamples, rules.seed)
        p_value = tested[0] if tested else None
    return replace(one, scores=scores, found=found, p_value=p_value, unpaired=unpaired)


def _decide(one: _Held, p_value: float | None, tests: int, policy: CiGate) -> RegressionOutcome:
    status, reason = _judge(one, p_value, tests, policy)
    found = one.found
    return RegressionOutcome(
        one.after.name,
        one.metric,
        status,
        found.baseline,
        found.candidate,
        found.delta,
        found.interval,
        p_value,
        found.pairs,
        reason,
    )


def _judge(one: _Held, p_value: float | None, tests: int, policy: CiGate) -> tuple[VerdictStatus, str]:
    if one.skipped:
        return NOT_GATED, one.skipped
    if one.blocked:
        return INCOMPLETE, one.blocked
    if not one.found.pairs:
        return INCOMPLETE, f"no sample is scored in both runs{one.unpaired}"
    said = f"{one.found.baseline:.4g} -> {one.found.candidate:.4g}"
    if one.drop <= one.limit + _ROUNDING:
        if gap := _coverage_gap(one, policy):
            return INCOMPLETE, f"{said}: {gap}"
        how = f"within maxDrop {one.limit:g}" if one.drop > 0 else "not worse"
        return PASS, f"{said}: {how}{_of_pairs(one)}"
    broken = f"{said}: worse by {one.drop:.4g}, maxDrop is {one.limit:g}"
    beyond = _is_beyond_chance(one, p_value, policy)
    if beyond is None or not (beyond or _can_tell(one, tests, policy)):
        few = f"{broken}, but {one.found.pairs} pairs are too few to tell it from chance"
        return INCOMPLETE, f"{few}; add samples, or set alpha: null"
    if beyond and one.scores.lost and not _drops_even_at_best(one):
        return INCOMPLETE, f"{broken}, but the {len(one.scores.lost)} that failed to be scored could change it"
    if beyond:
        return FAIL, f"{broken}{_chance(p_value)}{_of_pairs(one)}"
    if gap := _coverage_gap(one, policy):
        return INCOMPLETE, f"{said}: {gap}"
    return PASS, f"{said}: within noise ({_noise(one, p_value, policy)}){one.unpaired}"


def _is_beyond_chance(one: _Held, p_value: float | None, policy: CiGate) -> bool | None:
    """Whether a drop is more than chance; None where that cannot be told."""
    if policy.alpha is None:
        return True
    if one.statistic == "mean":
        return None if p_value is None else p_value < policy.alpha
    if one.found.interval is None or one.found.pairs < count_needed(one.statistic):
        return None
    low, high = (end * -one.sign for end in one.found.interval)
    return min(low, high) > 0


def _can_tell(one: _Held, tests: int, policy: CiGate) -> bool:
    """Whether so many pairs could have shown a drop at all."""
    if policy.alpha is None or one.statistic != "mean":
        return True
    return can_reach(one.found.pairs, policy.alpha, tests, sides=1)


def _coverage_gap(one: _Held, policy: CiGate) -> str | None:
    """Samples that the baseline has scored and this run failed to, where they are too many to pass over."""
    lost, total = len(one.scores.lost), one.found.pairs + len(one.scores.lost)
    if lost and one.found.pairs / total < policy.min_coverage:
        return f"{lost} of {total} that the baseline has scored could not be, minCoverage is {policy.min_coverage:g}"
    return None


def _drops_even_at_best(one: _Held) -> bool:
    """Whether the limit stays broken had every lost score been the best that a score from 0 to 1 can be."""
    values = {*one.scores.baseline, *one.scores.candidate}
    if one.statistic != "mean" or one.before is None or not all(0 <= value <= 1 for value in values):
        return False
    best = 1.0 if one.sign > 0 else 0.0
    lost = set(one.scores.lost)
    before = [sample.scores[one.metric].value or 0.0 for sample in one.before.samples if sample.id in lost]
    gained = sum((best - value) * one.sign for value in before)
    drop = (one.drop * one.found.pairs - gained) / (one.found.pairs + len(before))
    return drop > one.limit + _ROUNDING


def _chance(p_value: float | None) -> str:
    return "" if p_value is None else f" (p = {p_value:.2g})"


def _of_pairs(one: _Held) -> str:
    return f" over {one.found.pairs} pairs{one.unpaired}" if one.unpaired else ""


def _noise(one: _Held, p_value: float | None, policy: CiGate) -> str:
    if one.statistic != "mean" or p_value is None:
        return f"the interval of the difference holds 0; {one.found.pairs} pairs"
    labels = label_clusters(one.scores.members, one.cluster)
    # A one-sided test at alpha finds what a two-sided one does at twice alpha.
    twice = min(0.999, 2 * (policy.alpha or 0.05))
    shown = compute_minimum_detectable_change(one.scores.differences, twice, clusters=labels)
    can_show = f"; {one.found.pairs} pairs can show a change of {shown:.2g}" if shown else ""
    return f"p = {p_value:.2g}{can_show}"
