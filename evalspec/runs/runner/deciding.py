"""Decide during a run whether its verdict is certain, for `--fail-fast`."""

from collections.abc import Mapping

from msgspec.structs import replace

from evalspec.model import Attempt, Need, SampleResult, SampleStatus, Score
from evalspec.runs.planning.build import Plan
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.foregone import find_foregone
from evalspec.verdict.outline import RunOutline

_CHECKS = 100
"""About how often the verdict is computed in a run, because each time reads all scores."""
_UNKNOWN = Score.failed("unknown")

LAST_ROUND = 2
"""Metrics without a judge are scored in round 0, judged ones with a limit in round 1, and all others in this one."""

Place = tuple[int, int, int]
"""Indices of the dataset and of the sample in it, from 0, and the number of the attempt, from 1."""


class Decider:
    """The scores of a run so far, of all its replies."""

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
        unknown = dict.fromkeys(planned.metrics, _UNKNOWN)
        nothing = Attempt(SampleStatus.FAILED, scores=unknown)
        attempts = (
            self._attempts.get((dataset, position, number), nothing) for number in range(1, self._outline.repeats + 1)
        )
        complete = [replace(attempt, scores={**unknown, **attempt.scores}) for attempt in attempts]
        return combine_attempts(planned.samples[position], complete, ())


def _find_root(metric: Metric) -> str:
    return (metric.root or metric).name
