"""Attempts that are already stored, by an earlier session of this run or by another run."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from evalspec.model import Attempt, Cause, Exchange, Sample, SampleStatus, Score, ScoreStatus
from evalspec.model.exchanges import QUESTION_CHANGED
from evalspec.model.fingerprints import ReplyCounts
from evalspec.runs.store.log_index import AttemptKey, LogIndex, StoredAttempt


class KnownAttempt(Struct, frozen=True):
    """An attempt that is not repeated, with its reusable scores. `is_left_out`: it answers another question."""

    index: LogIndex
    attempt: StoredAttempt
    scores: Mapping[str, Score]
    is_left_out: bool = False

    def read_exchange(self, sample: Sample) -> Exchange:
        """Return the reply with its texts, from disk. A reply that is left out becomes an error."""
        if self.is_left_out:
            return Exchange(sample, error=QUESTION_CHANGED, unreachable=True)
        return self.index.read_exchange(self.attempt, sample)

    def read_scores(self, sample: Sample) -> Mapping[str, Score]:
        """Return the reusable scores with their evidence, from disk."""
        if not self.scores:
            return self.scores
        stored = next(self.index.read_at(self.attempt.places, sample)).scores
        return {name: stored.get(name, score) for name, score in self.scores.items()}

    def read_reply(self, sample: Sample) -> Exchange:
        """Return the reply as the agent gave it, without what its traces say."""
        return next(self.index.read_at(self.attempt.places[:1], sample)).exchange

    def to_attempt(self) -> Attempt:
        """Return the attempt as it is in a Run."""
        stored = self.attempt
        return stored.to_attempt(self.scores)


class KnownAttempts(Struct, frozen=True):
    """The stored attempts of a run, and the rules for reusing them.

    `retry_errors`: failed attempts and scores are not reused. `texts`: replies are stored with their texts, so they can
    be scored. `is_own`: the log is the one being written, so nothing needs to be copied. `usable`: metrics by dataset
    whose scores are reusable; None for all. `changed`: samples (dataset, id) without reusable scores. `edited`: samples
    whose question is another one than that of their replies. `origin`: what the fingerprint says about the replies.
    """

    index: LogIndex
    retry_errors: bool = False
    texts: bool = True
    is_own: bool = True
    usable: Mapping[str, Collection[str]] | None = None
    changed: Collection[tuple[str, str]] = ()
    edited: Collection[tuple[str, str]] = ()
    origin: ReplyCounts = ReplyCounts()

    def find(self, key: AttemptKey, metrics: list[str]) -> KnownAttempt | None:
        """Return a stored attempt, or None if it has to be repeated. `metrics`: metrics to score, in order.

        Attempts of this run that could not connect are always repeated.
        """
        stored = self.index.attempts.get(key)
        if stored is None or (self.retry_errors and stored.attempt.status is SampleStatus.FAILED):
            return None
        if stored.attempt.unreachable and self.is_own:
            return None
        if self.retry_errors and self.is_own and any(one.cause is Cause.TRACES for one in stored.scores.values()):
            return None  # spans do not come a second time
        if (key.dataset, key.sample_id) in self.edited:
            return KnownAttempt(self.index, stored, {}, is_left_out=True)
        scores = stored.scores
        if self.usable is not None or self.retry_errors or list(scores) != metrics or is_stopped(scores):
            scores = self._select(key, scores, metrics)
        if len(scores) < len(metrics) and not self.texts and stored.attempt.status is SampleStatus.ANSWERED:
            return None
        return KnownAttempt(self.index, stored, scores)

    def _select(self, key: AttemptKey, scores: Mapping[str, Score], metrics: Collection[str]) -> dict[str, Score]:
        if (key.dataset, key.sample_id) in self.changed:
            return {}
        counting = metrics if self.usable is None else self.usable.get(key.dataset, ())
        wanted = [name for name in metrics if name in counting and name in scores]
        return {name: scores[name] for name in wanted if not self._is_to_be_retried(scores[name])}

    def _is_to_be_retried(self, score: Score) -> bool:
        return score.cause is Cause.STOPPED or (self.retry_errors and score.status is ScoreStatus.FAILED)

    @property
    def is_stopped(self) -> bool:
        """Whether the run asked the judge no further, so that it can be continued."""
        return any(is_stopped(attempt.scores) for attempt in self.index.attempts.values())


def is_stopped(scores: Mapping[str, Score]) -> bool:
    """Return whether the run stopped before some of these scores."""
    return any(score.cause is Cause.STOPPED for score in scores.values())
