"""What a label is about, and whether it is still about the same: a reply, and the score of a metric for it."""

import json
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from msgspec import Struct, to_builtins

from evalspec.model import Cause, Exchange, Score
from evalspec.model.labels import Label, LabelVerdict, Target
from evalspec.model.scores import SAME_ANSWER
from evalspec.verdict.outline import MetricOutline

NEEDS_NO_SCORE = (LabelVerdict.RATED, LabelVerdict.WITHDRAWN)
"""Verdicts that are possible where the judge has no score."""

_DIGEST_BYTES = 16
_OF_THE_JUDGE = ("judge", "embeddings")
"""Parts of a metric's identity that say who applies it. The others say what it measures."""


class LabelMatch(StrEnum):
    """What a label says about a run. Only COUNTS counts; for the others, the value is the reason."""

    COUNTS = "counts"
    REUSABLE = "another judge or score"
    NO_VALUE = "another judge or score, and no value of the person"
    OTHER_METRIC = "the metric, its prompt or its rubric changed"
    OTHER_REPLY = "the reply or the sample changed"
    ABSENT = "the run has no such reply or score"
    UNKNOWN = "what was judged is unknown, because its text was erased"


class Case(Struct, frozen=True):
    """What a person judges: a reply with its sample, or one score of it.

    `attempt`: from 1. `metric`: None for the reply as a whole. `identity`: the parts of the metric's identity.
    `scores`: all scores of the reply. `is_erased`: whether the texts were erased; then the exchange has no reply.
    """

    run: str
    dataset: str
    attempt: int
    exchange: Exchange
    scores: Mapping[str, Score]
    metric: MetricOutline | None = None
    identity: Mapping[str, str] = {}
    is_erased: bool = False

    @property
    def sample(self) -> str:
        """The id of the sample."""
        return self.exchange.sample.id

    @property
    def target(self) -> Target:
        """What a label on it is about, as `Label.target`."""
        return self.dataset, self.sample, self.attempt, self.metric.name if self.metric else None

    @property
    def score(self) -> Score | None:
        """The score that is judged; None for the reply as a whole, or if there is none."""
        return self.scores.get(self.metric.name) if self.metric else None

    @property
    def has_value(self) -> bool:
        """Whether there is a value to judge."""
        return self.score is not None and self.score.value is not None

    @property
    def is_applicable(self) -> bool:
        """Whether people can score the reply by the metric, even if the judge has no value."""
        return is_applicable(self.score)

    def describe(self) -> dict[str, Any]:
        """Return the fields of a label that say what was judged."""
        found: dict[str, Any] = {
            "run": self.run,
            "dataset": self.dataset,
            "sample": self.sample,
            "attempt": self.attempt,
            "sample_digest": self.exchange.sample.digest,
            "reply_digest": compute_reply_digest(self.exchange),
        }
        if self.metric is None or self.score is None:
            return found
        return {
            **found,
            "metric": self.metric.name,
            "shown_value": self.score.value,
            "metric_key": self.metric.key,
            "metric_identity": dict(self.identity),
        }


def is_applicable(score: Score | None) -> bool:
    """Return whether a metric applies to a reply: there is a score, or a reason that is not the dataset's."""
    return score is not None and score.cause is not Cause.DATASET


def is_open(score: Score) -> bool:
    """Return whether people can say more about a reply than the judge: a preference of equal answers is a tie."""
    return is_applicable(score) and score.reason != SAME_ANSWER


def compute_reply_digest(exchange: Exchange) -> str | None:
    """Return a hash of everything in a reply that people and metrics judge; None without a reply.

    It is a hash of the stored texts, in which secrets are redacted.
    """
    reply = exchange.reply
    if reply is None:
        return None
    judged = [reply.response, reply.retrieved_contexts, reply.retrieved_context_ids, to_builtins(reply.tool_calls)]
    judged += [[turn.user, turn.reply.response] for turn in reply.turns]
    return blake2b(json.dumps(judged, sort_keys=True).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def match_label(label: Label, case: Case | None) -> LabelMatch:
    """Return what a label says about a run. `case`: the same reply or score there, None if there is none.

    If the texts of a sample were erased from the run, only the labels of that run count: its replies cannot change. A
    person's own score counts whatever the judge says, also where it says nothing.
    """
    if case is None or not _has_subject(label, case):
        return LabelMatch.ABSENT
    if case.is_erased or label.reply_digest is None:
        if not (case.is_erased and label.run == case.run):
            return LabelMatch.UNKNOWN
    elif not _is_same_reply(label, case):
        return LabelMatch.OTHER_REPLY
    if case.metric is None or case.score is None:
        return LabelMatch.COUNTS
    if not _is_same_metric(label, case):
        return LabelMatch.OTHER_METRIC
    if label.verdict is LabelVerdict.RATED:
        return LabelMatch.COUNTS
    if _is_same_judge(label, case) and label.shown_value == case.score.value:
        return LabelMatch.COUNTS
    return LabelMatch.NO_VALUE if label.implied_value is None else LabelMatch.REUSABLE


def _has_subject(label: Label, case: Case) -> bool:
    """Return whether a run has what a label is about."""
    if label.metric is None:
        return True
    return case.is_applicable if label.verdict in NEEDS_NO_SCORE else case.has_value


def _is_same_reply(label: Label, case: Case) -> bool:
    """Return whether sample and reply are equal. In the run of the label, the sample cannot change."""
    is_same_sample = label.sample_digest is not None and label.sample_digest == case.exchange.sample.digest
    is_same_reply = label.reply_digest == compute_reply_digest(case.exchange)
    return is_same_reply and (is_same_sample or label.run == case.run)


def _is_same_metric(label: Label, case: Case) -> bool:
    """Return whether the metric measures the same, whoever judges. Without identities, only its key shows that."""
    if case.metric is None or not label.metric_identity or not case.identity:
        return case.metric is not None and label.metric_key == case.metric.key
    return _without_judge(label.metric_identity) == _without_judge(case.identity)


def _is_same_judge(label: Label, case: Case) -> bool:
    return all(label.metric_identity.get(part) == case.identity.get(part) for part in _OF_THE_JUDGE)


def _without_judge(identity: Mapping[str, str]) -> dict[str, str]:
    return {part: value for part, value in identity.items() if part not in _OF_THE_JUDGE}
