"""Decide one metric of the regression gate: whether it dropped by more than its limit, beyond noise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    Basis,
    DatasetResult,
    Direction,
    RegressionOutcome,
    Run,
    Score,
    VerdictStatus,
)
from evalspec.model.comparisons import Delta
from evalspec.model.verdicts import RegressionRule
from evalspec.verdict.comparison.comparability import was_narrowed
from evalspec.verdict.comparison.drops import BY_VALUE, PROMOTE
from evalspec.verdict.comparison.pairing import (
    LOST,
    Pair,
    SamplePairs,
    ScorePairs,
    compute_delta,
    list_unpaired,
    pair_scores,
    sign_of,
    to_paired,
)
from evalspec.verdict.comparison.wording import render_p
from evalspec.verdict.validity.changes import Evidence, PairedScores, SignificanceRules, weigh
from evalspec.verdict.validity.coverage import LostSamples, exceeds_share
from evalspec.verdict.validity.estimates import FEW
from evalspec.verdict.wording import render_value

if TYPE_CHECKING:
    from evalspec.verdict.correction.estimates import Corrected

PASS, FAIL = VerdictStatus.PASS, VerdictStatus.FAIL
INCOMPLETE, NOT_GATED = VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED

_ROUNDING = 1e-9


class Matched(Struct, frozen=True):
    """A dataset in both runs. `blocked`: why no samples can be compared, in which case none are paired.

    `lost`: samples of the baseline, if they are more than maxRemoved: each counts at its worst.
    """

    before: DatasetResult | None
    after: DatasetResult
    blocked: str | None
    pairs: SamplePairs
    lost: LostSamples = LostSamples()


class Held(Struct, frozen=True):
    """A metric of a dataset and its limit. `blocked`: why it cannot be decided, if this is known in advance.

    `people`: the difference as people see it, which then takes the place of the scores. `judged`: those scores.
    """

    baseline: Run
    dataset: Matched
    metric: str
    limit: float
    blocked: str | None = None
    skipped: str | None = None
    scores: ScorePairs = field(default_factory=ScorePairs)
    found: Delta = field(default_factory=lambda: Delta(None, None, None, None, 0))
    paired: PairedScores | None = None
    evidence: Evidence | None = None
    people: "Corrected | None" = None
    judged: PairedScores | None = None

    @property
    def after(self) -> DatasetResult:
        """Return the dataset of the new run."""
        return self.dataset.after

    @property
    def statistic(self) -> str:
        """Return the statistic of the metric."""
        return self.after.metrics[self.metric].statistic

    @property
    def drop(self) -> float:
        """Return how much worse the candidate is; negative if it is better."""
        return -(self.found.delta or 0.0) * sign_of(self.after.metrics[self.metric].direction)

    @property
    def change(self) -> str:
        """Return the word for a change for the worse."""
        return "drop" if self.after.metrics[self.metric].direction is Direction.HIGHER else "rise"

    def show(self, value: float) -> str:
        """Return a value of the metric as text."""
        return render_value(self.metric, value)


class _Decision(NamedTuple):
    """A decision on a metric. `proven`: whether the data rule out a drop beyond the limit.

    `is_of_scores`: whether the scores decide, and not those that are missing.
    """

    status: VerdictStatus
    reason: str
    proven: bool = False
    is_of_scores: bool = True


def pair_held(one: Held, policy: CiGate, more: Sequence[Pair] = ()) -> Held:
    """Add the scores of both runs and their difference. `more`: pairs beside those of the dataset."""
    if one.blocked or one.skipped:
        return one
    scores = pair_scores((*one.dataset.pairs.both, *more), one.metric).pick()
    found = compute_delta(scores, one.metric, one.statistic)
    tested = one.statistic == "mean" and len(scores) and policy.alpha is not None
    paired = to_paired(scores, one.metric, one.after, one.after.cluster) if tested else None
    paired = replace(paired, margin=one.limit) if paired is not None else None
    return replace(one, scores=scores, found=found, paired=paired)


def decide_drop(one: Held, policy: CiGate) -> RegressionOutcome:
    """Return the outcome of the limit on a metric."""
    evidence, found = one.evidence, one.found
    decision = _judge(one, policy)
    if decision.status is PASS and _would_break(one, policy):
        decision = _Decision(INCOMPLETE, one.dataset.lost.describe(), is_of_scores=False)
    own = evidence if one.people is None else None
    return RegressionOutcome(
        one.after.name,
        one.metric,
        decision.status,
        found.baseline,
        found.candidate,
        found.delta if one.people is None else one.people.value,
        interval=own.estimate.interval if own else one.people.interval if one.people else None,
        p_value=own.adjusted if own else None,
        basis=Basis.PEOPLE if one.people else None,
        pairs=found.pairs,
        reason=decision.reason,
        units=evidence.scores.count_units if evidence else 0,
        unpaired=len(list_unpaired(one.scores)),
        proven=decision.proven,
        worsened=_find_worsened(one) if decision.status is not PASS and decision.is_of_scores else {},
    )


def _would_break(one: Held, policy: CiGate) -> bool:
    """Return whether a PASS would be none if each sample that was removed or edited had the worst score now.

    The worst latency is unknown, so what has no range counts only if it is more than maxNotApplicable.
    """
    lost, bounds = one.dataset.lost.samples, one.after.metrics[one.metric].bounds
    if not lost:
        return False
    if bounds is None or one.statistic != "mean":
        return exceeds_share(len(lost), one.found.pairs + len(lost), policy.max_not_applicable)
    worst = {one.metric: Score.scored(bounds[sign_of(one.after.metrics[one.metric].direction) < 0])}
    held = pair_held(one, policy, [(old, replace(old, scores=worst, attempts=())) for old in lost])
    if held.paired is not None:
        usual = SignificanceRules(policy.alpha or 0.05, two_sided=False)
        rules = usual if one.evidence is None else one.evidence.rules
        held = replace(held, evidence=weigh([[held.paired]], rules)[0][0])
    return _judge(held, policy).status is not PASS


def _find_worsened(one: Held) -> dict[str, float]:
    """Return the value in the baseline of each sample that got worse, by id.

    If the runs have different numbers of attempts, the values of all attempts have to be worse too: reports show those.
    """
    better = sign_of(one.after.metrics[one.metric].direction)
    before, after = (_list_values(part, one.metric) for part in (one.dataset.before, one.after))
    pairs = zip(one.scores.members, one.scores.differences, strict=True)
    worse = [sample.id for (_, sample), difference in pairs if difference * better < 0]
    return {id: before[id] for id in worse if (after[id] - before[id]) * better < 0}


def _list_values(part: DatasetResult | None, metric: str) -> dict[str, float]:
    found = ((one.id, one.scores[metric].value) for one in (part.samples if part else ()) if metric in one.scores)
    return {id: value for id, value in found if value is not None}


def _judge(one: Held, policy: CiGate) -> _Decision:
    if one.skipped:
        return _Decision(NOT_GATED, one.skipped)
    if one.blocked:
        return _Decision(INCOMPLETE, one.blocked)
    if one.found.baseline is None or one.found.candidate is None:
        return _Decision(INCOMPLETE, f"no sample is scored in both runs{_describe_alone(one)}")
    if gap := _find_gap(one, policy):
        return _Decision(INCOMPLETE, gap, is_of_scores=False)
    if one.people is not None:
        return _weigh_people(one, one.people, policy)
    broken = one.drop > one.limit + _ROUNDING
    over = f"worse by {one.show(one.drop)}, maxDrop is {one.limit:g}"
    if one.evidence is None:
        how = "" if policy.alpha is None else f" ({BY_VALUE})"
        within = "not worse" if one.drop <= 0 else f"within maxDrop {one.limit:g}"
        return _Decision(FAIL, f"{over}{how}") if broken else _Decision(PASS, f"{within}{how}")
    return _weigh(one, one.evidence, policy, over if broken else None)


def _weigh_people(one: Held, people: "Corrected", policy: CiGate) -> _Decision:
    """Decide by the difference as people see it, by the rule of the scores: beyond the limit, and no noise."""
    better = sign_of(one.after.metrics[one.metric].direction)
    drop, *ends = (-better * value for value in (people.value, *people.interval))
    least, largest = (drop, drop) if policy.alpha is None else (min(ends), max(ends))
    what, seen, (first, last) = f"a {one.change} of", drop, (least, largest)
    if drop <= 0:
        what, seen, (first, last) = "it better by", -drop, (-largest, -least)
    said = f"people see {what} {one.show(seen + 0.0)} ({one.show(first + 0.0)} to {one.show(last + 0.0)})"
    said += f", the judge a {one.change} of {one.show(one.drop + 0.0)}"
    broken = drop > one.limit + _ROUNDING
    if broken and least > 0:
        return _Decision(FAIL, f"{said}; maxDrop is {one.limit:g}")
    if largest <= one.limit + _ROUNDING:
        return _Decision(PASS, f"{said}; a larger one than {one.limit:g} is excluded", proven=True)
    if policy.regression is RegressionRule.NOT_WORSE:
        return _Decision(INCOMPLETE, f"{said}; maxDrop {one.limit:g} is not excluded")
    if broken and _is_sure(one, policy):
        few = "the judge's drop is no noise, and the labels are too few to refute it: label more replies of both runs"
        return _Decision(INCOMPLETE, f"{said}; {few}")
    noise = "may be noise" if broken else f"not beyond maxDrop {one.limit:g}"
    return _Decision(PASS, f"{said}; {noise}")


def _is_sure(one: Held, policy: CiGate) -> bool:
    """Return whether the judge's scores alone would break the limit."""
    if one.judged is None or policy.alpha is None or one.drop <= one.limit + _ROUNDING:
        return False
    return weigh([[one.judged]], SignificanceRules(policy.alpha, two_sided=False))[0][0].is_significant


def _weigh(one: Held, evidence: Evidence, policy: CiGate, broken: str | None) -> _Decision:
    """Decide by the paired test. `broken`: the message if the drop exceeds the limit, otherwise None."""
    count = f"{_describe_units(evidence.scores)}{_describe_alone(one)}"
    if broken and evidence.is_significant:
        if not _drops_even_at_best(one):
            return _Decision(INCOMPLETE, f"{broken}, but samples without a score in this run could change that")
        return _Decision(FAIL, f"{broken} ({_render_p(evidence, policy)}, {count})")
    if broken and not evidence.can_reach_alpha:
        alpha = evidence.rules.alpha
        few = f"{count} cannot show a drop at alpha {alpha:g}: at least {evidence.units_needed} are needed"
        return _Decision(INCOMPLETE, f"{broken}, but {few}")
    largest = evidence.largest_drop
    if largest is not None and largest < one.limit - _ROUNDING:
        return _Decision(PASS, f"a {one.change} of {one.limit:g} is excluded ({count})", proven=True)
    if policy.regression is RegressionRule.NOT_WORSE:
        return _Decision(INCOMPLETE, f"{_describe_lack(one, evidence)} ({count})")
    return _Decision(PASS, f"{_describe_doubt(one, evidence, policy, few=bool(broken))} ({count})")


def _render_p(evidence: Evidence, policy: CiGate) -> str:
    """Return the p-value, with its level if baseline and anchor share alpha."""
    alpha = evidence.rules.alpha
    return f"{render_p(evidence.adjusted)}{'' if alpha == policy.alpha else f' at level {alpha:.2g}'}"


def _describe_lack(one: Held, evidence: Evidence) -> str:
    """Return why a drop of maxDrop is not ruled out, as `notWorse` requires."""
    largest, needed = evidence.largest_drop, evidence.compute_needed_to_exclude(one.limit)
    worse = f"worse by {one.show(one.drop)}" if one.drop > 0 else ""
    doubt = f"a {one.change} up to {one.show(largest)} cannot be ruled out" if largest is not None else ""
    said = "; ".join(filter(None, [worse, doubt or evidence.estimate.reason]))
    if needed is None or needed <= len(evidence.scores):
        return f"{said}, and maxDrop is {one.limit:g}"
    return f"{said}, and maxDrop is {one.limit:g}; about {needed:,} samples would exclude it, if nothing got worse"


def _describe_doubt(one: Held, evidence: Evidence, policy: CiGate, *, few: bool) -> str:
    """Return what a PASS leaves open. `few`: mention if too few units changed for any drop to be significant."""
    said = f"worse by {one.show(one.drop)}" if one.drop > 0 else ""
    if said and one.drop > one.limit + _ROUNDING:
        beyond = f"beyond maxDrop {one.limit:g}, " if one.limit else ""
        said += f", {beyond}not significant ({_render_p(evidence, policy)}){_describe_few(evidence) if few else ''}"
    largest = evidence.largest_drop
    if largest is None:
        return said or "not worse"
    if largest <= 0:
        return "better"
    return "; ".join(filter(None, [said, f"a {one.change} up to {one.show(largest)} cannot be ruled out"]))


def _describe_few(evidence: Evidence) -> str:
    """Return `: only 4 clusters changed, but at least 5 are needed`; empty if enough changed."""
    needed = evidence.rules.count_needed(chance=evidence.scores.chance)
    if evidence.changed >= needed:
        return ""
    unit = "cluster" if evidence.scores.is_clustered else "sample"
    return f": only {counted(evidence.changed, unit)} changed, but at least {needed} are needed"


def _find_gap(one: Held, policy: CiGate) -> str | None:
    """Return the reason if too many samples have a score in one run only and could change the outcome."""
    if _is_broken_at_best(one, policy):
        return None
    if reason := describe_selection(one.baseline, one.after, one.dataset.pairs, policy):
        return reason
    share = policy.max_not_applicable
    lost, total = len(one.scores.lost), one.found.pairs + len(one.scores.lost)
    if lost and one.found.pairs / total < policy.min_coverage:
        return f"{lost} of {total} samples of the baseline have no score now, minCoverage is {policy.min_coverage:g}"
    alone = len(list_unpaired(one.scores))
    total = one.found.pairs + alone
    if exceeds_share(alone, total, share):
        return f"{alone} of {total} samples are scored in one run only, maxNotApplicable is {share:g}"
    return None


def describe_selection(baseline: Run, after: DatasetResult, pairs: SamplePairs, policy: CiGate) -> str | None:
    """Return the reason if the baseline's own selection left out too many samples of this run. New ones are no gap."""
    unpaired, total = len(pairs.only_candidate), len(after.samples)
    if not was_narrowed(baseline, after.name) or not total or (total - unpaired) / total >= policy.min_coverage:
        return None
    share = f"{unpaired} of {total} samples were not selected when the baseline was made"
    return f"{share}, minCoverage is {policy.min_coverage:g}: {PROMOTE}"


def _is_broken_at_best(one: Held, policy: CiGate) -> bool:
    """Return whether the drop is significant and exceeds the limit, whatever the lost scores would have been."""
    significant = policy.alpha is None or (one.evidence is not None and one.evidence.is_significant)
    return significant and one.drop > one.limit + _ROUNDING and _drops_even_at_best(one)


def _drops_even_at_best(one: Held) -> bool:
    """Return whether the drop would exceed the limit even if every lost score were the best possible."""
    lost = {name for status in LOST for name in one.scores.only_baseline.get(status, ())}
    if not lost:
        return True
    bounds = one.after.metrics[one.metric].bounds
    if one.statistic != "mean" or one.dataset.before is None or bounds is None:
        return False
    sign = sign_of(one.after.metrics[one.metric].direction)
    best = bounds[1] if sign > 0 else bounds[0]
    before = [sample.scores[one.metric].value or 0.0 for sample in one.dataset.before.samples if sample.id in lost]
    gained = sum((best - value) * sign for value in before)
    drop = (one.drop * one.found.pairs - gained) / (one.found.pairs + len(before))
    return drop > one.limit + _ROUNDING


def _describe_units(scores: PairedScores) -> str:
    """Return text like `40 samples in 4 clusters`, with `only` if they are few."""
    count = counted(len(scores), "sample")
    if scores.is_clustered:
        count += f" in {counted(scores.count_units, 'cluster')}"
    return f"only {count}" if scores.count_units < FEW else count


def _describe_alone(one: Held) -> str:
    alone = list_unpaired(one.scores)
    unscored = f", {len(alone)} scored in one run only" if alone else ""
    return f"{unscored}{one.dataset.pairs.describe_unpaired()}"
