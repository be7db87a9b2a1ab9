"""What the judge consumed: requests, retries and tokens, by the metric that asked."""

from dataclasses import dataclass, field
from functools import reduce

from evalspec.records import Usage


@dataclass(frozen=True, slots=True)
class JudgeUsage:
    """Requests that were answered, how many attempts had to be repeated, and the tokens that the service counted.

    `uncounted`: answers for which the service told no tokens, so that the sums are known to be too low.
    """

    calls: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: "JudgeUsage") -> "JudgeUsage":
        return JudgeUsage(
            self.calls + other.calls,
            self.retries + other.retries,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.uncounted + other.uncounted,
        )


@dataclass(slots=True)
class UsageLedger:
    """The running account of one run."""

    by_metric: dict[str, JudgeUsage] = field(default_factory=dict)

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
