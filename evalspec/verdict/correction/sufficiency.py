"""Why what people say about a judged metric is not enough for a limit: too little, undecided, or contradictory."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from evalspec.inputs.manifest.metric_spec import find_scored
from evalspec.model import Basis, Correction, PeopleScores, RegressionOutcome, Threshold, VerdictStatus
from evalspec.model.corrections import JudgeCorrection
from evalspec.verdict.correction.estimates import SEQUENCE, Corrected
from evalspec.verdict.wording import list_left_out

if TYPE_CHECKING:
    from evalspec.inputs.manifest.gate_schema import JudgePolicy

LEAST_ALPHA = 0.6
"""Krippendorff's alpha below which people do not agree on what they say about a metric."""

NO_LABELS = "there are no blind random labels"


def is_decided(limit: Threshold, interval: tuple[float, float]) -> bool | None:
    """Return whether a limit is met by all of an interval; None if an end is on either side."""
    low, high = interval
    if limit.undercut_by(high) or limit.exceeded_by(low):
        return False
    return (limit.holds(low) and limit.holds(high)) or None


def explain_undecided(limit: Threshold, estimate: Corrected | None) -> str | None:
    """Return why labels that were to end when they decide a limit have not decided it; None if they have."""
    if estimate is None or estimate.method != SEQUENCE or is_decided(limit, estimate.interval) is not None:
        return None
    low, high = estimate.interval
    more = f"`evalspec label latest --metric {shlex.quote(find_scored(limit.metric))} --until-decided`"
    return f"people's mean is between {low:.3g} and {high:.3g}, so its labels have not decided yet: {more}"


def list_objections(
    name: str,
    policy: "JudgePolicy",
    said: PeopleScores | None,
    agreement: Correction | None,
    *,
    is_met: bool,
    is_mean: bool = True,
) -> Iterator[str]:
    """Yield why a limit on a judged metric is undecided, though its value decides it.

    `name`: the column of the limit. `said`, `agreement`: what people say, if the value is theirs or could be. `is_met`:
    whether the value meets the limit. `is_mean`: whether the limit is on the mean.
    """
    metric = shlex.quote(find_scored(name))
    label = f"`evalspec label latest --metric {metric} --random 50`, then `evalspec rescore latest agent.yaml`"
    is_theirs = agreement is not None and agreement.value is not None
    if not is_mean and policy.correct is JudgeCorrection.REQUIRE:
        yield "ciGate.judge requires people's labels, which correct only means: put the limit on the mean"
    if not is_theirs and policy.correct is JudgeCorrection.REQUIRE:
        why = "; ".join([(agreement and agreement.reason) or NO_LABELS, *list_left_out([said] if said else [])])
        yield f"ciGate.judge requires people's labels, and {why}: {label}"
    if policy.min_agreement is not None:
        kappa = agreement.kappa_interval[0] if agreement and agreement.kappa_interval else None
        if kappa is None:
            yield f"ciGate.judge.minAgreement is {policy.min_agreement:g}, and the agreement is unknown: {label}"
        elif kappa < policy.min_agreement:
            low = f"kappa of judge and people may be as low as {kappa:z.2f}; minAgreement is {policy.min_agreement:g}"
            may_reach = agreement is not None and (agreement.kappa or 0.0) >= policy.min_agreement
            more = f"label more replies: `evalspec label latest --metric {metric} --new`"
            yield f"{low}: {more if may_reach else 'improve the prompt of the judge, or use another judge'}"
    alpha = said.alpha if said and is_theirs else None
    if alpha is not None and alpha < LEAST_ALPHA and is_met:
        yield f"people do not agree with each other: alpha is {alpha:z.2f}, and {LEAST_ALPHA:g} is needed"


def doubt_comparison(
    outcome: RegressionOutcome,
    correction: Correction | None,
    said: Sequence[PeopleScores],
    policy: "JudgePolicy",
) -> RegressionOutcome:
    """Return the outcome of a judged metric, INCOMPLETE where the manifest asks for more than people say.

    `correction`: the metric's in the new run. `said`: what people say about the metric in each run.
    """
    if outcome.status not in (VerdictStatus.PASS, VerdictStatus.FAIL) or policy.correct is JudgeCorrection.OFF:
        return outcome
    is_theirs, is_met = outcome.basis is Basis.PEOPLE, outcome.status is VerdictStatus.PASS
    least = min(said, key=lambda one: 1.0 if one.alpha is None else one.alpha, default=None)
    objections = list_objections(outcome.metric or "", policy, least, correction if is_theirs else None, is_met=is_met)
    reason = next(objections, None)
    if reason is not None:
        return replace(outcome, status=VerdictStatus.INCOMPLETE, reason=reason, worsened={})
    if is_theirs or not is_met:
        return outcome
    return replace(outcome, basis=Basis.JUDGE, reason=f"{outcome.reason}: the judge's opinion")
