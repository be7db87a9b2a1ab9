"""What an earlier run, or an earlier part of this one, already knows of an asking."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from evalspec.model import Attempt, Exchange, Sample, SampleStatus, Score, ScoreStatus
from evalspec.store.log_index import AttemptKey, LogIndex, StoredAttempt


@dataclass(frozen=True, slots=True)
class KnownAttempt:
    """An asking that need not be repeated, with those of its scores that count."""

    index: LogIndex
    attempt: StoredAttempt
    scores: Mapping[str, Score]

    def read_exchange(self, sample: Sample) -> Exchange:
        """The reply with its texts, from disk."""
        return self.index.read_exchange(self.attempt, sample)

    def to_attempt(self) -> Attempt:
        """The same as a run keeps it."""
        stored = self.attempt
        return stored.to_attempt(self.scores)


@dataclass(frozen=True, slots=True)
class KnownAttempts:
    """What the log of a run knows, and what of it counts.

    `retry_errors`: attempts and scores that failed do not. `texts`: replies are stored with their texts, so that they
    can be scored. `is_own`: it is the log that is being written, so that nothing of it need be written again.
    `usable`: by dataset the metrics whose scores count, None for all. `changed`: samples, by dataset and id, of
    which no score counts.
    """

    index: LogIndex
    retry_errors: bool = False
    texts: bool = True
    is_own: bool = True
    usable: Mapping[str, Collection[str]] | None = None
    changed: Collection[tuple[str, str]] = ()

    def find(self, key: AttemptKey, metrics: list[str]) -> KnownAttempt | None:
        """The asking, unless it has to be repeated. `metrics`: those to be scored, in their order.

        An agent that could not be reached was not asked: those are always asked again.
        """
        stored = self.index.attempts.get(key)
        if stored is None or stored.unreachable or (self.retry_errors and stored.status is SampleStatus.FAILED):
            return None
        scores = stored.scores
        if self.usable is not None or self.retry_errors or list(scores) != metrics:
            scores = self._select(key, scores, metrics)
        if len(scores) < len(metrics) and not self.texts and stored.status is SampleStatus.ANSWERED:
            return None
        return KnownAttempt(self.index, stored, scores)

    def _select(self, key: AttemptKey, scores: Mapping[str, Score], metrics: Collection[str]) -> dict[str, Score]:
        """Those of the scores that count."""
        if (key.dataset, key.sample_id) in self.changed:
            return {}
        counting = metrics if self.usable is None else self.usable.get(key.dataset, ())
        wanted = [name for name in metrics if name in counting and name in scores]
        return {name: scores[name] for name in wanted if not self._is_to_be_retried(scores[name])}

    def _is_to_be_retried(self, score: Score) -> bool:
        return self.retry_errors and score.status is ScoreStatus.FAILED
