"""Decide during a run whether its verdict is certain before all scores are known, for `--fail-fast`."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import Attempt, Cause, Need, SampleResult, SampleStatus, Score, Threshold, VerdictStatus
from evalspec.runs.planning.build import Plan
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.gate import compute_outcome
from evalspec.verdict.outline import RunOutline

_CHECKS = 100
"""About how often the verdict is computed in a run, because each time reads all scores."""
_UNKNOWN = Score.failed("unknown")
_MAY_BE_MISSING = (Cause.REPLY, Cause.JUDGE, Cause.STOPPED)
"""Causes of scores that count as missing if too many scores are not applicable. Missing scores may bring that about."""
_MAKE_INCOMPLETE = {"min_coverage", "max_error_rate", "max_not_applicable"}
"""Rules that missing scores or replies can break, so that a run within all limits is INCOMPLETE, if they are stated."""

LAST_ROUND = 2
"""Metrics without a judge are scored in round 0, judged ones with a limit in round 1, and all others in this one."""

Place = tuple[int, int, int]
"""Indices of the dataset and of the sample in it, from 0, and the number of the attempt, from 1."""


class Decider:
    """The scores of a run so far, of all its replies. A metric over attempts is unknown until the end."""

    def __init__(self, plan: Plan, outline: RunOutline, may_be_corrected: bool) -> None:
        """`may_be_corrected`: people's labels may take the place of the judge's scores."""
        self._plan, self._outline, self._may_be_corrected = plan, outline, may_be_corrected
        judged = (len(one.samples) for one in plan.datasets for m in one.metrics.values() if Need.JUDGE in m.needs)
        self._step = sum(judged) * outline.repeats / _CHECKS
        self._limited = {
            (dataset.name, _find_root(dataset.metrics[limit.metric]))
            for dataset in plan.datasets
            for limit in dataset.thresholds
            if limit.metric in dataset.metrics
        }
        self._attempts: dict[Place, Attempt] = {}
        self._new = 0

    def find_round(self, dataset: str, metric: Metric) -> int:
        """Return the round in which a metric of a dataset is scored. Metrics with the same root share theirs."""
        if Need.JUDGE not in metric.needs:
            return 0
        return 1 if (dataset, _find_root(metric)) in self._limited else LAST_ROUND

    def add(self, place: Place, attempt: Attempt) -> None:
        """Add a reply with the scores that it has."""
        self._attempts[place] = attempt

    def add_scores(self, place: Place, scores: Mapping[str, Score]) -> None:
        """Add scores of a reply. From time to time, stop the judge if the verdict is certain."""
        attempt = self._attempts[place]
        bare = {name: score.without_evidence() for name, score in scores.items()}
        self._attempts[place] = replace(attempt, scores={**attempt.scores, **bare})
        self._new += len(scores)
        if self._new >= self._step:
            self.stop_if_certain()

    def stop_if_certain(self) -> None:
        """Stop the judge if the verdict is certain."""
        self._new = 0
        results = [
            [self._combine(number, position) for position in range(len(dataset.samples))]
            for number, dataset in enumerate(self._plan.datasets)
        ]
        certain = find_foregone(self._outline, results, may_be_corrected=self._may_be_corrected)
        if certain is not None:
            self._plan.services.budget.decide(f"--fail-fast: {certain}")

    def _combine(self, dataset: int, position: int) -> SampleResult:
        planned = self._plan.datasets[dataset]
        unknown = {metric.name: _UNKNOWN for metric in self._outline.datasets[dataset].metrics}
        nothing = Attempt(SampleStatus.FAILED, scores=unknown)
        attempts = (
            self._attempts.get((dataset, position, number), nothing) for number in range(1, self._outline.repeats + 1)
        )
        complete = [replace(attempt, scores={**unknown, **attempt.scores}) for attempt in attempts]
        return combine_attempts(planned.samples[position], complete, ())


def _find_root(metric: Metric) -> str:
    return (metric.root or metric).name


def find_foregone(
    outline: RunOutline, results: Sequence[Sequence[SampleResult]], *, may_be_corrected: bool = False
) -> str | None:
    """Return why no outcome of the missing scores can change the verdict; None if one can.

    A verdict is certain if a limit is broken even if each missing score is the best possible: a broken limit fails the
    run whatever the baseline says, so no drop is confirmed. It is also certain if all limits are met even if each is
    the worst possible, and there is nothing but limits to check. Scores that may still come to count as missing are
    missing here, and an interval decides nothing, since missing scores may leave none.

    `results`: of all samples, by dataset. Missing scores are failed. `may_be_corrected`: people's labels may take the
    place of the judge's scores, so these make nothing certain.
    """
    outcomes = list(_decide_all(outline, results, may_be_corrected))
    broken = next((one for one in outcomes if one.status is VerdictStatus.FAIL), None)
    if broken is not None:
        return f"the verdict is FAIL whatever other scores are: {broken.metric}: {broken.reason}"
    statuses = {one.status for one in outcomes}
    is_met = VerdictStatus.PASS in statuses <= {VerdictStatus.PASS, VerdictStatus.NOT_GATED}
    if is_met and _checks_only_values(outline) and _is_answered(results):
        return "the verdict is PASS whatever other scores are"
    return None


def _decide_all(
    outline: RunOutline, results: Sequence[Sequence[SampleResult]], may_be_corrected: bool
) -> Iterator[Threshold]:
    for dataset, samples in zip(outline.datasets, results, strict=True):
        metrics = {metric.name: metric for metric in dataset.metrics}
        certain = [_without_doubtful(sample) for sample in samples]
        for threshold in dataset.thresholds:
            bare = replace(threshold, confidence=None)
            if may_be_corrected and metrics[threshold.metric].judged:
                yield replace(bare, status=VerdictStatus.INCOMPLETE)
                continue
            yield compute_outcome(bare, metrics[threshold.metric], certain, outline.policy, dataset.cluster)


def _without_doubtful(sample: SampleResult) -> SampleResult:
    attempts = tuple(replace(attempt, scores=_keep_certain(attempt.scores)) for attempt in sample.attempts)
    return replace(sample, scores=_keep_certain(sample.scores), attempts=attempts)


def _keep_certain(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {name: _UNKNOWN if score.cause in _MAY_BE_MISSING else score for name, score in scores.items()}


def _checks_only_values(outline: RunOutline) -> bool:
    policy: CiGate = outline.policy
    has_rules = policy.baseline is not None or policy.min_pass_rate is not None
    limits = [limit for dataset in outline.datasets for limit in dataset.thresholds]
    is_bare = all(limit.confidence is None for limit in limits)
    return is_bare and not has_rules and not _MAKE_INCOMPLETE & policy.model_fields_set


def _is_answered(results: Sequence[Sequence[SampleResult]]) -> bool:
    return all(sample.status is SampleStatus.ANSWERED for samples in results for sample in samples)
