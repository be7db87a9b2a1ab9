"""Confirm drops: a drop that a test found once fails the gate only if a second test of the same samples finds it too.

Of many runs of an unchanged agent, some look significantly worse by chance. The same chance twice in a row is rare.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from evalspec.comparison.baseline import Baseline, count_attempts
from evalspec.comparison.regression import decide_regressions
from evalspec.manifest.gate_schema import CiGate
from evalspec.model import Confirmation, DatasetResult, RegressionOutcome, VerdictStatus

ENOUGH_ATTEMPTS = 5
"""Attempts per sample in a baseline that win back the power which confirmation costs."""

_STATUSES = {VerdictStatus.FAIL: "confirmed", VerdictStatus.PASS: "refuted"}


def confirm(
    outcomes: Sequence[RegressionOutcome],
    baseline: Baseline,
    second: Sequence[DatasetResult] | str,
    policy: CiGate,
    fingerprint: Mapping[str, Any],
) -> tuple[RegressionOutcome, ...]:
    """Return the outcomes. Those that fail by a test are confirmed, or pass because the second test differs.

    `second`: the datasets with the second attempts, or why there are none.
    """
    doubted = [one.key for one in outcomes if one.rests_on_test]
    if not doubted:
        return tuple(outcomes)
    if isinstance(second, str):
        again, why = {}, second
    else:
        found = decide_regressions(baseline, second, policy, fingerprint, removed={}, only=doubted)
        again, why = {one.key: _describe(one) for one in found}, "it was not tested again"
    lacking = Confirmation("not confirmed", why)
    return tuple(_apply(one, again.get(one.key, lacking)) if one.rests_on_test else one for one in outcomes)


def _describe(second: RegressionOutcome) -> Confirmation:
    status = _STATUSES.get(second.status, "not confirmed")
    reason = second.reason or ""
    return Confirmation(status, reason, second.candidate, second.delta, second.p_value, second.pairs)  # type: ignore[arg-type]


def _apply(outcome: RegressionOutcome, confirmation: Confirmation) -> RegressionOutcome:
    words = {
        "confirmed": f"; confirmed by second attempts: {confirmation.reason}",
        "refuted": f", but second attempts do not confirm it: {confirmation.reason}",
        "not confirmed": f"; not confirmed: {confirmation.reason}",
    }
    reason = f"{outcome.reason}{words[confirmation.status]}"
    if confirmation.status == "refuted":
        return replace(outcome, status=VerdictStatus.PASS, reason=reason, confirmation=confirmation, worsened={})
    return replace(outcome, reason=reason, confirmation=confirmation)


def list_advice(outcomes: Sequence[RegressionOutcome], baseline: Baseline) -> list[str]:
    """Return a note if a drop was not confirmed and the baseline has one attempt per sample."""
    attempts = count_attempts(baseline.run)
    refuted = any(one.confirmation is not None and one.confirmation.status == "refuted" for one in outcomes)
    if not refuted or attempts >= ENOUGH_ATTEMPTS:
        return []
    return [
        f"the baseline has {attempts} of the {ENOUGH_ATTEMPTS} attempts per sample with which confirmed tests find as "
        "many drops as single ones: evaluate the agreed state with --repeat 5 and promote that run"
    ]
