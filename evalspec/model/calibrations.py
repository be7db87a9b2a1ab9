"""How well a judge agrees with people, kept so that later runs can be compared with it, and how stable it is."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record
from evalspec.model.curation import Count
from evalspec.model.labels import LabelConfusion, LabelShare


class Cut(StrEnum):
    """What divides good from bad scores: the metric's THRESHOLD, or without one the MIDPOINT of its range."""

    THRESHOLD = "threshold"
    MIDPOINT = "midpoint"


class Disagreement(Record, frozen=True, kw_only=True):
    """A reply that judge and people place on different sides."""

    sample: Annotated[str, Meta(description="The id of the sample.")]
    attempt: Annotated[int, Meta(ge=1, description="The attempt, from 1.")] = 1
    judge: Annotated[Number, Meta(description="The judge's score.")]
    people: Annotated[Number, Meta(description="The mean of people's scores.")]
    reason: Annotated[str | None, Meta(description="The judge's reason; null: it gave none.")] = None


class BestThreshold(Record, frozen=True, kw_only=True):
    """The threshold on the judge's scores at which judge and people agree most often about which replies are good."""

    value: Annotated[Number, Meta(description="The threshold, in the unit of the scores.")]
    agreement: Annotated[Number, Meta(description="Share of labelled replies on which they agree there, 0 to 1.")]
    cross_validated: Annotated[
        Number, Meta(description="The same, with thresholds that were chosen without the reply.")
    ]
    folds: Annotated[int, Meta(ge=2, description="Number of parts of the cross-validation.")]
    present: Annotated[Number, Meta(description="Share of replies on which they agree at the present threshold.")]

    @property
    def lost(self) -> float:
        """How much of the agreement is due to the choice by the same labels."""
        return self.agreement - self.cross_validated


class MetricCalibration(Record, frozen=True, kw_only=True):
    """How well the judge of one metric agrees with people. Good is a score from `min` to `max` of the confusion."""

    dataset: Annotated[str, Meta(description="The dataset.")]
    metric: Annotated[str, Meta(description="The metric.")]
    identity: Annotated[
        Mapping[str, str],
        Meta(description="What the scores depend on: judge, prompt (of a rubric: its digest), engine."),
    ] = {}
    samples_sha256: Annotated[str | None, Meta(description="Hash of the samples; null: unknown.")] = None
    cut: Annotated[Cut | None, Meta(description="What divides good from bad; null: see `reason`.")] = None
    labels: Annotated[Count, Meta(description="Labelled replies that count.")] = 0
    unscored: Annotated[Count, Meta(description="Labelled replies that the judge has not scored.")] = 0
    left_out: Annotated[Mapping[str, int], Meta(description="Labels that do not count, by reason.")] = {}
    confusion: Annotated[LabelConfusion | None, Meta(description="null: see `reason`.")] = None
    sensitivity: Annotated[LabelShare, Meta(description="Of the replies that people call good, the judge does.")] = (
        LabelShare()
    )
    specificity: Annotated[LabelShare, Meta(description="Of the replies that people call bad, the judge does.")] = (
        LabelShare()
    )
    people: Annotated[Number | None, Meta(description="Mean of people's scores; null: see `reason`.")] = None
    bias: Annotated[Number | None, Meta(description="Mean of judge − people, in the scores' unit; null: unknown.")] = (
        None
    )
    bias_interval: Annotated[Interval | None, Meta(description="95 % interval of `bias`; null: unknown.")] = None
    kappa: Annotated[Number | None, Meta(description="Kappa, weighted by squared differences; null: see `notes`.")] = (
        None
    )
    kappa_interval: Annotated[Interval | None, Meta(description="95 % interval of `kappa`; null: unknown.")] = None
    best: Annotated[BestThreshold | None, Meta(description="null: unknown, see `notes`.")] = None
    disagreements: Annotated[
        tuple[Disagreement, ...], Meta(description="Largest difference first. A stored calibration has none.")
    ] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What is unknown, and what to know about the numbers.")] = ()
    reason: Annotated[str | None, Meta(description="Why nothing is known; null: something is.")] = None


class JudgeCalibration(Record, frozen=True, kw_only=True):
    """The judged metrics of a run, compared with blind random labels of people."""

    run: Annotated[str, Meta(description="The run whose replies people labelled.")]
    at: Annotated[str, Meta(description="When it was computed, as 2026-11-21T10:37:06Z.")]
    metrics: Annotated[tuple[MetricCalibration, ...], Meta(description="One for each judged metric of a dataset.")] = ()


class StoredAnchor(Record, frozen=True, kw_only=True):
    """A labelled reply with the judge's grades, three or more. `digest`: of its sample, which may change later."""

    sample: str
    digest: str
    response: str
    retrieved_contexts: tuple[str, ...] | None = None
    scores: tuple[Number, ...]


class MetricAnchors(Record, frozen=True, kw_only=True):
    """The anchors of a metric. `identity`: what its scores depend on, as of a MetricCalibration."""

    dataset: str
    metric: str
    identity: Mapping[str, str] = {}
    anchors: tuple[StoredAnchor, ...] = ()


class JudgeAnchors(Record, frozen=True, kw_only=True):
    """Replies of a run on which later runs test whether the judge is still the same.

    `models`: what the judge's replies named as its model.
    """

    run: str
    models: tuple[str, ...] = ()
    metrics: tuple[MetricAnchors, ...] = ()


class TransportedShare(Record, frozen=True, kw_only=True):
    """The share of good replies in a run, if the judge errs there as it did in its calibration.

    `replies`: those that the judge scored; `missing`: the others. `judge`: share that the judge calls good. `value`,
    `interval`: corrected, 0 to 1. `tipping_point`: specificity at which the corrected share is at the limit, which
    `said` explains; None: no limit on a share, or none decides. `reason`: why nothing is known.
    """

    dataset: str
    metric: str
    replies: Count = 0
    missing: Count = 0
    judge: Number | None = None
    value: Number | None = None
    interval: Interval | None = None
    tipping_point: Number | None = None
    said: str | None = None
    notes: tuple[str, ...] = ()
    reason: str | None = None


class AppliedCalibration(Record, frozen=True, kw_only=True):
    """A calibration that is applied to another run. `calibration`: the run whose replies people labelled."""

    run: str
    calibration: str
    metrics: tuple[TransportedShare, ...] = ()


class MetricStability(Record, frozen=True, kw_only=True):
    """How much the grades differ that a judge gives to one and the same reply.

    `replies`: those with two or more grades. `flipped`: those with grades on both sides of the threshold. `flips`:
    share of the pairs of grades of one reply that are. `judge_variance`: between grades of one reply, in the unit
    squared. `reply_variance`: between replies, without the judge's part. `share`: the judge's part of the variance of a
    single grade. `repeats_needed`: grades per reply for a part of at most 10 % of the variance of the mean.
    """

    dataset: str
    metric: str
    replies: Count = 0
    gradings: Count = 0
    flipped: Count = 0
    flips: LabelShare = LabelShare()
    judge_variance: Number | None = None
    reply_variance: Number | None = None
    share: Number | None = None
    repeats_needed: Count | None = None
    notes: tuple[str, ...] = ()


class Stability(Record, frozen=True, kw_only=True):
    """The judged metrics of a run whose replies were graded several times."""

    run: str
    metrics: tuple[MetricStability, ...] = ()
