"""What the judge uses in one run, and the events of its calls."""

from collections.abc import Callable, Mapping
from functools import reduce

from msgspec import Struct, field

from evalspec.model import JudgeUsage

Learned = Mapping[str, Mapping[str, str]]
"""What replies say about the judge, by field of the fingerprint."""


class UsageLedger(Struct):
    """The judge's usage in one run: requests, retries and tokens by metric."""

    by_metric: dict[str, JudgeUsage] = field(default_factory=dict)
    _taken: dict[str, JudgeUsage] = field(default_factory=dict)

    def take_new(self) -> dict[str, JudgeUsage]:
        """Return the usage since the last call of this method, by metric. Metrics without new usage are left out."""
        if self.by_metric == self._taken:
            return {}
        new = {metric: used - self._taken.get(metric, JudgeUsage()) for metric, used in self.by_metric.items()}
        self._taken = dict(self.by_metric)
        return {metric: used for metric, used in new.items() if used != JudgeUsage()}

    @property
    def total(self) -> JudgeUsage:
        """The usage of all metrics."""
        return reduce(JudgeUsage.__add__, self.by_metric.values(), JudgeUsage())

    def count_request(self, metric: str, used: JudgeUsage) -> None:
        """Count one request to the judge. Unusable answers count too, because they are paid for."""
        if used != JudgeUsage():
            self.add(metric, used)

    def count_cached(self, metric: str) -> None:
        """Count one result that was taken from the cache."""
        self.add(metric, JudgeUsage(cached=1))

    def count_retry(self, metric: str) -> None:
        """Count one retry after a failure."""
        self.add(metric, JudgeUsage(retries=1))

    def add(self, metric: str, more: JudgeUsage) -> None:
        """Count what was used for a metric."""
        self.by_metric[metric] = self.by_metric.get(metric, JudgeUsage()) + more


def _ignore(_event: object) -> None:
    """Do nothing."""


class JudgeListener(Struct, frozen=True):
    """Functions that are called with events of the judge.

    `learns`: what a reply says about the judge. `waits`: seconds until the next request, after the judge was rate
    limited. `says`: a message to show immediately.
    """

    learns: Callable[[Learned], None] = _ignore
    waits: Callable[[float], None] = _ignore
    says: Callable[[str], None] = _ignore
