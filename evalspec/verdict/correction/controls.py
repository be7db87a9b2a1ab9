"""What follows if a judge cannot distinguish known-good from known-bad cases: its scores decide nothing.

And how far the judges of a panel agree, which decides nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import comb

from msgspec.structs import replace

from evalspec.base.plural import counted
from evalspec.inputs.manifest.metric_spec import find_scored
from evalspec.model import Basis, Controls, DatasetResult, RegressionOutcome, Score, Threshold, VerdictStatus
from evalspec.model.fingerprints import JudgeDigest
from evalspec.model.scores import BY_ORDER, SAME_ANSWER, WITHOUT

FEWEST = 3
"""Pairs of good and bad cases without which no judge can pass: the smallest p-value of two pairs is 1/6."""
LEVEL = 0.05
"""The largest share of judges that score at random and pass."""
ROUNDS = (5, 10)
"""Numbers of pairs after which the judge is tested, each time at the same part of LEVEL."""

_DECIDED = (VerdictStatus.PASS, VerdictStatus.FAIL)


def plan_rounds(available: int) -> tuple[int, ...]:
    """Return after how many pairs the judge is tested; empty if there are too few."""
    sizes = tuple(dict.fromkeys(min(available, most) for most in ROUNDS))
    return sizes if available >= FEWEST else ()


def compute_p_value(good: Sequence[float], bad: Sequence[float]) -> float:
    """Return the probability that the good ones rank so high if the judge cannot distinguish them.

    It is exact, also with ties (Wilcoxon 1945): the share of all divisions of the scores with so high a rank sum.
    """
    ranks = _rank_twice([*good, *bad])
    observed = sum(ranks[: len(good)])
    ways = Counter({(0, 0): 1})
    for rank in ranks:
        ways += Counter({(size + 1, total + rank): count for (size, total), count in ways.items()})
    as_high = sum(count for (size, total), count in ways.items() if size == len(good) and total >= observed)
    return as_high / comb(len(ranks), len(good))


def _rank_twice(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value. Equal ones share the mean of their ranks."""
    return [2 * sum(other < one for other in values) + sum(other == one for other in values) for one in values]


def doubt_limit(limit: Threshold, dataset: str, controls: Sequence[Controls]) -> Threshold:
    """Return the outcome of a limit of a dataset, INCOMPLETE if it rests on a judge that its controls find useless.

    Where people's labels carry the estimate, the judge need not be right.
    """
    found = _find_failed(dataset, limit.metric, controls)
    if found is None or limit.basis is not Basis.JUDGE or limit.status not in _DECIDED:
        return limit
    return replace(limit, status=VerdictStatus.INCOMPLETE, reason=explain_failure(found))


def doubt_regression(outcome: RegressionOutcome, controls: Sequence[Controls]) -> RegressionOutcome:
    """Return the outcome of a comparison, INCOMPLETE if it rests on a judge that cannot distinguish good from bad."""
    found = _find_failed(outcome.dataset, outcome.metric, controls)
    if found is None or outcome.status not in _DECIDED:
        return outcome
    return replace(outcome, status=VerdictStatus.INCOMPLETE, reason=explain_failure(found), worsened={})


def _find_failed(dataset: str, metric: str | None, controls: Sequence[Controls]) -> Controls | None:
    failed = (one for one in controls if one.distinguishes is False)
    judged = metric and find_scored(metric)
    return next((one for one in failed if (one.dataset, one.metric) == (dataset, judged)), None)


def explain_failure(found: Controls) -> str:
    """Return why the scores of a judge decide nothing, in words for everybody."""
    good, bad = (sum(side) / len(side) for side in (found.good, found.bad))
    return (
        f"the judge cannot distinguish good from bad: {len(found.good)} cases known to be good score {good:.2f} on "
        f"average, {len(found.bad)} known to be bad {bad:.2f}. Use another judge, or trust this one with "
        "ciGate: {judge: {controls: false}}"
    )


def list_control_notes(controls: Sequence[Controls]) -> Iterator[str]:
    """Yield which judged metrics of each dataset passed the test with control cases, which did not, and why not."""
    for dataset, own in groupby(controls, key=lambda one: one.dataset):
        found = list(own)
        passed = [f"{one.metric} ({len(one.good)} + {len(one.bad)})" for one in found if one.distinguishes]
        if passed:
            yield f"{dataset}: the judge distinguishes known-good from known-bad cases: {', '.join(passed)}"
        yield from (f"{dataset}: {one.metric}: {explain_failure(one)}" for one in found if one.distinguishes is False)
        for reason, untested in groupby(found, key=lambda one: one.reason):
            if reason is not None:
                yield f"{dataset}: no control cases for {', '.join(one.metric for one in untested)}: {reason}"


def list_panel_notes(judge: JudgeDigest | None, datasets: Sequence[DatasetResult]) -> Iterator[str]:
    """Yield for each metric that a panel has scored how far its judges agree, and which judges gave no score."""
    if judge is None or not judge.panel:
        return
    from evalspec.verdict.stats.agreement import compute_interval_alpha

    names = [judge.model, *(one.model for one in judge.panel)]
    for dataset in datasets:
        for metric, every in _list_scores(dataset).items():
            found = [one for one in every if one.repeats]
            if not found:
                continue
            alpha = compute_interval_alpha([one.repeats for one in found])
            said = "unknown, because all grades are equal" if alpha is None else f"{alpha:z.2f}"
            silent = _name_silent(names, found)
            who = "judges that answered" if silent else f"{len(names)} judges"
            yield f"{dataset.name}: {metric}: agreement of the {who} (Krippendorff's alpha): {said}{silent}"


def list_order_notes(datasets: Sequence[DatasetResult]) -> Iterator[str]:
    """Yield for each metric how often the judge's choice of two answers depended on their order."""
    for dataset in datasets:
        for metric, found in _list_scores(dataset).items():
            said = describe_order(found)
            if said:
                yield f"{dataset.name}: {metric}: {said}"


def describe_order(scores: Iterable[Score]) -> str | None:
    """Return how often the judge's choice of two answers depended on their order; None if it never did."""
    judged = [one for one in scores if one.reason != SAME_ANSWER]
    count = sum((one.reason or "").startswith(BY_ORDER) for one in judged)
    of = f"{count:,} of {counted(len(judged), 'reply', 'replies')}"
    return f"the judge's choice depends on the order of the answers on {of}" if count else None


def _list_scores(dataset: DatasetResult) -> dict[str, list[Score]]:
    """Return the scores of all attempts by metric."""
    scores: dict[str, list[Score]] = {}
    for sample in dataset.samples:
        for attempt in sample.attempts or (sample,):
            for metric, score in attempt.scores.items():
                scores.setdefault(metric, []).append(score)
    return scores


def _name_silent(names: Sequence[str], scores: Sequence[Score]) -> str:
    """Return which judges of a panel gave no score on how many replies; empty if all did."""
    if all(len(one.repeats) == len(names) for one in scores):
        return ""
    left_out = Counter(name for one in scores for name in (one.reason or "").rpartition(WITHOUT)[2].split(", "))
    silent = [f"{name} on {left_out[name]:,}" for name in dict.fromkeys(names) if left_out[name]]
    return f"; no score from {', '.join(silent) or 'one of them on some'} of {counted(len(scores), 'reply', 'replies')}"
