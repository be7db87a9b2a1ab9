"""The limit that a report shows beside a metric: the one on the whole dataset and the metric's own statistic."""

from dataclasses import dataclass

from evalspec.records import DatasetResult, ThresholdOutcome, VerdictStatus


@dataclass(frozen=True, slots=True)
class Limit:
    """What a value is held against and what came of it."""

    min: float | None
    max: float | None
    status: VerdictStatus

    def excess(self, value: float) -> float:
        """How far a value lies beyond the limit, as a share of the limit; 0 within it."""
        below = (self.min - value) / (abs(self.min) or 1.0) if self.min is not None else 0.0
        above = (value - self.max) / (abs(self.max) or 1.0) if self.max is not None else 0.0
        return max(below, above, 0.0)


def limit_of(outcome: ThresholdOutcome) -> Limit:
    """The limit of one threshold."""
    return Limit(outcome.threshold.min, outcome.threshold.max, outcome.status)


def is_own(outcome: ThresholdOutcome, dataset: DatasetResult) -> bool:
    """Whether a threshold speaks about the value of the metric's summary, not about a slice or another statistic."""
    summary = dataset.summaries.get(outcome.threshold.metric)
    return (
        summary is not None and outcome.threshold.slice is None and outcome.threshold.stat in (None, summary.statistic)
    )


def own_limit(dataset: DatasetResult, metric: str) -> Limit | None:
    """The tightest of a metric's own thresholds with their worst status, None where it has none."""
    own = [o for o in dataset.outcomes if o.threshold.metric == metric and is_own(o, dataset)]
    if not own:
        return None
    lowest = [o.threshold.min for o in own if o.threshold.min is not None]
    highest = [o.threshold.max for o in own if o.threshold.max is not None]
    worst_first = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED, VerdictStatus.PASS)
    status = min((o.status for o in own), key=worst_first.index)
    return Limit(max(lowest, default=None), min(highest, default=None), status)
