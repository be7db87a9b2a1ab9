"""What the judge consumed: requests, retries and tokens, by the metric that asked."""

from dataclasses import dataclass, field
from functools import reduce

from evalspec.model import JudgeUsage, Usage


@dataclass(slots=True)
class UsageLedger:
    """The running account of one run."""

    by_metric: dict[str, JudgeUsage] = field(default_factory=dict)
    _taken: dict[str, JudgeUsage] = field(default_factory=dict)

    def take_new(self) -> dict[str, JudgeUsage]:
        """What was consumed since the last call of this, by metric; nothing of what was not."""
        new = {metric: used - self._taken.get(metric, JudgeUsage()) for metric, used in self.by_metric.items()}
        self._taken = dict(self.by_metric)
        return {metric: used for metric, used in new.items() if used != JudgeUsage()}

    @property
    def total(self) -> JudgeUsage:
        """All metrics together."""
        return reduce(JudgeUsage.__add__, self.by_metric.values(), JudgeUsage())

    def count_call(self, metric: str, usage: Usage | None) -> None:
        """One answer of the judge, usable or not: it was paid for."""
        if usage is None:
            self._add(metric, JudgeUsage(calls=1, uncounted=1))
        else:
            self._add(metric, JudgeUsage(1, 0, usage.input_tokens, usage.output_tokens))

    def count_retry(self, metric: str) -> None:
        """One more attempt after a failure."""
        self._add(metric, JudgeUsage(retries=1))

    def _add(self, metric: str, more: JudgeUsage) -> None:
        self.by_metric[metric] = self.by_metric.get(metric, JudgeUsage()) + more
