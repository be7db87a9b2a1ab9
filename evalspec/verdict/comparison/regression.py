"""The regression gate: compare a run with its baseline.

A metric FAILS if it is worse by more than `maxDrop`, beyond noise. It is INCOMPLETE if too little was scored,
or if no outcome of so few samples could be significant. Otherwise, it PASSES. With `notWorse`, it PASSES only if the
data rule out a drop of `maxDrop`. A baseline that took the place of another has an anchor, which is compared in the
same way: the tests of both share the significance level. This module has no side effects.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec import structs
from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    ComparedWith,
    DatasetResult,
    PeopleScores,
    RegressionOutcome,
    Run,
    SampleStatus,
    Score,
    VerdictStatus,
)
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.fingerprints import Fingerprint, SelectionDigest
from evalspec.model.verdicts import RegressionRule
from evalspec.verdict.comparison.baseline import Baseline, common_datasets
from evalspec.verdict.comparison.comparability import list_metric_mismatches, list_model_mismatches
from evalspec.verdict.comparison.drop_decision import Held, Matched, decide_drop, pair_held
from evalspec.verdict.comparison.drops import NO_SCORES, PROMOTE, REJUDGE, explain_block, resolve_limits
from evalspec.verdict.comparison.new_failures import decide_new_failures
from evalspec.verdict.comparison.pairing import SamplePairs, pair_samples
from evalspec.verdict.validity.changes import SignificanceRules, weigh
from evalspec.verdict.validity.coverage import LostSamples, exceeds_share

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED

ANCHOR_SHARE = 0.9
"""Share of the significance level that the anchor has. Of drops in small steps, the anchor shows more than the last
baseline; single drops show in both."""

OutcomeKey = tuple[str, str | None, str]
"""See RegressionOutcome.key."""


def decide_regressions(
    baseline: Baseline,
    datasets: Sequence[DatasetResult],
    policy: CiGate,
    fingerprint: Fingerprint,
    *,
    removed: Mapping[str, Collection[str]] | None = None,
    only: Collection[OutcomeKey] | None = None,
    people: Sequence[PeopleScores] = (),
) -> tuple[RegressionOutcome, ...]:
    """Return the outcome of each maxDrop, by dataset and metric, then of new failures, then of the anchor.

    `datasets` and `fingerprint` belong to the run that is compared with the baseline. The p-values are one-sided and
    adjusted over all metrics. `removed`: ids of samples that are gone from the files of the datasets, by dataset; None:
    those that the run lacks.
    `only`: the outcomes to decide, by their key; None for all. `people`: what people say about the scores of the run,
    which decides where they say something about the baseline too.
    """
    candidate = Run(id="", datasets=tuple(datasets), fingerprint=fingerprint)
    matched = [
        _match(baseline.run, candidate, dataset, policy, None if removed is None else removed.get(dataset.name, ()))
        for dataset in datasets
    ]
    families = _choose(_hold_all(baseline.run, candidate, matched, policy), ComparedWith.BASELINE, only)
    if people and baseline.people and policy.judge.correct is not JudgeCorrection.OFF:
        families = _ask_people(families, policy, baseline.people, people)
    # Nobody promoted the newest run of a branch, so its anchor has to decide: it may be neither edited nor cut.
    is_branch = policy.server_baseline is not None and policy.server_baseline.branch is not None
    # What cannot be ruled out is a matter of the baseline alone: the anchor is there for drops.
    eased = {"regression": RegressionRule.DROP, "new_failures": None} | ({} if is_branch else {"max_removed": 1.0})
    of_anchor = policy.model_copy(update=eased)
    anchored: list[list[Held]] = []
    if baseline.anchor is not None:
        gone = _list_gone(baseline.anchor, baseline.run, removed or {}) if is_branch else {}
        old = [_match(baseline.anchor, candidate, one, of_anchor, gone.get(one.name, ())) for one in datasets]
        anchored = _hold_all(baseline.anchor, candidate, old, of_anchor)
    is_shared = policy.regression is RegressionRule.DROP and any(one.paired for family in anchored for one in family)
    anchored = _choose(anchored, ComparedWith.ANCHOR, only)
    outcomes = _decide_all(families, policy, (1 - ANCHOR_SHARE if is_shared else 1.0) * _share_of_scores(families))
    if only is None:
        outcomes += list_unmeasured(baseline.run, candidate, policy)
    if policy.new_failures is not None:
        wanted = [one for one in matched if only is None or (one.after.name, None, ComparedWith.BASELINE) in only]
        shared = policy.model_copy(update={"alpha": policy.alpha and policy.alpha / len(datasets)})
        outcomes += [_count_new_failures(baseline.run, candidate, dataset, shared) for dataset in wanted]
    anchored_outcomes = _decide_all(anchored, of_anchor, ANCHOR_SHARE if is_shared else 1.0)
    outcomes += (_as_anchored(one, is_needed=is_branch) for one in anchored_outcomes)
    return tuple(outcomes)


def _list_gone(anchor: Run, newest: Run, removed: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return the samples of the anchor that are gone, by dataset: from the newest run of all samples, or since then."""
    return {
        old.name: {one.id for one in old.samples} - {one.id for one in new.samples} | {*removed.get(old.name, ())}
        for old, new in common_datasets(anchor, newest)
    }


def _hold_all(baseline: Run, candidate: Run, matched: Sequence[Matched], policy: CiGate) -> list[list[Held]]:
    """Return the metrics with a maxDrop by dataset, with the scores of both runs."""
    return [[pair_held(one, policy) for one in _hold(baseline, candidate, dataset, policy)] for dataset in matched]


def _ask_people(
    families: Sequence[Sequence[Held]],
    policy: CiGate,
    before: Sequence[PeopleScores],
    after: Sequence[PeopleScores],
) -> list[list[Held]]:
    """Return the metrics with the difference as people see it, where both runs have enough of their labels.

    Each has an equal part of the significance level of all.
    """
    from evalspec.verdict.correction.people import correct_difference

    old, new = ({(one.dataset, one.metric): one for one in side} for side in (before, after))
    asked = [one for family in families for one in family if (one.after.name, one.metric) in old.keys() & new.keys()]
    confidence = 1 - 2 * (policy.alpha or 0.05) / max(1, sum(map(len, families)))
    found = []
    for family in families:
        kept = []
        for one in family:
            bounds = one.after.metrics[one.metric].bounds
            key = one.after.name, one.metric
            if one not in asked or one.blocked or one.skipped or one.statistic != "mean" or bounds is None:
                kept.append(one)
                continue
            said = correct_difference(
                one.dataset.pairs.both, one.metric, bounds, (old[key], new[key]), one.after.cluster, confidence
            )
            kept.append(one if isinstance(said, str) else replace(one, people=said, paired=None, judged=one.paired))
        found.append(kept)
    return found


def _share_of_scores(families: Sequence[Sequence[Held]]) -> float:
    """Return the part of the significance level that is left to metrics whose scores decide."""
    every = [one for family in families for one in family]
    return sum(one.people is None for one in every) / max(1, len(every)) or 1.0


def _choose(
    families: Sequence[list[Held]], against: ComparedWith, only: Collection[OutcomeKey] | None
) -> list[list[Held]]:
    """Return the metrics to decide. `only`: their keys; None for all."""
    if only is None:
        return list(families)
    return [[one for one in family if (one.after.name, one.metric, against) in only] for family in families]


def _decide_all(families: Sequence[Sequence[Held]], policy: CiGate, share: float) -> list[RegressionOutcome]:
    """Return the outcomes of the limits. `share`: of the significance level."""
    rules = SignificanceRules(share * (policy.alpha or 0.05), two_sided=False)
    evidence = weigh([[one.paired for one in family if one.paired is not None] for family in families], rules)
    outcomes = []
    for family, found in zip(families, evidence, strict=True):
        weighed = iter(found)
        for one in family:
            outcomes.append(decide_drop(one if one.paired is None else replace(one, evidence=next(weighed)), policy))
    return outcomes


def _as_anchored(outcome: RegressionOutcome, *, is_needed: bool) -> RegressionOutcome:
    """Return an outcome as that of the anchor. One that cannot be compared any more decides nothing, unless needed."""
    if outcome.status is not INCOMPLETE:
        return replace(outcome, against=ComparedWith.ANCHOR)
    fix = ". promote a run with --anchor REASON" if is_needed else ""
    reason = outcome.reason if outcome.worsened else f"the anchor cannot be compared: {outcome.reason}{fix}"
    return replace(outcome, against=ComparedWith.ANCHOR, status=INCOMPLETE if is_needed else NOT_GATED, reason=reason)


def _match(
    baseline: Run, candidate: Run, after: DatasetResult, policy: CiGate, removed: Collection[str] | None = ()
) -> Matched:
    """Return a dataset with its pairs, without edited samples. `removed`: ids; None: of all that this run lacks."""
    before = baseline.find_dataset(after.name)
    blocked = explain_block(baseline, candidate, after.name)
    if blocked or before is None:
        return Matched(before, after, blocked, SamplePairs())
    pairs = pair_samples(before, after)
    gone = set(pairs.only_baseline if removed is None else removed)
    lost = LostSamples(tuple(one for one in before.samples if one.id in gone), tuple(old for old, _ in pairs.edited))
    is_much = exceeds_share(len(lost), len(before.samples), policy.max_removed)
    return Matched(before, after, None, pairs, lost if is_much else LostSamples())


def _count_new_failures(baseline: Run, candidate: Run, dataset: Matched, policy: CiGate) -> RegressionOutcome:
    name, before = dataset.after.name, dataset.before
    if before is None:
        return RegressionOutcome(name, None, INCOMPLETE, reason=dataset.blocked)
    gated = {
        limit.metric for limit in dataset.after.thresholds if limit.status is not NOT_GATED
    } & before.metrics.keys()
    changes = ((metric, _explain_change(baseline, candidate, name, metric)) for metric in sorted(gated))
    blocked = dataset.blocked or next((f"{metric}: {why}" for metric, why in changes if why), None)
    if blocked:
        return RegressionOutcome(name, None, INCOMPLETE, reason=blocked)
    found = decide_new_failures(before, dataset.after, policy)
    found = structs.replace(found, reason=f"{found.reason}{dataset.pairs.describe_unpaired()}")
    if found.status is not PASS or not dataset.lost:
        return found
    failed = dict.fromkeys(dataset.after.metrics, Score.failed("removed"))
    failing = [replace(old, status=SampleStatus.FAILED, scores=failed, attempts=()) for old in dataset.lost.samples]
    at_worst = decide_new_failures(before, replace(dataset.after, samples=(*dataset.after.samples, *failing)), policy)
    if at_worst.status is PASS:
        return found
    return structs.replace(found, status=INCOMPLETE, reason=dataset.lost.describe())


def list_unmeasured(baseline: Run, candidate: Run, policy: CiGate) -> list[RegressionOutcome]:
    """Return an outcome per dataset or metric of the baseline that this run lacks. Datasets may be deselected."""
    datasets = {dataset.name: dataset for dataset in candidate.datasets}
    selection = candidate.fingerprint.selection or SelectionDigest()
    is_chosen = selection.datasets or selection.retriever
    gone: list[RegressionOutcome] = []
    for before in baseline.datasets:
        after = datasets.get(before.name)
        if after is None:
            reason = f"the baseline has this dataset, but the run does not: {PROMOTE}"
            found = RegressionOutcome(before.name, None, INCOMPLETE, reason=reason, of_baseline=True)
            gone += [] if is_chosen else [found]
            continue
        reason = f"the baseline has it, but this run does not compute it: {PROMOTE}"
        gone += [
            RegressionOutcome(before.name, metric, INCOMPLETE, reason=reason)
            for metric in resolve_limits(policy, before, before)
            if metric not in after.metrics
        ]
    return gone


def _explain_change(baseline: Run, candidate: Run, dataset: str, metric: str) -> str | None:
    """Return why a metric is not the same in both runs and what to do, or None."""
    changed = list_metric_mismatches(baseline, candidate, dataset, metric)
    if not changed:
        return None
    fix = REJUDGE if changed == list(list_model_mismatches(baseline, candidate)) else PROMOTE
    return f"{', '.join(changed)}: {fix}"


def _hold(baseline: Run, candidate: Run, dataset: Matched, policy: CiGate) -> list[Held]:
    """Return the metrics of a dataset with a maxDrop, and why they cannot be decided, if so."""
    before, after = dataset.before, dataset.after
    held = []
    for metric, limit in resolve_limits(policy, before or after, after).items():
        why = dataset.blocked or _explain_change(baseline, candidate, after.name, metric)
        if before is not None and metric not in before.metrics:
            why = why or NO_SCORES
        summary = after.metrics[metric]
        reasons = (sample.scores[metric].reason for sample in after.samples if metric in sample.scores)
        all_skipped = summary.skipped and summary.skipped == summary.expected
        skipped = next((reason for reason in reasons if reason), "it was skipped") if all_skipped else None
        held.append(Held(baseline, dataset, metric, limit, why, skipped))
    return held
