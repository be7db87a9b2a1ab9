"""Confirm drops: a drop that a test found once fails the gate only if a second test of the same samples finds it too.

Of many runs of an unchanged agent, some look significantly worse by chance. The same chance twice in a row is rare.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Confirmation, ConfirmationStatus, DatasetResult, RegressionOutcome, VerdictStatus
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.verdicts import RegressionRule
from evalspec.verdict.comparison.baseline import Baseline, count_attempts
from evalspec.verdict.comparison.regression import OutcomeKey, decide_regressions

ENOUGH_ATTEMPTS = 5
"""Attempts per sample in a baseline that win back the power which confirmation costs."""

_STATUSES = {VerdictStatus.FAIL: ConfirmationStatus.CONFIRMED, VerdictStatus.PASS: ConfirmationStatus.REFUTED}


def confirm(
    outcomes: Sequence[RegressionOutcome],
    baseline: Baseline,
    second: Sequence[DatasetResult] | str,
    policy: CiGate,
    fingerprint: Fingerprint,
    removed: Mapping[str, Collection[str]],
) -> tuple[RegressionOutcome, ...]:
    """Return the outcomes. Those that fail by a test are confirmed, or become what the second attempts say alone.

    `second`: the datasets with the second attempts, or why there are none. `removed`: as in `decide_regressions`.
    """
    doubted = [one.key for one in outcomes if one.rests_on_test]
    if not doubted:
        return tuple(outcomes)
    if isinstance(second, str):
        lacking = Confirmation(ConfirmationStatus.NOT_CONFIRMED, second)
        return tuple(_apply(one, lacking, one.status) if one.rests_on_test else one for one in outcomes)

    def decide(policy: CiGate) -> dict[OutcomeKey, RegressionOutcome]:
        found = decide_regressions(baseline, second, policy, fingerprint, removed=removed, only=doubted)
        return {one.key: one for one in found}

    # The test alone confirms a drop or refutes it. What a refuted drop leaves open is a matter of all rules.
    alone = policy.model_copy(update={"regression": RegressionRule.DROP, "max_removed": 1.0})
    tests, settled = decide(alone), decide(policy)
    return tuple(
        _apply(one, _describe(tests[one.key], settled[one.key]), settled[one.key].status) if one.rests_on_test else one
        for one in outcomes
    )


def _describe(second: RegressionOutcome, settled: RegressionOutcome) -> Confirmation:
    status = _STATUSES.get(second.status, ConfirmationStatus.NOT_CONFIRMED)
    reason = (settled if status is ConfirmationStatus.REFUTED else second).reason or ""
    return Confirmation(status, reason, second.candidate, second.delta, second.p_value, second.pairs)


def _apply(outcome: RegressionOutcome, confirmation: Confirmation, settled: VerdictStatus) -> RegressionOutcome:
    """Return the outcome with its confirmation. `settled`: its status if the second attempts refute it."""
    words = {
        ConfirmationStatus.CONFIRMED: f"; confirmed by second attempts: {confirmation.reason}",
        ConfirmationStatus.REFUTED: f", but not in second attempts: {confirmation.reason}",
        ConfirmationStatus.NOT_CONFIRMED: f"; not confirmed: {confirmation.reason}",
    }
    reason = f"{outcome.reason}{words[confirmation.status]}"
    if confirmation.status is ConfirmationStatus.REFUTED:
        return replace(outcome, status=settled, reason=reason, confirmation=confirmation, worsened={})
    return replace(outcome, reason=reason, confirmation=confirmation)


def list_advice(outcomes: Sequence[RegressionOutcome], baseline: Baseline) -> list[str]:
    """Return a note for each drop that is refuted, and how more attempts in the baseline would help."""
    attempts = count_attempts(baseline.run)
    refuted = [
        one
        for one in outcomes
        if one.confirmation is not None and one.confirmation.status is ConfirmationStatus.REFUTED
    ]
    told = [f"{one.label}: a drop was significant in the first attempts, but not in the second" for one in refuted]
    if not refuted or attempts >= ENOUGH_ATTEMPTS:
        return told
    return [
        *told,
        f"the baseline has {attempts} of the {ENOUGH_ATTEMPTS} attempts per sample with which confirmed tests find as "
        "many drops as single ones: evaluate the agreed state with --repeat 5 and promote that run",
    ]
